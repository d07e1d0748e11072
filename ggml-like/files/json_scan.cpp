// SPDX-License-Identifier: MIT
#include "ggml-like/files/json_scan.h"

#include "ggml-like/files/text.h"

#include <algorithm>
#include <charconv>

namespace nib {
namespace {

bool digit(char c) {
    return c >= '0' && c <= '9';
}

void append_utf8(std::string& out, uint32_t code) {
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
    if (code < 0x80) {
        out += static_cast<char>(code);
    } else if (code < 0x800) {
        out += static_cast<char>(0xc0 | code >> 6);
        tail(0);
    } else if (code < 0x10000) {
        out += static_cast<char>(0xe0 | code >> 12);
        tail(6), tail(0);
    } else {
        out += static_cast<char>(0xf0 | code >> 18);
        tail(12), tail(6), tail(0);
    }
}

}  // namespace

Error JsonScanner::bad(const std::string& what) const {
    return {Status::BadFile, join({"JSON byte ", std::to_string(at_), ": ", what})};
}

void JsonScanner::skip_blanks() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
        at_++;
    }
}

void JsonScanner::after_value() {
    state_ = objects_.empty() ? State::Done : State::AfterValue;
}

Result<JsonToken> JsonScanner::next() {
    skip_blanks();
    if (at_ == text_.size()) {
        if (state_ == State::Done) return JsonToken{};
        return bad("ends too early");
    }
    const char c = text_[at_];
    switch (state_) {
    case State::Done:
        return bad("more text after the value");
    case State::Value:
        return value();
    case State::FirstItemOrEnd:
        return c == ']' ? close() : value();
    case State::FirstKeyOrEnd:
        return c == '}' ? close() : member();
    case State::NextKey:
        return member();
    case State::AfterValue:
        break;
    }
    if (c == (objects_.back() ? '}' : ']')) return close();
    if (c != ',') return bad("expected a comma or the end of the object or array");
    at_++;
    state_ = objects_.back() ? State::NextKey : State::Value;
    return next();  // once: neither of these states comes back here
}

Result<JsonToken> JsonScanner::value() {
    const char c = text_[at_];
    if (c == '{' || c == '[') return open(c == '{');
    if (c == '"') {
        NIB_ASSIGN(std::string text, quoted_text());
        after_value();
        return JsonToken{JsonKind::String, std::move(text)};
    }
    if (c == '-' || digit(c)) return number();
    return word();
}

Result<JsonToken> JsonScanner::open(bool object) {
    if (objects_.size() >= kDepthMax)
        return bad(join({"nested deeper than ", std::to_string(kDepthMax)}));
    objects_.push_back(object);
    at_++;
    state_ = object ? State::FirstKeyOrEnd : State::FirstItemOrEnd;
    return JsonToken{object ? JsonKind::ObjectBegin : JsonKind::ArrayBegin, {}};
}

Result<JsonToken> JsonScanner::close() {
    const bool object = objects_.back();
    objects_.pop_back();
    at_++;
    after_value();
    return JsonToken{object ? JsonKind::ObjectEnd : JsonKind::ArrayEnd, {}};
}

Result<JsonToken> JsonScanner::member() {
    if (text_[at_] != '"') return bad("expected a key");
    NIB_ASSIGN(std::string text, quoted_text());
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != ':') return bad("expected a colon");
    at_++;
    state_ = State::Value;
    return JsonToken{JsonKind::Key, std::move(text)};
}

Result<std::string> JsonScanner::quoted_text() {
    std::string out;
    for (at_++; at_ < text_.size();) {
        const size_t start = at_;
        while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
               static_cast<uint8_t>(text_[at_]) >= 0x20) {
            at_++;
        }
        out += text_.substr(start, at_ - start);
        if (at_ == text_.size()) break;
        if (text_[at_] == '\\') {
            NIB_TRY(escape(out));
        } else if (text_[at_] == '"') {
            if (!is_utf8(out)) return bad("a string is not UTF-8");
            at_++;
            return out;
        } else {
            return bad("a control character in a string");
        }
    }
    return bad("a string does not end");
}

