// SPDX-License-Identifier: MIT
// Floats as base64 (RFC 4648) of their little-endian bytes, as OpenAI's clients ask for embeddings.
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace nib {

inline std::string base64_of_floats(std::span<const float> values) {
    static constexpr char kDigits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::vector<uint8_t> bytes;
    bytes.reserve(values.size() * 4);
    for (const float v : values) {
        uint32_t bits;
        std::memcpy(&bits, &v, 4);
        for (int b = 0; b < 4; b++)
            bytes.push_back(static_cast<uint8_t>(bits >> (8 * b)));
    }
    std::string text;
    for (size_t i = 0; i < bytes.size(); i += 3) {
        const size_t n = bytes.size() - i < 3 ? bytes.size() - i : 3;
        uint32_t group = 0;
        for (size_t b = 0; b < 3; b++)
            group = group << 8 | (b < n ? bytes[i + b] : 0);
        for (size_t d = 0; d < 4; d++)
            text += d <= n ? kDigits[group >> (18 - 6 * d) & 63] : '=';
    }
    return text;
}

}  // namespace nib
