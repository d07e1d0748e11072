// SPDX-License-Identifier: MIT
// IEEE half precision. Encoding rounds to the nearest even.
#include "ggml-like/quants/block.h"

namespace nib {
namespace {

void decode(const uint8_t* blocks, float* values, size_t n) {
    for (size_t i = 0; i < n; i++)
        values[i] = half_to_float(quants::load<uint16_t>(blocks + 2 * i));
}

void encode(const float* values, uint8_t* blocks, size_t n) {
    for (size_t i = 0; i < n; i++)
        quants::store(blocks + 2 * i, float_to_half(values[i]));
}

}  // namespace

extern const QuantDef quant_f16 = {.type = Type::F16,
                                   .name = "f16",
                                   .block_elems = 1,
                                   .block_bytes = 2,
                                   .decode = decode,
                                   .encode = encode};

}  // namespace nib
