// SPDX-License-Identifier: MIT
// Qwen2 and Qwen2.5: Llama's block with biases on q, k and v. Source: arXiv:2407.10671.
#include "src/layers.h"

namespace nib {
namespace {

Result<ModelConfig> read_config(ConfigReader& keys) {
    ModelConfig c;
    NIB_TRY(read_common(keys, c, true));
    return c;
}

constexpr TensorRow kTensors[] = {
    NIB_ROWS_EMBEDDING,          NIB_ROWS_PRE_NORMS, NIB_ROWS_QKV,
    NIB_ROWS_QKV_BIAS(Required), NIB_ROWS_GATED_FFN,
};

void build(Graph& g, const ModelConfig& c, const ModelWeights& w) {
    const Tensor x = g.embed(w.token_embd);  // [n_embd]
    finish_with_head(g, c, w, pre_norm_layers(g, c, w, x, {.biases = true}));
}

constexpr TinyKey kTiny[] = {
    {"block_count", 2},
    {"embedding_length", 64},
    {"feed_forward_length", 128},
    {"context_length", 512},
    {"attention.head_count", 4},
    {"attention.head_count_kv", 1},
    {"rope.freq_base", 1e6, true},
    {"attention.layer_norm_rms_epsilon", 1e-6, true},
};

}  // namespace

extern const ArchDef arch_qwen2 = {.name = "qwen2",
                                   .read_config = read_config,
                                   .tensors = kTensors,
                                   .build = build,
                                   .tiny = kTiny};

}  // namespace nib
