// SPDX-License-Identifier: MIT
// The kernels built for plain x86-64. Everything but the table has internal linkage, and no
// template of the standard library is used: a shared (weak) symbol built here could be taken by
// code for other machines.
#include "backends/cpu/simd/scalar.h"
// The vectors come first: the kernels are written over their names.
#include "backends/cpu/kernels/table.inl"

namespace nib::cpu {

extern const Kernels kernels_scalar;
constinit const Kernels kernels_scalar = make_table("scalar");

}  // namespace nib::cpu
