// SPDX-License-Identifier: MIT
// Blocks of 256 for activations: scale f32 @0, signed bytes @4, sums of 16 as i16 @260 (unused
// here).
#include "ggml-like/quants/block.h"

namespace nib {
namespace {

constexpr int kElems = 256, kBytes = 292;

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / kElems; block++, b += kBytes, v += kElems) {
        const float d = quants::load<float>(b);
        for (int e = 0; e < kElems; e++)
            v[e] = d * static_cast<float>(static_cast<int8_t>(b[4 + e]));
    }
}

}  // namespace

extern const QuantDef quant_q8_k = {.type = Type::Q8_K,
                                    .name = "q8_k",
                                    .block_elems = kElems,
                                    .block_bytes = kBytes,
                                    .decode = decode,
                                    .encode = nullptr};

}  // namespace nib
