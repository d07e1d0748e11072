// SPDX-License-Identifier: MIT
// NFC: decompose each character, put each row of combining marks in order, compose. utf8proc does
// the first and the last step; the ordering is a stable sort of ours.
#include "src/tokenizer/normalize.h"

#include "src/tokenizer/utf8.h"

#include <algorithm>
#include <vector>

#include <utf8proc.h>

namespace nib {
namespace {

// Blocks whose characters are in form NFC, are starters and never combine with what stands before.
bool is_inert(uint32_t c) {
    struct Range {
        uint32_t low, high;
    };
    constexpr Range kInert[] = {
        {0x0000, 0x02FF}, {0x0400, 0x0482}, {0x048A, 0x052F}, {0x05D0, 0x05EA},   {0x2002, 0x20CF},
        {0x3001, 0x3029}, {0x3041, 0x3096}, {0x309B, 0x30FF}, {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},
        {0xAC00, 0xD7A3}, {0xFE00, 0xFE0F}, {0xFF00, 0xFFEF}, {0x1F300, 0x1FAFF},
    };
    return std::any_of(std::begin(kInert), std::end(kInert),
                       [c](Range r) { return c >= r.low && c <= r.high; });
}

int combining_class(int32_t code) {
    return utf8proc_get_property(code)->combining_class;
}

void order_marks(std::vector<int32_t>& codes) {
    for (size_t i = 0; i < codes.size();) {
        size_t end = i;
        while (end < codes.size() && combining_class(codes[end]) != 0)
            ++end;
        if (end - i > 1) {
            std::stable_sort(codes.begin() + static_cast<ptrdiff_t>(i),
                             codes.begin() + static_cast<ptrdiff_t>(end), [](int32_t a, int32_t b) {
                                 return combining_class(a) < combining_class(b);
                             });
        }
        i = std::max(end, i + 1);
    }
}

}  // namespace

bool is_plainly_nfc(std::string_view text) {
    for (size_t i = 0; i < text.size();) {
        if (static_cast<uint8_t>(text[i]) <
            0xCC) {  // below U+0300; a lead byte here is 2 bytes long
            i += static_cast<uint8_t>(text[i]) < 0x80 ? 1 : 2;
            continue;
        }
        const Utf8Char c = utf8_at(text, i);
        if (!is_inert(c.code)) return false;
        i += c.bytes;
    }
    return true;
}

std::string to_nfc(std::string_view text) {
    std::vector<int32_t> codes;
    codes.reserve(text.size());
    constexpr auto kDecompose =
        static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE);
    for (size_t i = 0; i < text.size();) {
        const Utf8Char c = utf8_at(text, i);
        i += c.bytes;
        const auto code = static_cast<int32_t>(c.code);
        int32_t parts[8];  // no canonical decomposition has more than four
        int boundary = 0;
        const auto n = utf8proc_decompose_char(code, parts, 8, kDecompose, &boundary);
        if (n < 1 || n > 8) {
            codes.push_back(code);
        } else {
            codes.insert(codes.end(), parts, parts + n);
        }
    }
    order_marks(codes);
    constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    const auto n = utf8proc_normalize_utf32(codes.data(),
                                            static_cast<utf8proc_ssize_t>(codes.size()), kCompose);
    if (n < 0) return std::string(text);
    std::string out;
    out.reserve(text.size());
    for (utf8proc_ssize_t i = 0; i < n; ++i) {
        utf8_append(out, static_cast<uint32_t>(codes[static_cast<size_t>(i)]));
    }
    return out;
}

}  // namespace nib
