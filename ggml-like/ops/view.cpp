// SPDX-License-Identifier: MIT
// view: part of each row, [ne0, ne1] from value `offset` on. Nothing is computed.
#include "ggml-like/backend.h"
#include "ggml-like/op.h"

namespace nib {
namespace {

Result<Shape> shape(const Graph& g, const Node& n) {
    const Shape x = g.node(n.inputs[0]).shape;
    const int64_t end = int64_t{n.params.offset} + int64_t{n.shape.ne0} * n.shape.ne1;
    if (n.params.offset < 0 || n.shape.ne0 < 1 || n.shape.ne1 < 1 || end > x.width()) {
        return Error{Status::BadFile, "view: values " + std::to_string(n.params.offset) + " to " +
                                          std::to_string(end) + " of " + std::to_string(x.width())};
    }
    return Shape{n.shape.ne0, n.shape.ne1, x.rows};
}

void reference(ReferenceContext& c) {
    for (int32_t r = 0; r < c.n_rows; r++) {
        const float* x = c.inputs[0]->row(r) + c.node.params.offset;
        for (int32_t i = 0; i < c.node.shape.width(); i++)
            c.out.row(r)[i] = x[i];
    }
}

}  // namespace

extern const OpDef op_view = {
    .name = "view", .shape = shape, .reference = reference, .alias = true};

}  // namespace nib
