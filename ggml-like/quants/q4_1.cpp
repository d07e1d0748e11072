// SPDX-License-Identifier: MIT
// Blocks of 32: scale f16 @0, minimum f16 @2, 4-bit numbers @4; value scale * q + minimum.
#include "ggml-like/quants/legacy.h"

namespace nib {
namespace {

constexpr int kBytes = 20;

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / 32; block++, b += kBytes, v += 32) {
        const float d = quants::load_half(b), m = quants::load_half(b + 2);
        for (int e = 0; e < 32; e++) {
            v[e] = d * static_cast<float>(quants::nibble32(b + 4, e)) + m;
        }
    }
}

void encode(const float* v, uint8_t* b, size_t n) {
    for (size_t block = 0; block < n / 32; block++, b += kBytes, v += 32) {
        const quants::Scaled32 s = quants::scale_affine32(v, 15);
        quants::store_half(b, s.scale);
        quants::store_half(b + 2, s.min);
        quants::store_nibbles32(b + 4, s.q);
    }
}

}  // namespace

extern const QuantDef quant_q4_1 = {.type = Type::Q4_1,
                                    .name = "q4_1",
                                    .block_elems = 32,
                                    .block_bytes = kBytes,
                                    .decode = decode,
                                    .encode = encode};

}  // namespace nib
