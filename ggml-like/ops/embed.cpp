// SPDX-License-Identifier: MIT
// embed: row `token` of a table, for each row of the step.
#include "ggml-like/backend.h"
#include "ggml-like/op.h"

namespace nib {
namespace {

Result<Shape> shape(const Graph&, const Node& n) {
    return Shape{n.weights[0]->ne0, 1, Rows::Step};
}

void reference(ReferenceContext& c) {
    const Weight& w = *c.node.weights[0];
    const size_t stride = row_bytes(*w.def, static_cast<uint64_t>(w.ne0));
    for (int32_t r = 0; r < c.n_rows; r++) {
        const auto token = static_cast<size_t>(c.step.tokens[r]);
        w.def->decode(c.weight_bytes(0) + token * stride, c.out.row(r), static_cast<size_t>(w.ne0));
    }
}

}  // namespace

extern const OpDef op_embed = {.name = "embed", .shape = shape, .reference = reference};

}  // namespace nib
