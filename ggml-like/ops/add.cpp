// SPDX-License-Identifier: MIT
// add: y = a + b.
#include "ggml-like/backend.h"
#include "ggml-like/op.h"

namespace nib {
namespace {

Result<Shape> shape(const Graph& g, const Node& n) {
    const Shape a = g.node(n.inputs[0]).shape;
    const Shape b = g.node(n.inputs[1]).shape;
    if (a.width() != b.width() || a.rows != b.rows) {
        return Error{Status::BadFile, "add: " + std::to_string(a.width()) + " values and " +
                                          std::to_string(b.width())};
    }
    return a;
}

void reference(ReferenceContext& c) {
    for (size_t i = 0; i < c.out.data.size(); i++) {
        c.out.data[i] = c.inputs[0]->data[i] + c.inputs[1]->data[i];
    }
}

}  // namespace

extern const OpDef op_add = {
    .name = "add", .shape = shape, .reference = reference, .in_place = true};

}  // namespace nib
