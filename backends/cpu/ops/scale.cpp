// SPDX-License-Identifier: MIT
// scale: one row is a unit.
#include "backends/cpu/op.h"

namespace nib::cpu {
namespace {

void run(const Instruction& i, const Pass& p, int first, int end, int) {
    for (int r = first; r < end; r++) {
        p.kernels->scale(i.x.row(p, r), i.params.factor, i.out.row(p, r),
                         static_cast<size_t>(i.out.width()));
    }
}

void lower(Lowering& l, int32_t node) {
    Instruction i = l.make(node, "scale");
    i.row_work = i.out.width();
    i.run = run;
    l.push(i);
}

}  // namespace

extern const CpuOp cpu_op_scale = {.name = "scale", .supports = always, .lower = lower};

}  // namespace nib::cpu
