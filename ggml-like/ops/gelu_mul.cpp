// SPDX-License-Identifier: MIT
// gelu_mul: y = gelu(gate) * up with the tanh form of gelu (arXiv:1606.08415).
#include "ggml-like/backend.h"
#include "ggml-like/op.h"

#include <cmath>

namespace nib {
namespace {

Result<Shape> shape(const Graph& g, const Node& n) {
    const Shape gate = g.node(n.inputs[0]).shape;
    const Shape up = g.node(n.inputs[1]).shape;
    if (gate.width() != up.width() || gate.rows != up.rows) {
        return Error{Status::BadFile, std::string(n.op->name) + ": " +
                                          std::to_string(gate.width()) + " values and " +
                                          std::to_string(up.width())};
    }
    return gate;
}

double activate(double x) {
    return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

void reference(ReferenceContext& c) {
    for (size_t i = 0; i < c.out.data.size(); i++) {
        c.out.data[i] = static_cast<float>(activate(c.inputs[0]->data[i]) * c.inputs[1]->data[i]);
    }
}

}  // namespace

extern const OpDef op_gelu_mul = {
    .name = "gelu_mul", .shape = shape, .reference = reference, .in_place = true};

}  // namespace nib
