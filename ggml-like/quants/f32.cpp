// SPDX-License-Identifier: MIT
// Single precision: copied as it is.
#include "ggml-like/quants/block.h"

namespace nib {
namespace {

void decode(const uint8_t* blocks, float* values, size_t n) {
    if (n) std::memcpy(values, blocks, n * sizeof(float));
}

void encode(const float* values, uint8_t* blocks, size_t n) {
    if (n) std::memcpy(blocks, values, n * sizeof(float));
}

}  // namespace

extern const QuantDef quant_f32 = {.type = Type::F32,
                                   .name = "f32",
                                   .block_elems = 1,
                                   .block_bytes = 4,
                                   .decode = decode,
                                   .encode = encode};

}  // namespace nib
