// SPDX-License-Identifier: MIT
// Blocks of 32: scale f16 @0, minimum f16 @2, fifth bits u32 @4, low 4 bits @8; value scale * q +
// minimum.
#include "ggml-like/quants/legacy.h"

namespace nib {
namespace {

constexpr int kBytes = 24;

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / 32; block++, b += kBytes, v += 32) {
        const float d = quants::load_half(b), m = quants::load_half(b + 2);
        const uint32_t high = quants::load<uint32_t>(b + 4);
        for (int e = 0; e < 32; e++) {
            const int q = quants::nibble32(b + 8, e) + 16 * static_cast<int>(high >> e & 1);
            v[e] = d * static_cast<float>(q) + m;
        }
    }
}

void encode(const float* v, uint8_t* b, size_t n) {
    for (size_t block = 0; block < n / 32; block++, b += kBytes, v += 32) {
        const quants::Scaled32 s = quants::scale_affine32(v, 31);
        quants::store_half(b, s.scale);
        quants::store_half(b + 2, s.min);
        quants::store(b + 4, quants::fifth_bits32(s.q));
        quants::store_nibbles32(b + 8, s.q);
    }
}

}  // namespace

extern const QuantDef quant_q5_1 = {.type = Type::Q5_1,
                                    .name = "q5_1",
                                    .block_elems = 32,
                                    .block_bytes = kBytes,
                                    .decode = decode,
                                    .encode = encode};

}  // namespace nib
