// SPDX-License-Identifier: MIT
// Phi-3: Llama's block with q, k, v in one matrix and gate, up in another; some sizes see a window;
// the long context ones divide rope frequencies by factors of the file. Source: arXiv:2404.14219.
#include "src/layers.h"

#include <cmath>

namespace nib {
namespace {

Result<ModelConfig> read_config(ConfigReader& keys) {
    ModelConfig c;
    NIB_TRY(read_common(keys, c, true));
    NIB_TRY(read_window(keys, c, 1));
    return c;
}

constexpr TensorRow kTensors[] = {
    NIB_ROWS_EMBEDDING,
    {.gguf = "rope_factors_long.weight",
     .checkpoint = "",
     .field = &ModelWeights::rope_factors_long,
     .ne0 = Dim::RopeHalf,
     .need = Need::Optional},
    {.gguf = "rope_factors_short.weight",
     .checkpoint = "",
     .field = &ModelWeights::rope_factors_short,
     .ne0 = Dim::RopeHalf,
     .need = Need::Optional},
    NIB_ROWS_PRE_NORMS,
    NIB_LAYER_ROW("attn_qkv.weight", "self_attn.qkv_proj.weight", wqkv, Embd, Qkv, Required),
    NIB_LAYER_ROW("attn_output.weight", "self_attn.o_proj.weight", wo, Q, Embd, Required),
    NIB_LAYER_ROW("ffn_up.weight", "mlp.gate_up_proj.weight", w_up, Embd, FfTwice, Required),
    NIB_LAYER_ROW("ffn_down.weight", "mlp.down_proj.weight", w_down, Ff, Embd, Required),
};

void build(Graph& g, const ModelConfig& c, const ModelWeights& w) {
    const int32_t n_q = c.n_heads * c.head_dim, n_kv = c.n_kv_heads * c.head_dim;
    Tensor x = g.embed(w.token_embd);  // [n_embd]
    for (int32_t layer = 0; layer < c.n_layers; layer++) {
        const LayerWeights& l = w.layers[static_cast<size_t>(layer)];
        Tensor h = g.rms_norm(x, l.attn_norm, c.rms_eps);
        const Tensor qkv = g.matmul(l.wqkv, h);                 // [n_q + 2 n_kv]
        Tensor q = g.view(qkv, 0, c.head_dim, c.n_heads);       // [head_dim, n_heads]
        Tensor k = g.view(qkv, n_q, c.head_dim, c.n_kv_heads);  // [head_dim, n_kv_heads]
        const Tensor v = g.view(qkv, n_q + n_kv, c.head_dim, c.n_kv_heads);
        q = g.rope(q, c.rope_of(layer));
        k = g.rope(k, c.rope_of(layer));
        x = g.add(x, g.matmul(l.wo, g.attention(q, k, v, c.attention(layer))));
        h = g.rms_norm(x, l.ffn_norm, c.rms_eps);
        const Tensor gate_up = g.matmul(l.w_up, h);  // [2 n_ff]
        h = g.silu_mul(g.view(gate_up, 0, c.n_ff), g.view(gate_up, c.n_ff, c.n_ff));
        x = g.add(x, g.matmul(l.w_down, h));
    }
    finish_with_head(g, c, w, x);
}

constexpr TinyKey kTiny[] = {
    {"block_count", 2},
    {"embedding_length", 64},
    {"feed_forward_length", 96},
    {"context_length", 512},
    {"attention.head_count", 4},
    {"attention.head_count_kv", 2},
    {"rope.dimension_count", 16},
    {"attention.sliding_window", 70},
    {"attention.layer_norm_rms_epsilon", 1e-5, true},
};

}  // namespace

extern const ArchDef arch_phi3 = {
    .name = "phi3", .read_config = read_config, .tensors = kTensors, .build = build, .tiny = kTiny};

}  // namespace nib
