// SPDX-License-Identifier: MIT
// The kernels built for AVX2, FMA and F16C. Everything but the table has internal linkage, and no
// template of the standard library is used: a shared (weak) symbol built here could be taken by
// code for other machines.
#include "backends/cpu/simd/avx2.h"
// The vectors come first: the kernels are written over their names.
#include "backends/cpu/kernels/table.inl"

namespace nib::cpu {

extern const Kernels kernels_avx2;
constinit const Kernels kernels_avx2 = make_table("avx2");

}  // namespace nib::cpu