Result<void> JsonScanner::escape(std::string& out) {
    at_++;
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    at_++;
    switch (c) {
    case '"':
    case '\\':
    case '/':
        out += c;
        return {};
    case 'b':
        out += '\b';
        return {};
    case 'f':
        out += '\f';
        return {};
    case 'n':
        out += '\n';
        return {};
    case 'r':
        out += '\r';
        return {};
    case 't':
        out += '\t';
        return {};
    case 'u':
        break;
    default:
        at_ = std::min(at_ - 1, text_.size());
        return bad("unknown escape");
    }
    NIB_ASSIGN(uint32_t code, hex4());
    if (code >= 0xd800 && code < 0xdc00) {
        if (text_.substr(at_, 2) != "\\u") return bad("half a surrogate pair");
        at_ += 2;
        NIB_ASSIGN(const uint32_t low, hex4());
        if (low < 0xdc00 || low > 0xdfff) return bad("half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code <= 0xdfff) {
        return bad("half a surrogate pair");
    }
    append_utf8(out, code);
    return {};
}

Result<uint32_t> JsonScanner::hex4() {
    uint32_t code = 0;
    const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4) {
        return bad("\\u without four hex digits");
    }
    at_ += 4;
    return code;
}

Result<JsonToken> JsonScanner::number() {
    const size_t start = at_;
    const auto digits = [&] {
        const size_t first = at_;
        while (at_ < text_.size() && digit(text_[at_]))
            at_++;
        return at_ > first;
    };
    const auto here = [&](char c) { return at_ < text_.size() && text_[at_] == c; };
    if (here('-')) at_++;
    const bool zero = here('0');
    const size_t whole = at_;
    if (!digits() || (zero && at_ - whole > 1)) return bad("not a number");
    if (here('.')) {
        at_++;
        if (!digits()) return bad("not a number");
    }
    if (here('e') || here('E')) {
        at_++;
        if (here('+') || here('-')) at_++;
        if (!digits()) return bad("not a number");
    }
    after_value();
    return JsonToken{JsonKind::Number, std::string(text_.substr(start, at_ - start))};
}

Result<JsonToken> JsonScanner::word() {
    for (const std::string_view known : {"true", "false", "null"}) {
        if (!text_.substr(at_).starts_with(known)) continue;
        at_ += known.size();
        after_value();
        return JsonToken{JsonKind::Word, std::string(known)};
    }
    return bad("expected a value");
}

Result<void> JsonScanner::skip(const JsonToken& first) {
    if (first.kind != JsonKind::ObjectBegin && first.kind != JsonKind::ArrayBegin) return {};
    const size_t outside = objects_.size() - 1;
    while (objects_.size() > outside)
        NIB_TRY(next());
    return {};
}

Result<JsonToken> JsonScanner::expect(JsonKind kind, const char* what) {
    NIB_ASSIGN(JsonToken token, next());
    if (token.kind != kind) return bad(join({"expected ", what}));
    return token;
}

Result<JsonToken> JsonScanner::key() {
    NIB_ASSIGN(JsonToken token, next());
    if (token.kind != JsonKind::Key && token.kind != JsonKind::ObjectEnd)
        return bad("expected a key");
    return token;
}

Result<uint64_t> JsonScanner::whole(const char* what, const JsonToken& token) {
    uint64_t value = 0;
    const char* end = token.text.data() + token.text.size();
    const auto [stop, error] = std::from_chars(token.text.data(), end, value);
    if (token.kind == JsonKind::Number && error == std::errc() && stop == end) return value;
    return Error{
        Status::BadFile,
        join({what, " has ", token.kind == JsonKind::Number ? quoted(token.text) : "no number",
              ": expected whole numbers in 0..2^64-1"})};
}

}  // namespace nib
