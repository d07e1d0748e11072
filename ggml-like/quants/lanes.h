// SPDX-License-Identifier: MIT
// Four floats that are worked on together, in the compilers' own vector types: any machine has
// them, x86-64 and arm64 as one register. What holds for one float holds for each lane; no
// operation here depends on the machine.
#pragma once
#include "ggml-like/quants/block.h"

namespace nib::quants {

using F4 = float __attribute__((vector_size(16)));
using I4 = int32_t __attribute__((vector_size(16)));

inline F4 splat(float v) {
    return F4{v, v, v, v};
}
inline F4 load4(const float* p) {
    F4 v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
inline void store4(float* p, F4 v) {
    std::memcpy(p, &v, sizeof v);
}

// The second one where a lane of the first is not a number.
inline F4 least(F4 a, F4 b) {
    return a < b ? a : b;
}
inline F4 most(F4 a, F4 b) {
    return a > b ? a : b;
}
inline F4 size4(F4 v) {
    return v < F4{} ? -v : v;
}

// To the nearest whole number, halves to even, for sizes below 2^22: the sum has no bits left for
// a fraction.
inline F4 whole(F4 v) {
    constexpr float kNoFraction = 12582912.0f;  // 1.5 * 2^23
    return (v + splat(kNoFraction)) - splat(kNoFraction);
}

inline float sum4(F4 v) {
    return (v[0] + v[2]) + (v[1] + v[3]);
}

// Whole numbers only.
inline I4 to_int(F4 v) {
    return __builtin_convertvector(v, I4);
}

}  // namespace nib::quants
