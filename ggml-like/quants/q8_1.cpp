// SPDX-License-Identifier: MIT
// Blocks of 32 for activations: scale f16 @0, scale * sum f16 @2, signed bytes @4; value scale * q.
#include "ggml-like/quants/block.h"

namespace nib {
namespace {

constexpr int kElems = 32, kBytes = 36;

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / kElems; block++, b += kBytes, v += kElems) {
        const float d = quants::load_half(b);
        for (int e = 0; e < 32; e++)
            v[e] = d * static_cast<float>(static_cast<int8_t>(b[4 + e]));
    }
}

}  // namespace

extern const QuantDef quant_q8_1 = {.type = Type::Q8_1,
                                    .name = "q8_1",
                                    .block_elems = kElems,
                                    .block_bytes = kBytes,
                                    .decode = decode,
                                    .encode = nullptr};

}  // namespace nib
