// SPDX-License-Identifier: MIT
#include "src/server/head_check.h"

#include "src/server/limits.h"

#include <algorithm>
#include <charconv>

#include <arpa/inet.h>

namespace nib {
namespace {

bool is_token_char(char c) {
    if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) return true;
    return c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return out;
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
        text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
        text.remove_suffix(1);
    return text;
}

HeadProblem bad(const std::string& message) {
    return {400, message};
}

// Printable bytes, blanks and what is beyond ASCII; no other control character.
bool is_field_text(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
    });
}

HeadProblem read_request_line(std::string_view line, RequestHead& head) {
    const size_t first = line.find(' ');
    const size_t last = line.rfind(' ');
    if (first == std::string_view::npos || first == last) {
        return bad("request line: expected METHOD TARGET VERSION");
    }
    const std::string_view method = line.substr(0, first);
    std::string_view target = line.substr(first + 1, last - first - 1);
    const std::string_view version = line.substr(last + 1);
    if (!is_token(method) || method.size() > 16) return bad("request line: not a method");
    if (version != "HTTP/1.1" && version != "HTTP/1.0") {
        return bad("request line: expected HTTP/1.1 or HTTP/1.0");
    }
    const bool printable =
        std::all_of(target.begin(), target.end(), [](char c) { return c > 0x20 && c < 0x7f; });
    const bool asterisk = target == "*" && method == "OPTIONS";
    if (!printable || (!asterisk && (target.empty() || target[0] != '/'))) {
        return bad("request line: expected a target that begins with /");
    }
    head.method = method;
    head.http10 = version == "HTTP/1.0";
    const size_t question = target.find('?');
    if (question != std::string_view::npos) head.query = target.substr(question + 1);
    head.path = target.substr(0, question);
    return {};
}

HeadProblem read_fields(std::string_view rest, RequestHead& head) {
    while (!rest.empty()) {
        const size_t end = rest.find("\r\n");
        const std::string_view line = rest.substr(0, end);
        rest.remove_prefix(end + 2);
        if (line.empty()) break;
        if (line.size() > kHeaderFieldMax) return {431, "a header field is too long"};
        if (head.headers.size() >= kHeaderFieldsMax) return {431, "too many header fields"};
        const size_t colon = line.find(':');
        if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
            return bad("header field: expected NAME: VALUE");
        }
        const std::string_view value = trimmed(line.substr(colon + 1));
        if (!is_field_text(value)) return bad("header field: a control character");
        head.headers.emplace_back(lower(line.substr(0, colon)), value);
    }
    return {};
}

// How often a field is there; value: of the last one.
int count_field(const RequestHead& head, std::string_view name, std::string_view& value) {
    int n = 0;
    for (const auto& [field, text] : head.headers) {
        if (field != name) continue;
        value = text;
        n++;
    }
    return n;
}

HeadProblem read_length(RequestHead& head) {
    std::string_view length, coding;
    const int n_lengths = count_field(head, "content-length", length);
    const int n_codings = count_field(head, "transfer-encoding", coding);
    if (n_lengths > 1) return bad("more than one Content-Length");
    if (n_lengths > 0 && n_codings > 0) return bad("Content-Length and Transfer-Encoding");
    if (n_codings > 1 || (n_codings == 1 && lower(coding) != "chunked")) {
        return bad("Transfer-Encoding: expected chunked");
    }
    if (n_codings == 1 && head.http10) return bad("Transfer-Encoding: not in HTTP/1.0");
    head.chunked = n_codings == 1;
    if (n_lengths == 0) return {};
    if (length.empty() || length.find_first_not_of("0123456789") != std::string_view::npos) {
        return bad("Content-Length: expected digits");
    }
    uint64_t value = 0;
    const auto parsed = std::from_chars(length.data(), length.data() + length.size(), value);
    if (parsed.ec != std::errc()) return {413, "Content-Length: the body is too large"};
    head.content_length = value;
    return {};
}

// A host with an optional port; letters, digits and what names and addresses are made of.
bool is_host(std::string_view text) {
    return !text.empty() && text.size() <= 262 &&
           text.find_first_not_of(
               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
               ".-_:[]") == std::string_view::npos;
}

HeadProblem read_host(RequestHead& head) {
    std::string_view host;
    const int n = count_field(head, "host", host);
    if (n > 1) return bad("more than one Host");
    if (n == 0 && !head.http10) return bad("Host is missing");
    if (n == 1 && !is_host(host)) return bad("Host: expected a name");
    head.host = lower(host);
    return {};
}

