// SPDX-License-Identifier: MIT
// matmul_bias: add_bias(matmul(w, x), b) becomes one matmul that adds the bias to its finished
// sums. The same additions in the same order, one op less.
#include "ggml-like/op.h"
#include "ggml-like/plan.h"

#include <cstring>

namespace nib {
namespace {

bool apply(Graph& graph, int32_t index, const std::vector<int32_t>& use_count) {
    Node& node = graph.nodes()[static_cast<size_t>(index)];
    if (std::strcmp(node.op->name, "add_bias") != 0) return false;
    const int32_t from = node.inputs[0].node;
    Node& matmul = graph.nodes()[static_cast<size_t>(from)];
    if (std::strcmp(matmul.op->name, "matmul") != 0 || use_count[static_cast<size_t>(from)] != 1 ||
        matmul.weights.size() > 1 || matmul.inputs.size() > 1 || matmul.params.precise) {
        return false;
    }
    const Weight* bias = node.weights[0];
    const Shape shape = node.shape;
    node = matmul;
    node.weights.push_back(bias);
    node.shape = shape;
    matmul = {};
    return true;
}

}  // namespace

extern const FusionDef fusion_matmul_bias = {.name = "matmul_bias", .apply = apply};

}  // namespace nib
