// SPDX-License-Identifier: MIT
// Bytes as hex text, for the reference data.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nib::test {

inline std::vector<uint8_t> from_hex(std::string_view text) {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i + 1 < text.size(); i++) {
        if (text[i] == ' ') continue;
        bytes.push_back(static_cast<uint8_t>(16 * digit(text[i]) + digit(text[i + 1])));
        i++;
    }
    return bytes;
}

inline std::string to_hex(const std::vector<uint8_t>& bytes) {
    std::string text;
    for (const uint8_t byte : bytes) {
        text += "0123456789abcdef"[byte >> 4];
        text += "0123456789abcdef"[byte & 15];
    }
    return text;
}

}  // namespace nib::test
