// SPDX-License-Identifier: MIT
// What the files of this folder share: unaligned little-endian loads and stores, the nibble order
// of the 32-element formats, and the float to integer step of the encoders. Blocks come from files,
// so every bit pattern is possible and every function here is defined for it.
#pragma once
#include "ggml-like/quant.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace nib::quants {

static_assert(std::endian::native == std::endian::little, "blocks are read as the file has them");

template <class T>
T load(const uint8_t* p) {
    T value;
    std::memcpy(&value, p, sizeof value);
    return value;
}
template <class T>
void store(uint8_t* p, T value) {
    std::memcpy(p, &value, sizeof value);
}

inline float load_half(const uint8_t* p) {
    return half_to_float(load<uint16_t>(p));
}
inline void store_half(uint8_t* p, float value) {
    store(p, float_to_half(value));
}

// The 4-bit number of element e in 16 bytes of a 32-element block: the low halves come first.
inline int nibble32(const uint8_t* qs, int e) {
    return e < 16 ? qs[e] & 15 : qs[e - 16] >> 4;
}

// 1 / d, or 0 where there is nothing to scale.
inline float inverse(float d) {
    return d == 0 ? 0.0f : 1 / d;
}

// Toward zero; 0 for what no int holds. The inverse of a denormal scale is infinite, so this
// happens for finite input; the scale is then stored as 0 and the number does not matter.
inline int truncate(float value) {
    return std::fabs(value) < 2147483648.0f ? static_cast<int>(value) : 0;
}
// To the nearest integer, halves away from zero; 0 for what no int holds.
inline int round_away(float value) {
    const float size = std::fabs(value);
    if (!(size < 2147483648.0f)) return 0;
    const float whole = std::floor(size);
    const int nearest = static_cast<int>(whole) + (size - whole >= 0.5f ? 1 : 0);
    return value < 0 ? -nearest : nearest;
}

// Half precision that stays finite.
inline float half_scale(float value) {
    return half_to_float(float_to_half(std::clamp(value, -65504.0f, 65504.0f)));
}

}  // namespace nib::quants
