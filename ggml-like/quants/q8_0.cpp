// SPDX-License-Identifier: MIT
// Blocks of 32: scale f16 @0, signed bytes @2; value scale * q.
#include "ggml-like/quants/legacy.h"

namespace nib {
namespace {

constexpr int kBytes = 34;

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / 32; block++, b += kBytes, v += 32) {
        const float d = quants::load_half(b);
        for (int e = 0; e < 32; e++) {
            v[e] = d * static_cast<float>(static_cast<int8_t>(b[2 + e]));
        }
    }
}

void encode(const float* v, uint8_t* b, size_t n) {
    for (size_t block = 0; block < n / 32; block++, b += kBytes, v += 32) {
        float size = 0;
        for (int e = 0; e < 32; e++)
            size = std::max(size, std::fabs(v[e]));
        const float d = size / 127, inv = quants::inverse(d);
        quants::store_half(b, d);
        for (int e = 0; e < 32; e++) {
            b[2 + e] = static_cast<uint8_t>(quants::round_away(v[e] * inv));
        }
    }
}

}  // namespace

extern const QuantDef quant_q8_0 = {.type = Type::Q8_0,
                                    .name = "q8_0",
                                    .block_elems = 32,
                                    .block_bytes = kBytes,
                                    .decode = decode,
                                    .encode = encode};

}  // namespace nib
