// SPDX-License-Identifier: MIT
// rope: rotates the first n_dims values of each head by the row's position (arXiv:2104.09864).
#include "ggml-like/backend.h"
#include "ggml-like/op.h"

namespace nib {
namespace {

Result<Shape> shape(const Graph& g, const Node& n) {
    const Shape x = g.node(n.inputs[0]).shape;
    const RopeSpec& rope = g.ropes()[static_cast<size_t>(n.params.rope)];
    if (rope.n_dims < 2 || rope.n_dims % 2 || rope.n_dims > x.ne0) {
        return Error{Status::BadFile, "rope: " + std::to_string(rope.n_dims) +
                                          " rotated values of heads of " + std::to_string(x.ne0)};
    }
    return x;
}

void reference(ReferenceContext& c) {
    const RopeSpec& rope = c.graph.ropes()[static_cast<size_t>(c.node.params.rope)];
    const auto half = static_cast<size_t>(rope.n_dims / 2);
    std::vector<float> cos(half), sin(half);
    for (int32_t r = 0; r < c.n_rows; r++) {
        fill_rope(rope, c.step.positions[r], cos.data(), sin.data());
        for (int32_t h = 0; h < c.node.shape.ne1; h++) {
            const size_t at = static_cast<size_t>(h) * static_cast<size_t>(c.node.shape.ne0);
            const float* x = c.inputs[0]->row(r) + at;
            float* y = c.out.row(r) + at;
            for (int32_t i = 0; i < c.node.shape.ne0; i++)
                y[i] = x[i];
            for (size_t i = 0; i < half; i++) {
                const size_t a = rope.neox ? i : 2 * i, b = rope.neox ? i + half : 2 * i + 1;
                y[a] = static_cast<float>(double(x[a]) * cos[i] - double(x[b]) * sin[i]);
                y[b] = static_cast<float>(double(x[a]) * sin[i] + double(x[b]) * cos[i]);
            }
        }
    }
}

}  // namespace

extern const OpDef op_rope = {
    .name = "rope", .shape = shape, .reference = reference, .in_place = true};

}  // namespace nib
