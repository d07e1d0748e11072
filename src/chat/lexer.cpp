// SPDX-License-Identifier: MIT
// Two states: root() splits text from tags and settles the white space between them, tag() reads
// what stands inside a tag until its end sign. Brackets are counted there, so that }} may close two
// dicts.
#include "src/chat/lexer.h"

#include <algorithm>
#include <charconv>

namespace nib::jinja {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

class Lexer {
  public:
    Lexer(std::string_view source, std::vector<Token>& tokens, SyntaxError& error)
        : src_(source), tokens_(tokens), error_(error) {}
    bool run();

  private:
    // The tag that starts at at_: what follows its two signs.
    struct Opening {
        char kind = 0;       // { % #
        char sign = 0;       // - + or 0
        size_t after = 0;    // behind the signs
        size_t raw_end = 0;  // behind {% raw %}, if it is that
    };

    bool fail(size_t at, std::string message) {
        error_ = {at, std::move(message)};
        return false;
    }
    char at(size_t i) const { return i < src_.size() ? src_[i] : '\0'; }
    size_t skip_space(size_t i) const {
        while (i < src_.size()) {
            const Point p = point_at(src_, i);
            if (!is_space(p.code)) break;
            i += p.length;
        }
        return i;
    }
    Opening opening(size_t i) const;
    size_t text_end(size_t begin, size_t end, char sign, bool is_output) const;
    void add_text(size_t begin, size_t end) {
        if (begin >= end) return;
        Token& t = add(TokenKind::Text, begin);
        t.text = src_.substr(begin, end - begin);
    }
    Token& add(TokenKind kind, size_t begin) {
        tokens_.emplace_back();
        tokens_.back().kind = kind;
        tokens_.back().at = static_cast<uint32_t>(begin);
        return tokens_.back();
    }
    size_t after_newline(size_t i) const { return at(i) == '\n' ? i + 1 : i; }
    bool comment(size_t begin);
    bool raw(size_t begin);
    size_t raw_close(size_t i, char& sign) const;
    bool tag(const Opening& opening);
    bool tag_end(const Opening& opening, bool& ended);
    bool token();
    bool number();
    bool based_integer(int base);
    bool string();
    bool escape(size_t& i, size_t end, std::string& out);
    bool name();
    bool op();

