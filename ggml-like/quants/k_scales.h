// SPDX-License-Identifier: MIT
// The eight 6-bit scales and eight 6-bit minima that q4_k and q5_k pack into 12 bytes: the first
// four of each lie in the low six bits of bytes 0-3 and 4-7; the last four have their low halves in
// bytes 8-11 (scale low, minimum high) and their upper two bits on top of bytes 0-7.
#pragma once
#include "ggml-like/quants/k_search.h"

namespace nib::quants {

struct ScaleMin {
    int scale, min;
};

inline ScaleMin unpack_scales(const uint8_t* packed, int part) {
    if (part < 4) return {packed[part] & 63, packed[part + 4] & 63};
    return {(packed[part + 4] & 15) + 16 * (packed[part - 4] >> 6),
            (packed[part + 4] >> 4) + 16 * (packed[part] >> 6)};
}

inline void pack_scales(const KBlock& b, uint8_t* packed) {
    for (int i = 0; i < 4; i++) {
        packed[i] = static_cast<uint8_t>(b.scale[i] | b.scale[i + 4] >> 4 << 6);
        packed[i + 4] = static_cast<uint8_t>(b.min[i] | b.min[i + 4] >> 4 << 6);
        packed[i + 8] = static_cast<uint8_t>((b.scale[i + 4] & 15) | (b.min[i + 4] & 15) << 4);
    }
}

}  // namespace nib::quants
