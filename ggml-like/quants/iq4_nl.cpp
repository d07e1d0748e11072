// SPDX-License-Identifier: MIT
// Blocks of 32: scale f16 @0, 4-bit table numbers @2; value scale * table[q].
#include "ggml-like/quants/tables.h"

namespace nib {
namespace {

constexpr int kElems = 32, kBytes = 18;

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / kElems; block++, b += kBytes, v += kElems) {
        const float d = quants::load_half(b);
        for (int e = 0; e < kElems; e++) {
            v[e] = d * static_cast<float>(quants::kIq4[quants::nibble32(b + 2, e)]);
        }
    }
}

}  // namespace

extern const QuantDef quant_iq4_nl = {.type = Type::IQ4_NL,
                                      .name = "iq4_nl",
                                      .block_elems = kElems,
                                      .block_bytes = kBytes,
                                      .decode = decode,
                                      .encode = nullptr};

}  // namespace nib
