// SPDX-License-Identifier: MIT
// embed: reads the row of each token back from the panels, so a tied table is in memory once.
#include "backends/cpu/op.h"

namespace nib::cpu {
namespace {

void run(const Instruction& i, const Pass& p, int first, int end, int) {
    for (int r = first; r < end; r++) {
        decode_row(*i.matrix, p.step->tokens[r], i.out.row(p, r));
    }
}

void lower(Lowering& l, int32_t node) {
    Instruction i = l.make(node, "embed");
    i.row_work = 4 * i.out.width();
    i.run = run;
    l.push(i);
}

}  // namespace

extern const CpuOp cpu_op_embed = {.name = "embed", .supports = always, .lower = lower};

}  // namespace nib::cpu
