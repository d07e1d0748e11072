// SPDX-License-Identifier: MIT
// The kernels built for AVX-512 with VNNI. Everything but the table has internal linkage, and no
// template of the standard library is used: a shared (weak) symbol built here could be taken by
// code for other machines.
#include "backends/cpu/simd/avx512.h"
// The vectors come first: the kernels are written over their names.
#include "backends/cpu/kernels/table.inl"

namespace nib::cpu {

extern const Kernels kernels_avx512;
constinit const Kernels kernels_avx512 = make_table("avx512");

}  // namespace nib::cpu
