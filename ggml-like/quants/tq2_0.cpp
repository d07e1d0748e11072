// SPDX-License-Identifier: MIT
// Ternary blocks of 256: two bits each @0, scale f16 @64; value scale * (q - 1).
#include "ggml-like/quants/block.h"

namespace nib {
namespace {

constexpr int kElems = 256, kBytes = 66;

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / kElems; block++, b += kBytes, v += kElems) {
        const float d = quants::load_half(b + 64);
        for (int e = 0; e < kElems; e++) {
            const int byte = b[32 * (e / 128) + e % 32], part = e % 128 / 32;
            v[e] = d * static_cast<float>((byte >> 2 * part & 3) - 1);
        }
    }
}

}  // namespace

extern const QuantDef quant_tq2_0 = {.type = Type::TQ2_0,
                                     .name = "tq2_0",
                                     .block_elems = kElems,
                                     .block_bytes = kBytes,
                                     .decode = decode,
                                     .encode = nullptr};

}  // namespace nib
