// SPDX-License-Identifier: MIT
// rms_norm: y = x / sqrt(mean(x^2) + eps) * w over ne0, for each of ne1 (arXiv:1910.07467).
#include "ggml-like/backend.h"
#include "ggml-like/op.h"

#include <cmath>

namespace nib {
namespace {

Result<Shape> shape(const Graph& g, const Node& n) {
    const Shape x = g.node(n.inputs[0]).shape;
    if (x.ne0 != n.weights[0]->ne0 || n.weights[0]->ne1 != 1) {
        return Error{Status::BadFile, n.weights[0]->name + ": expected " + std::to_string(x.ne0) +
                                          " values, file has " + std::to_string(n.weights[0]->ne0)};
    }
    return x;
}

void reference(ReferenceContext& c) {
    const std::vector<float> w = c.weight(0);
    const auto n = static_cast<size_t>(c.node.shape.ne0);
    for (int32_t r = 0; r < c.n_rows; r++) {
        for (int32_t h = 0; h < c.node.shape.ne1; h++) {
            const float* x = c.inputs[0]->row(r) + static_cast<size_t>(h) * n;
            float* y = c.out.row(r) + static_cast<size_t>(h) * n;
            double sum = 0;
            for (size_t i = 0; i < n; i++)
                sum += double(x[i]) * x[i];
            const double factor = 1 / std::sqrt(sum / static_cast<double>(n) + c.node.params.eps);
            for (size_t i = 0; i < n; i++)
                y[i] = static_cast<float>(x[i] * factor * w[i]);
        }
    }
}

}  // namespace

extern const OpDef op_rms_norm = {
    .name = "rms_norm", .shape = shape, .reference = reference, .in_place = true};

}  // namespace nib
