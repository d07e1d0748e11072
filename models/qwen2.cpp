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
    Tensor x = g.embed(w.token_embd);  // [n_embd]
    for (int32_t layer = 0; layer < c.n_layers; layer++) {
        const LayerWeights& l = w.layers[static_cast<size_t>(layer)];
        Tensor h = g.rms_norm(x, l.attn_norm, c.rms_eps);
        h = self_attention(g, c, l, h, layer, {.biases = true});
        x = g.add(x, g.matmul(l.wo, h));
        h = g.rms_norm(x, l.ffn_norm, c.rms_eps);
        x = g.add(x, gated_ffn(g, l, h, Activation::Silu));
    }
    finish_with_head(g, c, w, x);
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
