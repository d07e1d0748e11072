// SPDX-License-Identifier: MIT
// add_bias: y = x + b, the same vector for each row.
#include "ggml-like/backend.h"
#include "ggml-like/op.h"

namespace nib {
namespace {

Result<Shape> shape(const Graph& g, const Node& n) {
    const Shape x = g.node(n.inputs[0]).shape;
    if (x.width() != n.weights[0]->ne0 || n.weights[0]->ne1 != 1) {
        return Error{Status::BadFile, n.weights[0]->name + ": expected " +
                                          std::to_string(x.width()) + " values, file has " +
                                          std::to_string(n.weights[0]->ne0)};
    }
    return x;
}

void reference(ReferenceContext& c) {
    const std::vector<float> b = c.weight(0);
    for (int32_t r = 0; r < c.n_rows; r++) {
        for (size_t i = 0; i < b.size(); i++)
            c.out.row(r)[i] = c.inputs[0]->row(r)[i] + b[i];
    }
}

}  // namespace

extern const OpDef op_add_bias = {
    .name = "add_bias", .shape = shape, .reference = reference, .in_place = true};

}  // namespace nib
