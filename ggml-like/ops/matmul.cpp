// SPDX-License-Identifier: MIT
// matmul: y[o] = sum over k of w[k, o] * x[k], then + bias[o] (weight 1, if any), then + input 1
// (if any).
#include "ggml-like/backend.h"
#include "ggml-like/op.h"

namespace nib {
namespace {

Result<Shape> shape(const Graph& g, const Node& n) {
    const Shape x = g.node(n.inputs[0]).shape;
    const Weight& w = *n.weights[0];
    if (x.width() != w.ne0) {
        return Error{Status::BadFile, w.name + ": expected rows of " + std::to_string(x.width()) +
                                          " values, file has " + std::to_string(w.ne0)};
    }
    return Shape{w.ne1, 1, x.rows};
}

void reference(ReferenceContext& c) {
    const std::vector<float> w = c.weight(0);
    std::vector<float> bias;
    if (c.node.weights.size() > 1) bias = c.weight(1);
    const auto k = static_cast<size_t>(c.node.weights[0]->ne0);
    for (int32_t r = 0; r < c.n_rows; r++) {
        const float* x = c.inputs[0]->row(r);
        for (size_t o = 0; o < static_cast<size_t>(c.node.shape.ne0); o++) {
            double sum = 0;
            for (size_t i = 0; i < k; i++)
                sum += double(w[o * k + i]) * x[i];
            if (!bias.empty()) sum += bias[o];
            if (c.inputs.size() > 1) sum += c.inputs[1]->row(r)[o];
            c.out.row(r)[o] = static_cast<float>(sum);
        }
    }
}

}  // namespace

extern const OpDef op_matmul = {.name = "matmul", .shape = shape, .reference = reference};

}  // namespace nib
