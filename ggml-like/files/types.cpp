// SPDX-License-Identifier: MIT
// Looking up element types, and the two 16-bit floats. The list itself is written by CMake from
// quants/.
#include "ggml-like/quant.h"

#include <array>
#include <bit>
#include <cstring>

namespace nib {
namespace {

constexpr uint32_t kIds = 64;

std::array<const QuantDef*, kIds> by_id() {
    std::array<const QuantDef*, kIds> table{};
    for (const QuantDef* def : all_types())
        table[static_cast<uint32_t>(def->type)] = def;
    return table;
}

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_word(std::string_view word, std::string_view lower_case) {
    if (word.size() != lower_case.size()) return false;
    for (size_t i = 0; i < word.size(); i++) {
        if (lower(word[i]) != lower_case[i]) return false;
    }
    return true;
}

// mantissa * 2^-bits, rounded to the nearest even.
uint32_t shift_to_even(uint32_t mantissa, uint32_t bits) {
    const uint32_t half = uint32_t{1} << (bits - 1);
    return (mantissa + half - 1 + (mantissa >> bits & 1)) >> bits;
}

}  // namespace

const QuantDef* find_type(uint32_t id) {
    static const std::array<const QuantDef*, kIds> table = by_id();
    return id < kIds ? table[id] : nullptr;
}

const QuantDef* find_type(std::string_view name) {
    for (const QuantDef* def : all_types()) {
        if (same_word(name, def->name)) return def;
    }
    return nullptr;
}

float half_to_float(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
    const uint32_t exponent = half >> 10 & 31;
    const uint32_t mantissa = half & 0x3ff;
    if (exponent == 0) {
        const float size = static_cast<float>(mantissa) * 0x1p-24f;
        return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(size));
    }
    const uint32_t rebased = exponent == 31 ? 255 : exponent + (127 - 15);
    return std::bit_cast<float>(sign | rebased << 23 | mantissa << 13);
}

uint16_t float_to_half(float value) {
    constexpr uint32_t kInfinity = 0x7f800000;
    constexpr uint32_t kTooLarge = 0x477ff000;  // 65520 rounds to infinity
    constexpr uint32_t kNormal = 0x38800000;    // 2^-14
    constexpr uint32_t kTooSmall = 0x33000000;  // 2^-25 rounds to zero, the even one
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = bits >> 16 & 0x8000;
    const uint32_t size = bits & 0x7fffffff;
    uint32_t half = 0;
    if (size > kInfinity) {
        half = 0x7e00 | (size >> 13 & 0x3ff);  // quiet, the payload's upper bits kept
    } else if (size >= kTooLarge) {
        half = 0x7c00;
    } else if (size >= kNormal) {
        half = shift_to_even(size - (uint32_t{112} << 23), 13);
    } else if (size > kTooSmall) {
        half = shift_to_even((size & 0x7fffff) | 0x800000, 126 - (size >> 23));
    }
    return static_cast<uint16_t>(sign | half);
}

float bf16_to_float(uint16_t bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t float_to_bf16(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 64);  // quiet
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace nib
