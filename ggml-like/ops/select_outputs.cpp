// SPDX-License-Identifier: MIT
// select_outputs: the rows whose logits are wanted.
#include "ggml-like/backend.h"
#include "ggml-like/op.h"

namespace nib {
namespace {

Result<Shape> shape(const Graph& g, const Node& n) {
    const Shape x = g.node(n.inputs[0]).shape;
    return Shape{x.ne0, x.ne1, Rows::Output};
}

void reference(ReferenceContext& c) {
    for (int32_t o = 0; o < c.n_rows; o++) {
        const float* x = c.inputs[0]->row(c.step.outputs[o]);
        for (int32_t i = 0; i < c.node.shape.width(); i++)
            c.out.row(o)[i] = x[i];
    }
}

}  // namespace

extern const OpDef op_select_outputs = {
    .name = "select_outputs", .shape = shape, .reference = reference};

}  // namespace nib
