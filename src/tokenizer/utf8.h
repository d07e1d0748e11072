// SPDX-License-Identifier: MIT
// UTF-8 by hand: one character at a time, strict (no overlong form, no surrogate, nothing beyond
// U+10FFFF). What is not a character is measured by Unicode's rule of maximal subparts, so that
// every part of nib splits broken text at the same places.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nib {

struct Utf8Char {
    uint32_t code = 0;   // meaningful only if valid
    uint32_t bytes = 1;  // of the character, or of the maximal subpart of a broken one
    bool valid = false;
    bool incomplete = false;  // broken only because the text ends here
};

namespace detail {

// The range of the second byte that a lead byte allows; what follows is always 80..BF.
struct Utf8Lead {
    uint8_t length, second_low, second_high;
};

inline Utf8Lead utf8_lead(uint8_t b) {
    if (b < 0xC2) return {0, 0, 0};
    if (b < 0xE0) return {2, 0x80, 0xBF};
    if (b < 0xF0) {
        return {3, static_cast<uint8_t>(b == 0xE0 ? 0xA0 : 0x80),
                static_cast<uint8_t>(b == 0xED ? 0x9F : 0xBF)};
    }
    if (b < 0xF5) {
        return {4, static_cast<uint8_t>(b == 0xF0 ? 0x90 : 0x80),
                static_cast<uint8_t>(b == 0xF4 ? 0x8F : 0xBF)};
    }
    return {0, 0, 0};
}

}  // namespace detail

// The character at byte i; i < text.size().
inline Utf8Char utf8_at(std::string_view text, size_t i) {
    const uint8_t first = static_cast<uint8_t>(text[i]);
    if (first < 0x80) return {first, 1, true, false};
    const detail::Utf8Lead lead = detail::utf8_lead(first);
    if (lead.length == 0) return {};
    uint32_t code = first & (0x7Fu >> lead.length);
    for (uint32_t k = 1; k < lead.length; ++k) {
        if (i + k == text.size()) return {0, k, false, true};
        const uint8_t b = static_cast<uint8_t>(text[i + k]);
        const uint8_t low = k == 1 ? lead.second_low : uint8_t{0x80};
        const uint8_t high = k == 1 ? lead.second_high : uint8_t{0xBF};
        if (b < low || b > high) return {0, k, false, false};
        code = code << 6 | (b & 0x3Fu);
    }
    return {code, lead.length, true, false};
}

inline bool utf8_valid(std::string_view text) {
    for (size_t i = 0; i < text.size();) {
        const Utf8Char c = utf8_at(text, i);
        if (!c.valid) return false;
        i += c.bytes;
    }
    return true;
}

// code is a scalar value.
inline void utf8_append(std::string& out, uint32_t code) {
    if (code < 0x80) {
        out += static_cast<char>(code);
        return;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr uint8_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
    out += static_cast<char>(kLead[more] | code >> (6 * more));
    for (int k = more - 1; k >= 0; --k)
        out += static_cast<char>(0x80 | (code >> (6 * k) & 0x3F));
}

}  // namespace nib
