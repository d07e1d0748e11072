// SPDX-License-Identifier: MIT
// Text to tree and back. The reader is ours, iterative and checked: open containers live on an
// explicit stack, each keeps its finished members in a plain vector and becomes a Json only when it
// closes. So the library's own recursive parser, its linear search for each inserted key and its
// exceptions are never met. A key is looked for in a sorted set of its object: n keys cost n log n
// whatever they spell.
#include "src/json/json.h"

#include <charconv>
#include <exception>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace nib {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

std::string show_byte(std::string_view text, size_t at) {
    if (at >= text.size()) return "the end";
    const auto c = static_cast<unsigned char>(text[at]);
    if (c > 0x20 && c < 0x7f) return std::string("'") + static_cast<char>(c) + "'";
    static const char* const kHex = "0123456789abcdef";
    return std::string("byte 0x") + kHex[c >> 4] + kHex[c & 15];
}

// Length of the well-formed UTF-8 sequence at `at`, or 0. Overlong forms, surrogates and code
// points above U+10FFFF are not well formed.
size_t utf8_length(std::string_view text, size_t at) {
    const auto byte = [&](size_t i) -> unsigned {
        return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
    };
    const auto tail = [&](size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
    const unsigned lead = byte(0);
    if (lead < 0x80) return 1;
    if (lead >= 0xc2 && lead <= 0xdf) return tail(1) ? 2 : 0;
    if (lead >= 0xe0 && lead <= 0xef) {
        if (!tail(1) || !tail(2)) return 0;
        if (lead == 0xe0 && byte(1) < 0xa0) return 0;
        return lead == 0xed && byte(1) >= 0xa0 ? 0 : 3;
    }
    if (lead >= 0xf0 && lead <= 0xf4) {
        if (!tail(1) || !tail(2) || !tail(3)) return 0;
        if (lead == 0xf0 && byte(1) < 0x90) return 0;
        return lead == 0xf4 && byte(1) >= 0x90 ? 0 : 4;
    }
    return 0;
}

void append_utf8(std::string& out, uint32_t code) {
    const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xc0 | code >> 6), put(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
    } else {
        put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f));
        put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
    }
}

// A number out of a double's range is either huge or tiny: says whether it is huge.
bool is_huge(std::string_view number) {
    int64_t point = 0, first = -1, digits = 0, exponent = 0;
    bool seen_point = false;
    size_t i = 0;
    for (; i < number.size() && number[i] != 'e' && number[i] != 'E'; ++i) {
        if (number[i] == '.') {
            seen_point = true;
        } else if (is_digit(number[i])) {
            if (first < 0 && number[i] != '0') first = digits;
            ++digits;
            if (!seen_point) ++point;
        }
    }
    bool negative = false;
    for (++i; i < number.size(); ++i) {
        if (number[i] == '-') negative = true;
        if (is_digit(number[i]) && exponent < 1'000'000'000) {
            exponent = exponent * 10 + (number[i] - '0');
        }
    }
    return point - first + (negative ? -exponent : exponent) > 0;
}

// An open array or object: what it holds so far, and for an object the keys seen and the one whose
// value comes next.
struct Frame {
    bool is_object = false;
    std::vector<Json> values;
    std::vector<std::string> names;
    std::set<std::string, std::less<>> seen;
};

class Reader {
  public:
    Reader(std::string_view text, const JsonLimits& limits) : text_(text), limits_(limits) {}
    Result<Json> read();

  private:
    enum class Want { Value, ValueOrEnd, KeyOrEnd, Key, CommaOrEnd, Nothing };

    Error error(size_t at, const std::string& what) const {
        return Error{Status::BadRequest, "JSON, byte " + std::to_string(at) + ": " + what};
    }
    Error expected(const char* what) const {
        return error(at_, std::string("expected ") + what + ", got " + show_byte(text_, at_));
    }
    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    void skip_space() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' ||
                                      text_[at_] == '\r' || text_[at_] == '\t')) {
            ++at_;
        }
    }
    Result<void> step();
    Result<void> read_value();
    Result<void> read_key();
    Result<void> read_comma();
    Result<void> open(bool is_object);
    Result<void> close();
    Result<void> finish(Json value);
    Result<Json> read_literal();
    Result<Json> read_number();
    Result<std::string> read_string();
    Result<void> read_escape(std::string& out);
    Result<uint32_t> read_hex4();

    std::string_view text_;
    JsonLimits limits_;
    size_t at_ = 0;
    uint64_t n_values_ = 0;
    Want want_ = Want::Value;
    std::vector<Frame> stack_;
    Json root_;
};

