// SPDX-License-Identifier: MIT
// Plain signed bytes.
#include "ggml-like/quants/block.h"

namespace nib {
namespace {

void decode(const uint8_t* blocks, float* values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        values[i] = static_cast<float>(quants::load<int8_t>(blocks + sizeof(int8_t) * i));
    }
}

}  // namespace

extern const QuantDef quant_i8 = {.type = Type::I8,
                                  .name = "i8",
                                  .block_elems = 1,
                                  .block_bytes = 1,
                                  .decode = decode,
                                  .encode = nullptr};

}  // namespace nib
