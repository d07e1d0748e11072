// SPDX-License-Identifier: MIT
// The 16-entry tables of the non-uniform 4-bit formats.
#pragma once
#include "ggml-like/quants/block.h"

namespace nib::quants {

// IQ4: steps that grow away from zero.
inline constexpr int8_t kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};
// FP4 (one sign, two exponent, one mantissa bit), doubled so that it is whole. Minus zero is zero.
inline constexpr int8_t kFp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace nib::quants
