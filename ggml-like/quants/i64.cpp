// SPDX-License-Identifier: MIT
// Plain 64-bit integers; beyond 2^24 they round to the nearest float.
#include "ggml-like/quants/block.h"

namespace nib {
namespace {

void decode(const uint8_t* blocks, float* values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        values[i] = static_cast<float>(quants::load<int64_t>(blocks + sizeof(int64_t) * i));
    }
}

}  // namespace

extern const QuantDef quant_i64 = {.type = Type::I64,
                                   .name = "i64",
                                   .block_elems = 1,
                                   .block_bytes = 8,
                                   .decode = decode,
                                   .encode = nullptr};

}  // namespace nib
