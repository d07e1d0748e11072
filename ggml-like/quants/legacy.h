// SPDX-License-Identifier: MIT
// The 32-element formats with a plain scale: how their encoders choose scale and numbers. The bytes
// are the ones that the reference tools write, down to the order of the roundings.
#pragma once
#include "ggml-like/quants/block.h"

namespace nib::quants {

struct Scaled32 {
    float scale = 0;
    float min = 0;  // 0 for the symmetric formats
    uint8_t q[32];
};

// x ~ scale * (q - half), q in [0, 2 * half): the value of the largest size becomes exactly -half.
inline Scaled32 scale_symmetric32(const float* x, int half) {
    float extreme = x[0];
    for (int e = 1; e < 32; e++) {
        if (std::fabs(x[e]) > std::fabs(extreme)) extreme = x[e];
    }
    Scaled32 out;
    out.scale = extreme / static_cast<float>(-half);
    const float inv = inverse(out.scale);
    for (int e = 0; e < 32; e++) {
        const int q = truncate(x[e] * inv + (static_cast<float>(half) + 0.5f));
        out.q[e] = static_cast<uint8_t>(std::clamp(q, 0, 2 * half - 1));
    }
    return out;
}

// x ~ scale * q + min, q in [0, top].
inline Scaled32 scale_affine32(const float* x, int top) {
    const auto [low, high] = std::minmax_element(x, x + 32);
    Scaled32 out;
    out.min = *low;
    out.scale = (*high - *low) / static_cast<float>(top);
    const float inv = inverse(out.scale);
    for (int e = 0; e < 32; e++) {
        const int q = truncate((x[e] - out.min) * inv + 0.5f);
        out.q[e] = static_cast<uint8_t>(std::clamp(q, 0, top));
    }
    return out;
}

// The low four bits of 32 numbers, in the order of nibble32().
inline void store_nibbles32(uint8_t* qs, const uint8_t* q) {
    for (int e = 0; e < 16; e++) {
        qs[e] = static_cast<uint8_t>((q[e] & 15) | (q[e + 16] & 15) << 4);
    }
}

// Bit 4 of 32 numbers, element 0 lowest.
inline uint32_t fifth_bits32(const uint8_t* q) {
    uint32_t bits = 0;
    for (int e = 0; e < 32; e++)
        bits |= static_cast<uint32_t>(q[e] >> 4 & 1) << e;
    return bits;
}

}  // namespace nib::quants