Result<Json> Reader::read() {
    if (text_.substr(0, 3) == "\xef\xbb\xbf") at_ = 3;
    while (want_ != Want::Nothing) {
        skip_space();
        NIB_TRY(step());
    }
    skip_space();
    if (at_ < text_.size()) return expected("the end");
    return std::move(root_);
}

Result<void> Reader::step() {
    const char c = peek();
    switch (want_) {
    case Want::ValueOrEnd:
        return c == ']' ? close() : read_value();
    case Want::KeyOrEnd:
        return c == '}' ? close() : read_key();
    case Want::Key:
        return read_key();
    case Want::CommaOrEnd:
        return read_comma();
    case Want::Value:
    case Want::Nothing:
        break;
    }
    return read_value();
}

Result<void> Reader::read_value() {
    if (++n_values_ > limits_.values) {
        return error(at_, "more than " + std::to_string(limits_.values) + " values");
    }
    const char c = peek();
    if (c == '{' || c == '[') return open(c == '{');
    if (c == '"') {
        NIB_ASSIGN(std::string text, read_string());
        return finish(Json(std::move(text)));
    }
    if (c == '-' || is_digit(c)) {
        NIB_ASSIGN(Json number, read_number());
        return finish(std::move(number));
    }
    NIB_ASSIGN(Json literal, read_literal());
    return finish(std::move(literal));
}

Result<void> Reader::read_key() {
    if (peek() != '"') return expected("a key in quotes");
    const size_t start = at_;
    NIB_ASSIGN(std::string key, read_string());
    Frame& frame = stack_.back();
    if (!frame.seen.insert(key).second) {
        return error(start, "the key is in this object already");
    }
    frame.names.push_back(std::move(key));
    skip_space();
    if (peek() != ':') return expected("':'");
    ++at_;
    want_ = Want::Value;
    return {};
}

Result<void> Reader::read_comma() {
    const bool is_object = stack_.back().is_object;
    const char c = peek();
    if (c == (is_object ? '}' : ']')) return close();
    if (c != ',') return expected(is_object ? "',' or '}'" : "',' or ']'");
    ++at_;
    want_ = is_object ? Want::Key : Want::Value;
    return {};
}

Result<void> Reader::open(bool is_object) {
    if (stack_.size() >= limits_.depth) {
        return error(at_, "nested deeper than " + std::to_string(limits_.depth));
    }
    ++at_;
    stack_.emplace_back();
    stack_.back().is_object = is_object;
    want_ = is_object ? Want::KeyOrEnd : Want::ValueOrEnd;
    return {};
}

Result<void> Reader::close() {
    ++at_;
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    if (!frame.is_object) {
        Json array = Json::array();
        array.get_ref<Json::array_t&>() = std::move(frame.values);
        return finish(std::move(array));
    }
    Json object = Json::object();
    auto& members = object.get_ref<Json::object_t&>();
    members.reserve(frame.values.size());
    for (size_t i = 0; i < frame.values.size(); ++i) {
        members.emplace_back(std::move(frame.names[i]), std::move(frame.values[i]));
    }
    return finish(std::move(object));
}

Result<void> Reader::finish(Json value) {
    if (stack_.empty()) {
        root_ = std::move(value);
        want_ = Want::Nothing;
        return {};
    }
    stack_.back().values.push_back(std::move(value));
    want_ = Want::CommaOrEnd;
    return {};
}

Result<Json> Reader::read_literal() {
    const std::string_view rest = text_.substr(at_);
    const auto take = [&](std::string_view word) {
        if (rest.substr(0, word.size()) != word) return false;
        at_ += word.size();
        return true;
    };
    if (take("true")) return Json(true);
    if (take("false")) return Json(false);
    if (take("null")) return Json(nullptr);
    return expected("a value");
}

