// SPDX-License-Identifier: MIT
// rope: rotates all heads of a row; the angles were computed once for the step.
#include "backends/cpu/op.h"

namespace nib::cpu {
namespace {

void run(const Instruction& i, const Pass& p, int first, int end, int) {
    for (int r = first; r < end; r++) {
        const auto half = static_cast<size_t>(i.rope->n_dims / 2);
        const float* cos = p.ropes + i.rope_offset + static_cast<size_t>(r) * 2 * half;
        const RopeRow row{cos, cos + half, i.rope->n_dims, i.rope->neox};
        p.kernels->rope(i.x.row(p, r), row, i.out.ne0, i.out.ne1, i.out.row(p, r));
    }
}

void lower(Lowering& l, int32_t node) {
    Instruction i = l.make(node, "rope");
    i.rope = &l.rope(i.params.rope);
    i.rope_offset = l.rope_offset(i.params.rope);
    i.row_work = 2 * i.out.width();
    i.run = run;
    l.push(i);
}

}  // namespace

extern const CpuOp cpu_op_rope = {.name = "rope", .supports = always, .lower = lower};

}  // namespace nib::cpu
