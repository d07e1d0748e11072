// SPDX-License-Identifier: MIT
// The patterns of gpt-2, llama 3 and qwen 2 written by hand: one pass, a step per character, no
// limits to reach. Each function takes the place of one pattern and follows the order of its
// alternatives.
#include "src/tokenizer/pre_tokenizer.h"
#include "src/tokenizer/utf8.h"

#include <utf8proc.h>

namespace nib {
namespace {

enum class Class : uint8_t { Letter, Number, Space, Other, End };

bool is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

Class class_of(uint32_t c) {
    if (c < 0x80) {
        if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') return Class::Letter;
        if (c >= '0' && c <= '9') return Class::Number;
        return is_space(c) ? Class::Space : Class::Other;
    }
    if (is_space(c)) return Class::Space;
    const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return Class::Letter;
    if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) return Class::Number;
    return Class::Other;
}

// A place in a text, with the character that begins there.
struct Cursor {
    std::string_view text;
    size_t at = 0;
    uint32_t code = 0;
    uint32_t bytes = 0;
    Class cls = Class::End;

    Cursor(std::string_view t, size_t i) : text(t) { move_to(i); }
    void move_to(size_t i) {
        at = i;
        if (i >= text.size()) {
            code = bytes = 0;
            cls = Class::End;
            return;
        }
        const Utf8Char c = utf8_at(text, i);
        code = c.code;
        bytes = c.bytes;
        cls = class_of(code);
    }
    void step() { move_to(at + bytes); }
    void skip(Class wanted) {
        while (cls == wanted)
            step();
    }
    bool newline() const { return code == '\r' || code == '\n'; }
};

// The bytes of 's 't 're 've 'm 'll 'd at i, where text[i] is an apostrophe; 0 if there is none.
size_t contraction(std::string_view text, size_t i, bool any_case) {
    const auto at = [&](size_t k) {
        const char c = k < text.size() ? text[k] : '\0';
        return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    };
    const char a = at(i + 1);
    const char b = at(i + 2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
    // The long s, U+017F, is an s whose case does not matter.
    return any_case && text.substr(i + 1, 2) == "\xC5\xBF" ? 3 : 0;
}

// The end of what \s+(?!\S)|\s+ takes: all the space if the text ends there, else all but the last
// one, which belongs to what follows; a single one is taken alone.
size_t space_end(const Cursor& start) {
    Cursor c = start;
    size_t last = c.at;
    for (; c.cls == Class::Space; c.step())
        last = c.at;
    return c.cls == Class::End || last == start.at ? c.at : last;
}

size_t gpt2_word(std::string_view text, size_t i) {
    if (text[i] == '\'') {
        if (const size_t n = contraction(text, i, false)) return i + n;
    }
    const Cursor start(text, i);
    Cursor c = start;
    if (c.code == ' ') c.step();
    if (c.cls == Class::Space || c.cls == Class::End) return space_end(start);
    c.skip(c.cls);
    return c.at;
}

// The end of \s*[\r\n]+ if it matches at start, else of what follows it in the pattern.
size_t words_space(const Cursor& start) {
    size_t newline_end = 0;
    for (Cursor c = start; c.cls == Class::Space; c.step()) {
        if (c.newline()) newline_end = c.at + 1;
    }
    return newline_end ? newline_end : space_end(start);
}

size_t words_word(std::string_view text, size_t i, int digits) {
    if (text[i] == '\'') {
        if (const size_t n = contraction(text, i, true)) return i + n;
    }
    const Cursor start(text, i);
    Cursor c = start;
    if (c.cls == Class::Number) {
        for (int n = 0; n < digits && c.cls == Class::Number; ++n)
            c.step();
        return c.at;
    }
    if (c.cls != Class::Letter && !c.newline()) c.step();
    if (c.cls == Class::Letter) {
        c.skip(Class::Letter);
        return c.at;
    }
    c = start;
    if (c.code == ' ') c.step();
    if (c.cls != Class::Other) return words_space(start);
    c.skip(Class::Other);
    while (c.newline())
        c.step();
    return c.at;
}

// gpt-2's pattern on the stretch [begin, end), which it sees alone.
void gpt2_words(std::string_view text, size_t begin, size_t end, std::vector<size_t>& ends) {
    const std::string_view stretch = text.substr(0, end);
    for (size_t i = begin; i < end;) {
        i = gpt2_word(stretch, i);
        ends.push_back(i);
    }
}

void digits_then_gpt2(std::string_view text, std::vector<size_t>& ends) {
    size_t begin = 0;
    Cursor c(text, 0);
    while (c.cls != Class::End) {
        if (c.cls != Class::Number) {
            c.step();
            continue;
        }
        gpt2_words(text, begin, c.at, ends);
        c.step();
        ends.push_back(c.at);
        begin = c.at;
    }
    gpt2_words(text, begin, text.size(), ends);
}

}  // namespace

void split_fast(FastSplit fast, std::string_view text, std::vector<size_t>& ends) {
    if (fast == FastSplit::DigitsThenGpt2) return digits_then_gpt2(text, ends);
    if (fast == FastSplit::Gpt2) return gpt2_words(text, 0, text.size(), ends);
    for (size_t i = 0; i < text.size();) {
        i = words_word(text, i, fast == FastSplit::Words3 ? 3 : 1);
        ends.push_back(i);
    }
}

}  // namespace nib
