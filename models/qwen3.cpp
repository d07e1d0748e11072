// SPDX-License-Identifier: MIT
// Qwen3 (dense): Llama's block, RMS norm of every q and k head before the rotation, no biases, a
// head size of its own. Source: arXiv:2505.09388.
#include "src/layers.h"

namespace nib {
namespace {

Result<ModelConfig> read_config(ConfigReader& keys) {
    ModelConfig c;
    NIB_TRY(read_common(keys, c, true));
    return c;
}

constexpr TensorRow kTensors[] = {
    NIB_ROWS_EMBEDDING, NIB_ROWS_PRE_NORMS, NIB_ROWS_QKV, NIB_ROWS_QK_NORM, NIB_ROWS_GATED_FFN,
};

void build(Graph& g, const ModelConfig& c, const ModelWeights& w) {
    const Tensor x = g.embed(w.token_embd);  // [n_embd]
    finish_with_head(g, c, w, pre_norm_layers(g, c, w, x, {.norms = true}));
}

constexpr TinyKey kTiny[] = {
    {"block_count", 2},
    {"embedding_length", 64},
    {"feed_forward_length", 96},
    {"context_length", 512},
    {"attention.head_count", 4},
    {"attention.head_count_kv", 2},
    {"attention.key_length", 32},
    {"attention.value_length", 32},
    {"rope.freq_base", 1e6, true},
    {"attention.layer_norm_rms_epsilon", 1e-6, true},
};

}  // namespace

extern const ArchDef arch_qwen3 = {.name = "qwen3",
                                   .read_config = read_config,
                                   .tensors = kTensors,
                                   .build = build,
                                   .tiny = kTiny};

}  // namespace nib
