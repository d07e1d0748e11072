// SPDX-License-Identifier: MIT
// Plain 16-bit integers.
#include "ggml-like/quants/block.h"

namespace nib {
namespace {

void decode(const uint8_t* blocks, float* values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        values[i] = static_cast<float>(quants::load<int16_t>(blocks + sizeof(int16_t) * i));
    }
}

}  // namespace

extern const QuantDef quant_i16 = {.type = Type::I16,
                                   .name = "i16",
                                   .block_elems = 1,
                                   .block_bytes = 2,
                                   .decode = decode,
                                   .encode = nullptr};

}  // namespace nib
