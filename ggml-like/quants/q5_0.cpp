// SPDX-License-Identifier: MIT
// Blocks of 32: scale f16 @0, fifth bits u32 @2, low 4 bits @6; value scale * (q - 16).
#include "ggml-like/quants/legacy.h"

namespace nib {
namespace {

constexpr int kBytes = 22;

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / 32; block++, b += kBytes, v += 32) {
        const float d = quants::load_half(b);
        const uint32_t high = quants::load<uint32_t>(b + 2);
        for (int e = 0; e < 32; e++) {
            const int q = quants::nibble32(b + 6, e) + 16 * static_cast<int>(high >> e & 1);
            v[e] = d * static_cast<float>(q - 16);
        }
    }
}

void encode(const float* v, uint8_t* b, size_t n) {
    for (size_t block = 0; block < n / 32; block++, b += kBytes, v += 32) {
        const quants::Scaled32 s = quants::scale_symmetric32(v, 16);
        quants::store_half(b, s.scale);
        quants::store(b + 2, quants::fifth_bits32(s.q));
        quants::store_nibbles32(b + 6, s.q);
    }
}

}  // namespace

extern const QuantDef quant_q5_0 = {.type = Type::Q5_0,
                                    .name = "q5_0",
                                    .block_elems = 32,
                                    .block_bytes = kBytes,
                                    .decode = decode,
                                    .encode = encode};

}  // namespace nib
