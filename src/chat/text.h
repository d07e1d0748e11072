// SPDX-License-Identifier: MIT
// Text that remembers which of its bytes came out of the conversation (data) and which out of the
// template, and what Python knows about code points: white space, case, letters, printability.
// Strings are UTF-8 and always valid; positions are bytes unless a name says points.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nib::jinja {

struct MarkedText {
    struct Run {
        size_t begin, end;
    };
    std::string bytes;
    std::vector<Run> data;  // sorted, not touching each other, inside bytes

    MarkedText() = default;
    explicit MarkedText(std::string_view text, bool is_data = false) { add(text, is_data); }

    void add(std::string_view text, bool is_data = false);
    void add(const MarkedText& text);
    void add(const MarkedText& text, size_t begin, size_t end);
    MarkedText slice(size_t begin, size_t end) const;
    void mark(size_t begin, size_t end);  // at or behind the last run
    size_t size() const { return bytes.size(); }
};

// Walks over the marks of a text from left to right.
class MarkCursor {
  public:
    explicit MarkCursor(const MarkedText& text) : runs_(text.data) {}
    bool is_data(size_t at) {
        while (next_ < runs_.size() && runs_[next_].end <= at)
            ++next_;
        return next_ < runs_.size() && runs_[next_].begin <= at;
    }

  private:
    const std::vector<MarkedText::Run>& runs_;
    size_t next_ = 0;
};

// The code point at `at` (valid UTF-8) and the length of its sequence.
struct Point {
    uint32_t code;
    uint32_t length;
};
Point point_at(std::string_view text, size_t at);
size_t previous_point(std::string_view text, size_t at);  // where the point before `at` starts
size_t count_points(std::string_view text);
size_t byte_of_point(std::string_view text, size_t point);  // the end if there are fewer points
void append_point(std::string& out, uint32_t code);
size_t first_invalid_utf8(std::string_view text);  // npos if all is valid

bool is_space(uint32_t code);
bool is_printable(uint32_t code);
bool is_alpha(uint32_t code);
bool is_decimal(uint32_t code);  // what str.isdigit counts
bool is_numeric(uint32_t code);
bool is_upper(uint32_t code);
bool is_lower(uint32_t code);
bool is_word(uint32_t code);  // \w

enum class Casing { Lower, Upper, Title };
// Appends the full mapping of one code point (a sharp s becomes two letters).
void append_cased(std::string& out, uint32_t code, Casing casing);
// str.lower(), str.upper(); marks follow their characters.
MarkedText change_case(const MarkedText& text, Casing casing);
MarkedText capitalize(const MarkedText& text);  // str.capitalize()
MarkedText title(const MarkedText& text);       // str.title()

}  // namespace nib::jinja
