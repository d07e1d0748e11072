// SPDX-License-Identifier: MIT
// Gemma 3 (text): as Gemma 2 without soft caps, with RMS norm of every q and k head; five layers
// with a window and a rope base of their own, then one that sees everything. Source:
// arXiv:2503.19786. Norm weights in GGUF files already hold 1 + w.
#include "src/layers.h"

#include <cmath>

namespace nib {
namespace {

Result<ModelConfig> read_config(ConfigReader& keys) {
    ModelConfig c;
    NIB_TRY(read_common(keys, c, true));
    NIB_ASSIGN(const int64_t period,
               keys.integer_or("attention.sliding_window_pattern", 6, 1, kMaxLayers));
    NIB_TRY(read_window(keys, c, static_cast<int32_t>(period)));
    NIB_ASSIGN(const double final, keys.number_or("final_logit_softcapping", 0, 0, 1e6));
    c.final_softcap = static_cast<float>(final);
    c.embd_scale = static_cast<float>(std::sqrt(double(c.n_embd)));
    // The 27B model scales by its width per head instead of by its head size.
    if (c.n_layers == 62)
        c.attn_scale = static_cast<float>(1 / std::sqrt(double(c.n_embd) / c.n_heads));
    // Window layers are not stretched and turn with their own base.
    c.rope_window = {.n_dims = c.rope.n_dims, .neox = true};
    NIB_ASSIGN(const double base, keys.number_or("rope.freq_base_swa", 10000, 1, 1e12));
    c.rope_window.base = static_cast<float>(base);
    return c;
}

constexpr TensorRow kTensors[] = {
    NIB_ROWS_EMBEDDING, NIB_ROWS_SANDWICH_NORMS, NIB_ROWS_QKV, NIB_ROWS_QK_NORM, NIB_ROWS_GATED_FFN,
};

void build(Graph& g, const ModelConfig& c, const ModelWeights& w) {
    const Tensor x = g.scale(g.embed(w.token_embd), c.embd_scale);  // [n_embd]
    finish_with_head(g, c, w, sandwich_norm_layers(g, c, w, x, {.norms = true}));
}

constexpr TinyKey kTiny[] = {
    {"block_count", 3},
    {"embedding_length", 64},
    {"feed_forward_length", 96},
    {"context_length", 512},
    {"attention.head_count", 4},
    {"attention.head_count_kv", 1},
    {"attention.key_length", 32},
    {"attention.value_length", 32},
    {"attention.sliding_window", 40},
    {"attention.sliding_window_pattern", 3},
    {"rope.freq_base", 1e6, true},
    {"attention.layer_norm_rms_epsilon", 1e-6, true},
};

}  // namespace

extern const ArchDef arch_gemma3 = {.name = "gemma3",
                                    .read_config = read_config,
                                    .tensors = kTensors,
                                    .build = build,
                                    .tiny = kTiny};

}  // namespace nib
