// SPDX-License-Identifier: MIT
// Blocks of 256 in eight parts: scale f16 @0, high 2 bits of the part scales u16 @2, low 4 bits @4,
// table numbers @8; value scale * (part scale - 32) * table[q].
#include "ggml-like/quants/tables.h"

namespace nib {
namespace {

constexpr int kElems = 256, kBytes = 136;

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / kElems; block++, b += kBytes, v += kElems) {
        const float d = quants::load_half(b);
        const int high = quants::load<uint16_t>(b + 2);
        for (int s = 0; s < 8; s++) {
            const int scale = (b[4 + s / 2] >> 4 * (s % 2) & 15) + 16 * (high >> 2 * s & 3);
            const float dl = d * static_cast<float>(scale - 32);
            for (int e = 0; e < 32; e++) {
                v[32 * s + e] =
                    dl * static_cast<float>(quants::kIq4[quants::nibble32(b + 8 + 16 * s, e)]);
            }
        }
    }
}

}  // namespace

extern const QuantDef quant_iq4_xs = {.type = Type::IQ4_XS,
                                      .name = "iq4_xs",
                                      .block_elems = kElems,
                                      .block_bytes = kBytes,
                                      .decode = decode,
                                      .encode = nullptr};

}  // namespace nib
