// SPDX-License-Identifier: MIT
// bfloat16: the upper half of a float. Encoding rounds to the nearest even.
#include "ggml-like/quants/block.h"

namespace nib {
namespace {

void decode(const uint8_t* blocks, float* values, size_t n) {
    for (size_t i = 0; i < n; i++)
        values[i] = bf16_to_float(quants::load<uint16_t>(blocks + 2 * i));
}

void encode(const float* values, uint8_t* blocks, size_t n) {
    for (size_t i = 0; i < n; i++)
        quants::store(blocks + 2 * i, float_to_bf16(values[i]));
}

}  // namespace

extern const QuantDef quant_bf16 = {.type = Type::BF16,
                                    .name = "bf16",
                                    .block_elems = 1,
                                    .block_bytes = 2,
                                    .decode = decode,
                                    .encode = encode};

}  // namespace nib
