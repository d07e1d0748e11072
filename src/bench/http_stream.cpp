// SPDX-License-Identifier: MIT
#include "src/bench/http_stream.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace nib::bench {
namespace {

constexpr size_t kLineMax = 16 << 10;
constexpr int kHeadLinesMax = 256;

Error network(const Url& url, const std::string& what) {
    return {Status::Io, url.authority + ": " + what};
}

std::string reason(int number) {
    return number == EAGAIN || number == EWOULDBLOCK ? "no answer in time" : std::strerror(number);
}

bool same_word(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](unsigned char x, unsigned char y) { return (x | 32) == (y | 32); });
}

bool read_number(std::string_view text, uint64_t& value, int base) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    return error == std::errc() && end == text.data() + text.size();
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
        text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
        text.remove_suffix(1);
    return text;
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
    const Error bad{Status::BadRequest,
                    "expected http://HOST[:PORT], got '" + std::string(text.substr(0, 200)) + "'"};
    const std::string_view scheme = "http://";
    const bool plain =
        std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > ' ' && c < 127; });
    if (text.substr(0, scheme.size()) != scheme || !plain) return bad;
    text.remove_prefix(scheme.size());
    const size_t slash = std::min(text.find('/'), text.size());
    Url url;
    url.authority = text.substr(0, slash);
    url.prefix = text.substr(slash);
    while (!url.prefix.empty() && url.prefix.back() == '/')
        url.prefix.pop_back();
    std::string_view host = url.authority;
    const bool bracket = !host.empty() && host.front() == '[';
    const size_t host_end = bracket ? host.find(']') : host.find(':');
    if (bracket && host_end == std::string_view::npos) return bad;
    const size_t colon = bracket ? host_end + 1 : std::min(host_end, host.size());
    url.host = bracket ? host.substr(1, host_end - 1) : host.substr(0, colon);
    url.port = "80";
    if (colon < host.size()) {
        uint64_t port = 0;
        if (host[colon] != ':' || !read_number(host.substr(colon + 1), port, 10)) return bad;
        if (port == 0 || port > 65535) return bad;
        url.port = std::to_string(port);
    }
    if (url.host.empty()) return bad;
    return url;
}

HttpStream& HttpStream::operator=(HttpStream&& other) noexcept {
    if (this == &other) return *this;
    close();
    fd_ = std::exchange(other.fd_, -1);
    url_ = std::move(other.url_);
    buffer_ = std::move(other.buffer_);
    body_ = other.body_;
    left_ = other.left_;
    first_chunk_ = other.first_chunk_;
    close_after_ = other.close_after_;
    return *this;
}

void HttpStream::close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