    std::string_view src_;
    std::vector<Token>& tokens_;
    SyntaxError& error_;
    size_t at_ = 0;
    std::string brackets_;  // the closing ones that are due
};

Lexer::Opening Lexer::opening(size_t i) const {
    Opening o;
    if (at(i) != '{') return o;
    const char kind = at(i + 1);
    if (kind != '{' && kind != '%' && kind != '#') return o;
    o.kind = kind;
    o.after = i + 2;
    if (at(o.after) == '-' || at(o.after) == '+') o.sign = src_[o.after++];
    if (kind != '%') return o;
    size_t j = skip_space(o.after);
    if (src_.substr(j, 3) != "raw") return o;
    j = skip_space(j + 3);
    if (src_.substr(j, 2) == "%}") o.raw_end = j + 2;
    if (src_.substr(j, 3) == "-%}") o.raw_end = skip_space(j + 3);
    return o;
}

// Where the text before a tag ends once white space in front of the tag is dropped.
size_t Lexer::text_end(size_t begin, size_t end, char sign, bool is_output) const {
    if (sign == '-') {
        while (end > begin) {
            const size_t before = previous_point(src_, end);
            if (!is_space(point_at(src_, before).code)) break;
            end = before;
        }
        return end;
    }
    if (sign == '+' || is_output) return end;
    const size_t newline = src_.substr(begin, end - begin).rfind('\n');
    const size_t line = newline == std::string_view::npos ? begin : begin + newline + 1;
    const bool at_line_start = line > 0 ? src_[line - 1] == '\n' : true;
    return at_line_start && skip_space(line) >= end ? line : end;
}

bool Lexer::run() {
    while (at_ < src_.size()) {
        const size_t begin = at_;
        size_t i = src_.find('{', at_);
        Opening o;
        while (i != std::string_view::npos) {
            o = opening(i);
            if (o.kind) break;
            i = src_.find('{', i + 1);
        }
        if (i == std::string_view::npos) {
            add_text(begin, src_.size());
            break;
        }
        add_text(begin, text_end(begin, i, o.sign, o.kind == '{'));
        at_ = i;
        if (o.kind == '#') {
            if (!comment(o.after)) return false;
        } else if (o.raw_end) {
            if (!raw(o.raw_end)) return false;
        } else if (!tag(o)) {
            return false;
        }
    }
    add(TokenKind::End, src_.size());
    return true;
}

bool Lexer::comment(size_t begin) {
    const size_t end = src_.find("#}", begin);
    if (end == std::string_view::npos) return fail(at_, "a comment without its end #}");
    const char sign = end > begin ? src_[end - 1] : '\0';
    at_ = sign == '-' ? skip_space(end + 2) : sign == '+' ? end + 2 : after_newline(end + 2);
    return true;
}

// Behind the {% endraw %} at i, or 0 if none stands there.
size_t Lexer::raw_close(size_t i, char& sign) const {
    if (src_.substr(i, 2) != "{%") return 0;
    i += 2;
    sign = at(i) == '-' || at(i) == '+' ? src_[i++] : '\0';
    i = skip_space(i);
    if (src_.substr(i, 6) != "endraw") return 0;
    i = skip_space(i + 6);
    if (src_.substr(i, 3) == "+%}") return i + 3;
    if (src_.substr(i, 3) == "-%}") return skip_space(i + 3);
    return src_.substr(i, 2) == "%}" ? after_newline(i + 2) : 0;
}

bool Lexer::raw(size_t begin) {
    for (size_t i = src_.find("{%", begin); i != std::string_view::npos;
         i = src_.find("{%", i + 1)) {
        char sign = 0;
        const size_t after = raw_close(i, sign);
        if (after == 0) continue;
        add_text(begin, text_end(begin, i, sign, false));
        at_ = after;
        return true;
    }
    return fail(at_, "a raw block without its endraw");
}

bool Lexer::tag(const Opening& opening) {
    const bool is_output = opening.kind == '{';
    add(is_output ? TokenKind::OutputBegin : TokenKind::BlockBegin, at_);
    at_ = opening.after;
    brackets_.clear();
    while (true) {
        at_ = skip_space(at_);
        if (at_ >= src_.size()) return true;  // the parser says what is missing
        bool ended = false;
        if (!tag_end(opening, ended)) return false;
        if (ended) return true;
        if (!token()) return false;
    }
}

bool Lexer::tag_end(const Opening& opening, bool& ended) {
    if (!brackets_.empty()) return true;
    const bool is_output = opening.kind == '{';
    const std::string_view close = is_output ? "}}" : "%}";
    const char sign = at(at_);
    const bool has_sign = sign == '-' || (sign == '+' && !is_output);
    const size_t i = at_ + (has_sign ? 1 : 0);
    if (src_.substr(i, 2) != close) return true;
    add(is_output ? TokenKind::OutputEnd : TokenKind::BlockEnd, at_);
    at_ = i + 2;
    if (has_sign && sign == '-') {
        at_ = skip_space(at_);
    } else if (!has_sign && !is_output) {
        at_ = after_newline(at_);
    }
    ended = true;
    return true;
}

bool Lexer::token() {
    const char c = src_[at_];
    if (is_digit(c)) return number();
    if (c == '\'' || c == '"') return string();
    if (is_word(point_at(src_, at_).code)) return name();
    return op();
}

// Digits with single underscores between them.
size_t digits_end(std::string_view s, size_t i) {
    while (i < s.size() &&
           (is_digit(s[i]) || (s[i] == '_' && i + 1 < s.size() && is_digit(s[i + 1]))))
        ++i;
    return i;
}

bool Lexer::based_integer(int base) {
    const size_t begin = at_;
    std::string digits;
    for (at_ += 2; at_ < src_.size(); ++at_) {
        const char c = src_[at_];
        if (c == '_') continue;
        const char low = static_cast<char>(c | 0x20);
        const int digit = is_digit(c) ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : 99;
        if (digit >= base) break;
        digits += c;
    }
    int64_t value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value, base).ec !=
        std::errc()) {
        return fail(begin, "expected an integer of 64 bits");
    }
    add(TokenKind::Integer, begin).integer = value;
    return true;
}

