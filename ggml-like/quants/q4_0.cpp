// SPDX-License-Identifier: MIT
// Blocks of 32: scale f16 @0, 4-bit numbers @2; value scale * (q - 8).
#include "ggml-like/quants/legacy.h"

namespace nib {
namespace {

constexpr int kBytes = 18;

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / 32; block++, b += kBytes, v += 32) {
        const float d = quants::load_half(b);
        for (int e = 0; e < 32; e++) {
            v[e] = d * static_cast<float>(quants::nibble32(b + 2, e) - 8);
        }
    }
}

void encode(const float* v, uint8_t* b, size_t n) {
    for (size_t block = 0; block < n / 32; block++, b += kBytes, v += 32) {
        const quants::Scaled32 s = quants::scale_symmetric32(v, 8);
        quants::store_half(b, s.scale);
        quants::store_nibbles32(b + 2, s.q);
    }
}

}  // namespace

extern const QuantDef quant_q4_0 = {.type = Type::Q4_0,
                                    .name = "q4_0",
                                    .block_elems = 32,
                                    .block_bytes = kBytes,
                                    .decode = decode,
                                    .encode = encode};

}  // namespace nib
