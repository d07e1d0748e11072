// SPDX-License-Identifier: MIT
// Blocks of 64: scale f16 @0, two bits each @2; value scale * (q - 1).
#include "ggml-like/quants/block.h"

namespace nib {
namespace {

constexpr int kElems = 64, kBytes = 18;

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / kElems; block++, b += kBytes, v += kElems) {
        const float d = quants::load_half(b);
        for (int e = 0; e < kElems; e++) {
            v[e] = d * static_cast<float>((b[2 + e / 4] >> 2 * (e % 4) & 3) - 1);
        }
    }
}

}  // namespace

extern const QuantDef quant_q2_0 = {.type = Type::Q2_0,
                                    .name = "q2_0",
                                    .block_elems = kElems,
                                    .block_bytes = kBytes,
                                    .decode = decode,
                                    .encode = nullptr};

}  // namespace nib
