// SPDX-License-Identifier: MIT
// select_outputs: copies the wanted rows to the front of the tail.
#include "backends/cpu/op.h"

#include <algorithm>

namespace nib::cpu {
namespace {

void run(const Instruction& i, const Pass& p, int first, int end, int) {
    for (int r = first; r < end; r++) {
        const float* x = i.x.row(p, p.step->outputs[p.first_output + r]);
        std::copy_n(x, i.out.width(), i.out.row(p, r));
    }
}

void lower(Lowering& l, int32_t node) {
    Instruction i = l.make(node, "select_outputs");
    i.row_work = i.out.width();
    i.run = run;
    l.push(i);
}

}  // namespace

extern const CpuOp cpu_op_select_outputs = {
    .name = "select_outputs", .supports = always, .lower = lower};

}  // namespace nib::cpu