bool Lexer::number() {
    const size_t begin = at_;
    const char mark = static_cast<char>(at(begin + 1) | 0x20);
    if (src_[begin] == '0' && (mark == 'x' || mark == 'o' || mark == 'b')) {
        return based_integer(mark == 'x' ? 16 : mark == 'o' ? 8 : 2);
    }
    size_t end = digits_end(src_, begin);
    bool is_float = false;
    if (at(end) == '.' && is_digit(at(end + 1)) && (begin == 0 || src_[begin - 1] != '.')) {
        is_float = true;
        end = digits_end(src_, end + 1);
    }
    if (at(end) == 'e' || at(end) == 'E') {
        const size_t sign = at(end + 1) == '+' || at(end + 1) == '-' ? 1 : 0;
        if (is_digit(at(end + 1 + sign))) {
            is_float = true;
            end = digits_end(src_, end + 1 + sign);
        }
    }
    std::string digits(src_.substr(begin, end - begin));
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    at_ = end;
    const char* first = digits.data();
    const char* last = first + digits.size();
    if (is_float) {
        double value = 0;
        if (std::from_chars(first, last, value).ec != std::errc()) {
            return fail(begin, "expected a number that fits a double");
        }
        add(TokenKind::Float, begin).real = value;
        return true;
    }
    int64_t value = 0;
    if (digits.size() > 1 && digits[0] == '0' &&
        digits.find_first_not_of('0') != std::string::npos) {
        return fail(begin, "an integer may not start with 0");
    }
    if (std::from_chars(first, last, value).ec != std::errc()) {
        return fail(begin, "expected an integer of 64 bits");
    }
    Token& t = add(TokenKind::Integer, begin);
    t.integer = value;
    t.text = digits;
    return true;
}

bool Lexer::string() {
    const size_t begin = at_;
    const char quote = src_[begin];
    size_t end = begin + 1;
    while (end < src_.size() && src_[end] != quote)
        end += src_[end] == '\\' ? 2 : 1;
    if (end >= src_.size()) return fail(begin, "a string without its closing quote");
    std::string text;
    for (size_t i = begin + 1; i < end;) {
        if (src_[i] == '\\') {
            if (!escape(i, end, text)) return false;
        } else {
            text += src_[i++];
        }
    }
    add(TokenKind::String, begin).text = std::move(text);
    at_ = end + 1;
    return true;
}

// Python's escapes; a backslash before anything else stays.
bool Lexer::escape(size_t& i, size_t end, std::string& out) {
    static constexpr std::string_view kFrom = "\\'\"abfnrtv";
    static constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
    const size_t begin = i++;
    const char c = src_[i];
    if (c == '\n') {
        ++i;
        return true;
    }
    if (const size_t k = kFrom.find(c); k != std::string_view::npos) {
        out += kTo[k];
        ++i;
        return true;
    }
    uint32_t code = 0;
    if (c >= '0' && c <= '7') {
        for (int n = 0; n < 3 && i < end && src_[i] >= '0' && src_[i] <= '7'; ++n) {
            code = code * 8 + static_cast<uint32_t>(src_[i++] - '0');
        }
        append_point(out, code);
        return true;
    }
    if (c == 'N') return fail(begin, "\\N{...} escapes are not known here");
    const size_t n_digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (n_digits == 0) {
        out += '\\';
        return true;
    }
    const char* first = src_.data() + i + 1;
    const char* last = src_.data() + std::min(end, i + 1 + n_digits);
    const auto read = std::from_chars(first, last, code, 16);
    if (read.ec != std::errc() || read.ptr != first + n_digits) {
        return fail(begin, "a truncated escape in a string");
    }
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        return fail(begin, "an escape that is no character");
    }
    append_point(out, code);
    i += 1 + n_digits;
    return true;
}

bool Lexer::name() {
    const size_t begin = at_;
    while (at_ < src_.size()) {
        const Point p = point_at(src_, at_);
        if (!is_word(p.code)) break;
        at_ += p.length;
    }
    add(TokenKind::Name, begin).text = src_.substr(begin, at_ - begin);
    return true;
}

bool Lexer::op() {
    static constexpr std::string_view kOperators[] = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (const std::string_view s : kOperators) {
        if (src_.substr(at_, s.size()) != s) continue;
        const char c = s[0];
        if (c == '(') brackets_ += ')';
        if (c == '[') brackets_ += ']';
        if (c == '{') brackets_ += '}';
        if (c == ')' || c == ']' || c == '}') {
            if (brackets_.empty()) return fail(at_, std::string("unexpected '") + c + "'");
            if (brackets_.back() != c) {
                return fail(at_,
                            std::string("expected '") + brackets_.back() + "', got '" + c + "'");
            }
            brackets_.pop_back();
        }
        add(TokenKind::Operator, at_).text = s;
        at_ += s.size();
        return true;
    }
    return fail(at_, "unexpected character");
}

}  // namespace

std::string normalize_newlines(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (size_t i = 0; i < source.size(); ++i) {
        if (source[i] != '\r') {
            out += source[i];
            continue;
        }
        out += '\n';
        if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
    return out;
}

bool tokenize(std::string_view source, std::vector<Token>& tokens, SyntaxError& error) {
    if (!source.empty() && source.back() == '\n') source.remove_suffix(1);
    return Lexer(source, tokens, error).run();
}

}  // namespace nib::jinja
