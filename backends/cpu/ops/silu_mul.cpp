// SPDX-License-Identifier: MIT
// silu_mul: one row is a unit.
#include "backends/cpu/op.h"

namespace nib::cpu {
namespace {

void run(const Instruction& i, const Pass& p, int first, int end, int) {
    for (int r = first; r < end; r++) {
        p.kernels->silu(i.x.row(p, r), i.y.row(p, r), i.out.row(p, r),
                        static_cast<size_t>(i.out.width()));
    }
}

void lower(Lowering& l, int32_t node) {
    Instruction i = l.make(node, "silu_mul");
    i.row_work = 2 * i.out.width();
    i.run = run;
    l.push(i);
}

}  // namespace

extern const CpuOp cpu_op_silu_mul = {.name = "silu_mul", .supports = always, .lower = lower};

}  // namespace nib::cpu
