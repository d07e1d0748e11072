// SPDX-License-Identifier: MIT
// add: one row is a unit.
#include "backends/cpu/op.h"

namespace nib::cpu {
namespace {

void run(const Instruction& i, const Pass& p, int first, int end, int) {
    for (int r = first; r < end; r++) {
        p.kernels->add(i.x.row(p, r), i.y.row(p, r), i.out.row(p, r),
                       static_cast<size_t>(i.out.width()));
    }
}

void lower(Lowering& l, int32_t node) {
    Instruction i = l.make(node, "add");
    i.row_work = i.out.width();
    i.run = run;
    l.push(i);
}

}  // namespace

extern const CpuOp cpu_op_add = {.name = "add", .supports = always, .lower = lower};

}  // namespace nib::cpu
