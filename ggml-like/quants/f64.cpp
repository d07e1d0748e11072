// SPDX-License-Identifier: MIT
// Double precision; values round to the nearest float, those beyond its range become infinite.
#include "ggml-like/quants/block.h"

namespace nib {
namespace {

float narrow(double value) {
    // The cast of a value beyond the range of float is not defined by the language. 2^128 - 2^103
    // is the first double that rounds to 2^128.
    constexpr double kTooLarge = 0x1.ffffffp127;
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    if (value >= kTooLarge) return kInfinity;
    if (value <= -kTooLarge) return -kInfinity;
    return static_cast<float>(value);
}

void decode(const uint8_t* blocks, float* values, size_t n) {
    for (size_t i = 0; i < n; i++)
        values[i] = narrow(quants::load<double>(blocks + 8 * i));
}

}  // namespace

extern const QuantDef quant_f64 = {.type = Type::F64,
                                   .name = "f64",
                                   .block_elems = 1,
                                   .block_bytes = 8,
                                   .decode = decode,
                                   .encode = nullptr};

}  // namespace nib
