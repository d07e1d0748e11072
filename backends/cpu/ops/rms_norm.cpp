// SPDX-License-Identifier: MIT
// rms_norm: one row, with all its heads, is a unit.
#include "backends/cpu/op.h"

namespace nib::cpu {
namespace {

void run(const Instruction& i, const Pass& p, int first, int end, int) {
    for (int r = first; r < end; r++) {
        for (int h = 0; h < i.out.ne1; h++) {
            const int at = h * i.out.ne0;
            p.kernels->rms_norm(i.x.row(p, r) + at, i.vector, i.out.row(p, r) + at, i.out.ne0,
                                i.params.eps);
        }
    }
}

void lower(Lowering& l, int32_t node) {
    Instruction i = l.make(node, "rms_norm");
    i.row_work = 2 * i.out.width();
    i.run = run;
    l.push(i);
}

}  // namespace

extern const CpuOp cpu_op_rms_norm = {.name = "rms_norm", .supports = always, .lower = lower};

}  // namespace nib::cpu