Result<Json> Reader::read_number() {
    const size_t start = at_;
    bool is_integer = true;
    if (peek() == '-') ++at_;
    if (!is_digit(peek())) return expected("a digit");
    if (peek() == '0') {
        ++at_;
    } else {
        while (is_digit(peek()))
            ++at_;
    }
    if (peek() == '.') {
        is_integer = false;
        ++at_;
        if (!is_digit(peek())) return expected("a digit");
        while (is_digit(peek()))
            ++at_;
    }
    if (peek() == 'e' || peek() == 'E') {
        is_integer = false;
        ++at_;
        if (peek() == '+' || peek() == '-') ++at_;
        if (!is_digit(peek())) return expected("a digit");
        while (is_digit(peek()))
            ++at_;
    }
    const char* first = text_.data() + start;
    const char* last = text_.data() + at_;
    if (is_integer && *first != '-') {
        uint64_t n = 0;
        if (std::from_chars(first, last, n).ec == std::errc()) return Json(n);
    } else if (is_integer) {
        int64_t n = 0;
        if (std::from_chars(first, last, n).ec == std::errc()) return Json(n);
    }
    double x = 0;
    if (std::from_chars(first, last, x).ec == std::errc()) return Json(x);
    if (is_huge(text_.substr(start, at_ - start))) {
        return error(start, "the number does not fit a double");
    }
    return Json(*first == '-' ? -0.0 : 0.0);
}

Result<std::string> Reader::read_string() {
    const size_t start = at_++;
    std::string out;
    while (true) {
        if (at_ >= text_.size()) return error(start, "the string has no end");
        if (out.size() > limits_.string_bytes) {
            return error(start,
                         "a string above " + std::to_string(limits_.string_bytes) + " bytes");
        }
        const char c = text_[at_];
        if (c == '"') break;
        if (c == '\\') {
            NIB_TRY(read_escape(out));
            continue;
        }
        if (static_cast<unsigned char>(c) < 0x20)
            return expected("no raw control character in a string");
        const size_t n = utf8_length(text_, at_);
        if (n == 0) return error(at_, "not valid UTF-8");
        out.append(text_, at_, n);
        at_ += n;
    }
    ++at_;
    if (out.size() > limits_.string_bytes) {
        return error(start, "a string above " + std::to_string(limits_.string_bytes) + " bytes");
    }
    return out;
}

Result<void> Reader::read_escape(std::string& out) {
    const size_t start = at_++;
    static constexpr std::string_view kFrom = "\"\\/bfnrt";
    static constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    const char c = peek();
    if (c != 'u') {
        const size_t i = at_ < text_.size() ? kFrom.find(c) : std::string_view::npos;
        if (i == std::string_view::npos) return expected("an escape");
        out.push_back(kTo[i]);
        ++at_;
        return {};
    }
    NIB_ASSIGN(uint32_t code, read_hex4());
    if (code >= 0xd800 && code <= 0xdfff) {
        if (code >= 0xdc00 || text_.substr(at_, 2) != "\\u") {
            return error(start, "a lone surrogate");
        }
        ++at_;
        NIB_ASSIGN(const uint32_t low, read_hex4());
        if (low < 0xdc00 || low > 0xdfff) return error(start, "a lone surrogate");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    append_utf8(out, code);
    return {};
}

// Stands on the 'u'.
Result<uint32_t> Reader::read_hex4() {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
        ++at_;
        const char c = peek();
        uint32_t digit = 0;
        if (is_digit(c)) {
            digit = static_cast<uint32_t>(c - '0');
        } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
            digit = static_cast<uint32_t>((c | 0x20) - 'a' + 10);
        } else {
            return expected("a hexadecimal digit");
        }
        code = code << 4 | digit;
    }
    ++at_;
    return code;
}

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
    try {
        return Reader(text, limits).read();
    } catch (const std::exception& problem) {
        return Error{Status::OutOfMemory, std::string("JSON: ") + problem.what()};
    }
}

std::string dump_json(const Json& value, int indent) {
    return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace nib
