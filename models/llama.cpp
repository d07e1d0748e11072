// SPDX-License-Identifier: MIT
// Llama and those who share its block (Mistral, SmolLM2, TinyLlama): RMS norm, rotary attention
// with grouped heads, SwiGLU. Source: arXiv:2302.13971, arXiv:2307.09288, arXiv:2310.06825
// (window). The converter to GGUF reorders the rows of q and k, so pairs to rotate lie side by
// side.
#include "src/layers.h"

namespace nib {
namespace {

Result<ModelConfig> read_config(ConfigReader& keys) {
    ModelConfig c;
    NIB_TRY(read_common(keys, c, false));
    NIB_TRY(read_window(keys, c, 1));  // Mistral 7B v0.1: every layer
    return c;
}

constexpr TensorRow kTensors[] = {
    NIB_ROWS_EMBEDDING,
    {.gguf = "rope_freqs.weight",
     .checkpoint = "",
     .field = &ModelWeights::rope_freqs,
     .ne0 = Dim::RopeHalf,
     .need = Need::Optional},
    NIB_ROWS_PRE_NORMS,
    NIB_ROWS_QKV,
    NIB_ROWS_QKV_BIAS(Optional),
    NIB_ROWS_GATED_FFN,
};

void build(Graph& g, const ModelConfig& c, const ModelWeights& w) {
    const Tensor x = g.embed(w.token_embd);  // [n_embd]
    finish_with_head(g, c, w, pre_norm_layers(g, c, w, x, {.biases = true}));
}

constexpr TinyKey kTiny[] = {
    {"block_count", 2},
    {"embedding_length", 64},
    {"feed_forward_length", 96},
    {"context_length", 512},
    {"attention.head_count", 4},
    {"attention.head_count_kv", 2},
    {"rope.freq_base", 1e4, true},
    {"attention.layer_norm_rms_epsilon", 1e-5, true},
};

}  // namespace

extern const ArchDef arch_llama = {.name = "llama",
                                   .read_config = read_config,
                                   .tensors = kTensors,
                                   .build = build,
                                   .tiny = kTiny};

}  // namespace nib