// Lists such as "keep-alive, Upgrade".
bool has_option(std::string_view list, std::string_view option) {
    while (!list.empty()) {
        const size_t comma = std::min(list.find(','), list.size());
        if (lower(trimmed(list.substr(0, comma))) == option) return true;
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return false;
}

// The name or address in front of the port, without brackets.
std::string_view host_name(std::string_view host) {
    if (!host.empty() && host[0] == '[') {
        const size_t close = host.find(']');
        const std::string_view rest = close == host.npos ? "" : host.substr(close + 1);
        if (close == host.npos || (!rest.empty() && rest[0] != ':')) return {};
        return host.substr(1, close - 1);
    }
    const size_t colon = host.find(':');
    if (colon != host.npos && host.find(':', colon + 1) != host.npos) return {};
    return host.substr(0, colon);
}

bool is_address(std::string_view name) {
    const std::string text(name);
    unsigned char bytes[16];
    return inet_pton(AF_INET, text.c_str(), bytes) == 1 ||
           inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

bool contains(const std::vector<std::string>& list, std::string_view text) {
    return std::find(list.begin(), list.end(), "*") != list.end() ||
           std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

std::string_view RequestHead::header(std::string_view name) const {
    for (const auto& [field, value] : headers) {
        if (field == name) return value;
    }
    return {};
}

HeadScan scan_head(std::string_view bytes, const HeadScan& before) {
    if (!bytes.empty() && !is_token_char(bytes[0])) return {0, bad("not an HTTP request")};
    size_t line = before.line, i = before.seen;
    const size_t most = std::min(bytes.size(), kHeadMax);
    for (; i < most; i++) {
        const bool first = line == 0;
        if (i - line > (first ? kRequestLineMax : kHeaderFieldMax)) {
            return {0, first ? HeadProblem{414, "the request line is too long"}
                             : HeadProblem{431, "a header field is too long"}};
        }
        if (bytes[i] == '\0') return {0, bad("a NUL in the head")};
        if (bytes[i] == '\n') return {0, bad("a line that does not end with CRLF")};
        if (bytes[i] != '\r') continue;
        if (i + 1 >= bytes.size()) break;
        if (bytes[i + 1] != '\n') return {0, bad("a CR without LF")};
        if (i == line) return {i + 2, {}};
        line = i + 2;
        i++;
    }
    if (bytes.size() > kHeadMax) return {0, {431, "the head is too large"}};
    return {.seen = i, .line = line};
}

HeadProblem check_head(std::string_view bytes, RequestHead& head) {
    const size_t end = bytes.find("\r\n");
    if (end == std::string_view::npos) return bad("request line: no end");
    HeadProblem problem = read_request_line(bytes.substr(0, end), head);
    if (problem.status == 0) problem = read_fields(bytes.substr(end + 2), head);
    if (problem.status == 0) problem = read_length(head);
    if (problem.status == 0) problem = read_host(head);
    if (problem.status != 0) return problem;
    const std::string_view connection = head.header("connection");
    head.keep_alive =
        head.http10 ? has_option(connection, "keep-alive") : !has_option(connection, "close");
    const std::string expect = lower(head.header("expect"));
    if (!expect.empty() && expect != "100-continue") return {417, "Expect: 100-continue only"};
    head.expects_continue = !expect.empty() && !head.http10;
    return {};
}

std::optional<uint64_t> read_chunk_size(std::string_view line) {
    const size_t end = std::min(line.find(';'), line.size());
    const std::string_view digits = trimmed(line.substr(0, end));
    const auto is_hex = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    };
    if (digits.empty() || digits.front() != line.front()) return std::nullopt;
    if (!std::all_of(digits.begin(), digits.end(), is_hex)) return std::nullopt;
    if (!is_field_text(line)) return std::nullopt;
    uint64_t size = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), size, 16);
    if (parsed.ec != std::errc()) return std::nullopt;
    return size;
}

bool is_cross_origin(const RequestHead& head) {
    const std::string origin = lower(head.header("origin"));
    if (origin.empty()) return false;
    return origin != "http://" + head.host && origin != "https://" + head.host;
}

HeadProblem check_peer(const RequestHead& head, const PeerPolicy& policy) {
    if (!head.host.empty()) {
        const std::string_view name = host_name(head.host);
        const bool ours = !name.empty() && (contains(policy.hosts, name) ||
                                            (policy.any_address && is_address(name)));
        if (!ours) return {403, "Host: this server does not go by that name (--allowed-host)"};
    }
    size_t origins = 0;
    for (const auto& [name, value] : head.headers)
        origins += name == "origin";
    const bool foreign =
        is_cross_origin(head) && !contains(policy.origins, lower(head.header("origin")));
    if (origins > 1 || foreign) {
        return {403, "Origin: pages of other sites are not served (--cors-origins)"};
    }
    return {};
}

}  // namespace nib
