// SPDX-License-Identifier: MIT
// scale: y = factor * x.
#include "ggml-like/backend.h"
#include "ggml-like/op.h"

namespace nib {
namespace {

Result<Shape> shape(const Graph& g, const Node& n) {
    return g.node(n.inputs[0]).shape;
}

void reference(ReferenceContext& c) {
    for (size_t i = 0; i < c.out.data.size(); i++) {
        c.out.data[i] = c.inputs[0]->data[i] * c.node.params.factor;
    }
}

}  // namespace

extern const OpDef op_scale = {
    .name = "scale", .shape = shape, .reference = reference, .in_place = true};

}  // namespace nib
