// SPDX-License-Identifier: MIT
// matmul_add: add(x, matmul(w, h)) becomes one matmul that adds x (the residual) to its finished
// sums. Float addition commutes, so either side may be the matmul.
#include "ggml-like/op.h"
#include "ggml-like/plan.h"

#include <cstring>

namespace nib {
namespace {

bool apply(Graph& graph, int32_t index, const std::vector<int32_t>& use_count) {
    Node& node = graph.nodes()[static_cast<size_t>(index)];
    if (std::strcmp(node.op->name, "add") != 0) return false;
    for (size_t side : {1, 0}) {
        const int32_t from = node.inputs[side].node;
        Node& matmul = graph.nodes()[static_cast<size_t>(from)];
        if (std::strcmp(matmul.op->name, "matmul") != 0 ||
            use_count[static_cast<size_t>(from)] != 1 || matmul.inputs.size() > 1 ||
            matmul.params.precise) {
            continue;
        }
        const Tensor residual = node.inputs[1 - side];
        const Shape shape = node.shape;
        node = matmul;
        node.inputs.push_back(residual);
        node.shape = shape;
        matmul = {};
        return true;
    }
    return false;
}

}  // namespace

extern const FusionDef fusion_matmul_add = {.name = "matmul_add", .apply = apply};

}  // namespace nib
