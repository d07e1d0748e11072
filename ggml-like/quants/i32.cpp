// SPDX-License-Identifier: MIT
// Plain 32-bit integers; beyond 2^24 they round to the nearest float.
#include "ggml-like/quants/block.h"

namespace nib {
namespace {

void decode(const uint8_t* blocks, float* values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        values[i] = static_cast<float>(quants::load<int32_t>(blocks + sizeof(int32_t) * i));
    }
}

}  // namespace

extern const QuantDef quant_i32 = {.type = Type::I32,
                                   .name = "i32",
                                   .block_elems = 1,
                                   .block_bytes = 4,
                                   .decode = decode,
                                   .encode = nullptr};

}  // namespace nib
