// SPDX-License-Identifier: MIT
// softcap: y = c * tanh(x / c).
#include "ggml-like/backend.h"
#include "ggml-like/op.h"

#include <cmath>

namespace nib {
namespace {

Result<Shape> shape(const Graph& g, const Node& n) {
    return g.node(n.inputs[0]).shape;
}

void reference(ReferenceContext& c) {
    const double cap = c.node.params.factor;
    for (size_t i = 0; i < c.out.data.size(); i++) {
        c.out.data[i] = static_cast<float>(cap * std::tanh(c.inputs[0]->data[i] / cap));
    }
}

}  // namespace

extern const OpDef op_softcap = {
    .name = "softcap", .shape = shape, .reference = reference, .in_place = true};

}  // namespace nib