Result<HttpStream> HttpStream::connect(const Url& url, int timeout_seconds) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int failed = getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found);
    if (failed) return network(url, gai_strerror(failed));
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, freeaddrinfo);
    int error = 0;
    for (const addrinfo* address = found; address; address = address->ai_next) {
        HttpStream stream;
        stream.url_ = url;
        stream.fd_ = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (stream.fd_ < 0) {
            error = errno;
            continue;
        }
        const timeval timeout{.tv_sec = timeout_seconds, .tv_usec = 0};
        const int on = 1;
        setsockopt(stream.fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
        setsockopt(stream.fd_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
        setsockopt(stream.fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (::connect(stream.fd_, address->ai_addr, address->ai_addrlen) == 0) return stream;
        error = errno;
    }
    return network(url, reason(error));
}

Result<void> HttpStream::send_all(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return network(url_, reason(errno));
        bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return {};
}

Result<void> HttpStream::post(const std::string& path,
                              std::string_view body,
                              const std::string& bearer) {
    std::string text = "POST " + url_.prefix + path + " HTTP/1.1\r\nHost: " + url_.authority +
                       "\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\n" +
                       "Content-Length: " + std::to_string(body.size()) + "\r\n";
    if (!bearer.empty()) text += "Authorization: Bearer " + bearer + "\r\n";
    text += "\r\n";
    text += body;
    return send_all(text);
}

Result<bool> HttpStream::receive() {
    char bytes[16 << 10];
    for (;;) {
        const ssize_t count = recv(fd_, bytes, sizeof bytes, 0);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return network(url_, reason(errno));
        buffer_.append(bytes, static_cast<size_t>(count));
        return count > 0;
    }
}

Result<std::string> HttpStream::line() {
    for (;;) {
        const size_t end = buffer_.find('\n');
        if (end != std::string::npos) {
            std::string text = buffer_.substr(0, end);
            buffer_.erase(0, end + 1);
            if (!text.empty() && text.back() == '\r') text.pop_back();
            return text;
        }
        if (buffer_.size() > kLineMax) return network(url_, "a line without an end");
        NIB_ASSIGN(const bool more, receive());
        if (!more) return network(url_, "the connection was closed before the answer ended");
    }
}

Result<void> HttpStream::read_header(std::string_view name, std::string_view value) {
    if (same_word(name, "content-length")) {
        if (!read_number(value, left_, 10)) return network(url_, "a Content-Length that is none");
        if (body_ != Body::Chunked) body_ = Body::Length;
    } else if (same_word(name, "transfer-encoding")) {
        if (!same_word(value, "chunked")) return network(url_, "an unknown Transfer-Encoding");
        body_ = Body::Chunked;
    } else if (same_word(name, "connection")) {
        close_after_ = close_after_ || same_word(value, "close");
    }
    return {};
}

Result<int> HttpStream::read_head() {
    NIB_ASSIGN(const std::string first, line());
    uint64_t status = 0;
    if (first.rfind("HTTP/1.", 0) != 0 || first.size() < 12 ||
        !read_number(std::string_view(first).substr(9, 3), status, 10)) {
        return network(url_, "the answer is not HTTP/1.1");
    }
    body_ = Body::UntilClose;
    left_ = 0;
    close_after_ = false;
    for (int count = 0; count < kHeadLinesMax; ++count) {
        NIB_ASSIGN(const std::string text, line());
        if (text.empty()) {
            if (body_ == Body::Chunked) left_ = 0;
            first_chunk_ = true;
            return static_cast<int>(status);
        }
        const size_t colon = std::min(text.find(':'), text.size() - 1);
        const std::string_view view = text;
        NIB_TRY(read_header(view.substr(0, colon), trimmed(view.substr(colon + 1))));
    }
    return network(url_, "more than " + std::to_string(kHeadLinesMax) + " header lines");
}

// Reads the line with the next chunk's size; after the last one also what follows it.
Result<void> HttpStream::open_chunk() {
    if (!first_chunk_) {
        NIB_ASSIGN(const std::string empty, line());
        if (!empty.empty()) return network(url_, "a chunk that is longer than it says");
    }
    first_chunk_ = false;
    NIB_ASSIGN(const std::string text, line());
    const std::string_view size = std::string_view(text).substr(0, text.find(';'));
    if (!read_number(trimmed(size), left_, 16)) return network(url_, "a chunk without a size");
    if (left_ > 0) return {};
    for (int count = 0; count < kHeadLinesMax; ++count) {
        NIB_ASSIGN(const std::string trailer, line());
        if (trailer.empty()) {
            body_ = Body::None;
            return {};
        }
    }
    return network(url_, "too many lines after the body");
}

Result<bool> HttpStream::read_body(std::string& out) {
    if (body_ == Body::Chunked && left_ == 0) NIB_TRY(open_chunk());
    if (body_ == Body::Length && left_ == 0) body_ = Body::None;
    if (body_ == Body::None) return false;
    if (buffer_.empty()) {
        NIB_ASSIGN(const bool more, receive());
        if (!more && body_ != Body::UntilClose) {
            return network(url_, "the connection was closed before the answer ended");
        }
        if (!more) {
            body_ = Body::None;
            close_after_ = true;
            return false;
        }
    }
    const uint64_t most = body_ == Body::UntilClose ? buffer_.size() : left_;
    const size_t count = static_cast<size_t>(std::min<uint64_t>(most, buffer_.size()));
    out.append(buffer_, 0, count);
    buffer_.erase(0, count);
    if (body_ != Body::UntilClose) left_ -= count;
    return true;
}

}  // namespace nib::bench
