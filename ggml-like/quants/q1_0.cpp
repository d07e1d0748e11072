// SPDX-License-Identifier: MIT
// Blocks of 128: scale f16 @0, one bit each @2; value scale or -scale.
#include "ggml-like/quants/block.h"

namespace nib {
namespace {

constexpr int kElems = 128, kBytes = 18;

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / kElems; block++, b += kBytes, v += kElems) {
        const float d = quants::load_half(b);
        for (int e = 0; e < kElems; e++)
            v[e] = b[2 + e / 8] >> e % 8 & 1 ? d : -d;
    }
}

}  // namespace

extern const QuantDef quant_q1_0 = {.type = Type::Q1_0,
                                    .name = "q1_0",
                                    .block_elems = kElems,
                                    .block_bytes = kBytes,
                                    .decode = decode,
                                    .encode = nullptr};

}  // namespace nib
