// SPDX-License-Identifier: MIT
// Gemma 2: scaled embeddings, norms before and after attention and feed forward, GELU gates, every
// second layer sees a window, soft caps on attention scores and logits. Source: arXiv:2408.00118.
// Norm weights in GGUF files already hold 1 + w.
#include "src/layers.h"

#include <cmath>

namespace nib {
namespace {

Result<ModelConfig> read_config(ConfigReader& keys) {
    ModelConfig c;
    NIB_TRY(read_common(keys, c, true));
    NIB_TRY(read_window(keys, c, 2));
    NIB_ASSIGN(const double attn, keys.number_or("attn_logit_softcapping", 50, 0, 1e6));
    NIB_ASSIGN(const double final, keys.number_or("final_logit_softcapping", 30, 0, 1e6));
    c.attn_softcap = static_cast<float>(attn);
    c.final_softcap = static_cast<float>(final);
    c.embd_scale = static_cast<float>(std::sqrt(double(c.n_embd)));
    // The 27B model scales by its width per head instead of by its head size.
    if (c.n_layers == 46)
        c.attn_scale = static_cast<float>(1 / std::sqrt(double(c.n_embd) / c.n_heads));
    return c;
}

constexpr TensorRow kTensors[] = {
    NIB_ROWS_EMBEDDING,
    NIB_ROWS_SANDWICH_NORMS,
    NIB_ROWS_QKV,
    NIB_ROWS_GATED_FFN,
};

void build(Graph& g, const ModelConfig& c, const ModelWeights& w) {
    const Tensor x = g.scale(g.embed(w.token_embd), c.embd_scale);  // [n_embd]
    finish_with_head(g, c, w, sandwich_norm_layers(g, c, w, x, {}));
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
    {"attention.sliding_window", 40},
    {"attention.layer_norm_rms_epsilon", 1e-6, true},
    {"attn_logit_softcapping", 50, true},
    {"final_logit_softcapping", 30, true},
};

}  // namespace

extern const ArchDef arch_gemma2 = {.name = "gemma2",
                                    .read_config = read_config,
                                    .tensors = kTensors,
                                    .build = build,
                                    .tiny = kTiny};

}  // namespace nib
