// SPDX-License-Identifier: MIT
// The parts of config reading that architectures share.
#include "src/arch.h"

#include <cmath>

namespace nib {

float ModelConfig::scale_of_attention() const {
    return attn_scale > 0 ? attn_scale : static_cast<float>(1 / std::sqrt(double(head_dim)));
}

AttentionSpec ModelConfig::attention(int32_t layer) const {
    return {.layer = layer,
            .n_heads = n_heads,
            .n_kv_heads = n_kv_heads,
            .head_dim = head_dim,
            .window = windowed(layer) ? window : 0,
            .scale = scale_of_attention(),
            .softcap = attn_softcap};
}

int32_t size_of(Dim dim, const ModelConfig& c) {
    switch (dim) {
    case Dim::One:
        return 1;
    case Dim::Embd:
        return c.n_embd;
    case Dim::Ff:
        return c.n_ff;
    case Dim::FfTwice:
        return 2 * c.n_ff;
    case Dim::Q:
        return c.n_heads * c.head_dim;
    case Dim::Kv:
        return c.n_kv_heads * c.head_dim;
    case Dim::Qkv:
        return (c.n_heads + 2 * c.n_kv_heads) * c.head_dim;
    case Dim::HeadDim:
        return c.head_dim;
    case Dim::HeadDimHalf:
        return c.head_dim / 2;
    case Dim::RopeHalf:
        return c.rope.n_dims / 2;
    case Dim::Vocab:
        return c.n_vocab;
    }
    return 0;
}

const ArchDef* find_arch(const std::string& name) {
    for (const ArchDef* arch : all_archs()) {
        if (arch->name == name) return arch;
    }
    return nullptr;
}

namespace {

Result<int32_t> same_for_all(
    ConfigReader& keys, const char* key, int64_t fallback, int32_t n_layers, int64_t high) {
    NIB_ASSIGN(const std::vector<int64_t> values, keys.per_layer(key, fallback, n_layers, 1, high));
    for (int64_t v : values) {
        if (v != values[0]) return keys.bad(key, "differs between layers, which is not supported");
    }
    return static_cast<int32_t>(values[0]);
}

Result<void> read_heads(ConfigReader& keys, ModelConfig& c) {
    NIB_ASSIGN(c.n_heads, same_for_all(keys, "attention.head_count", 0, c.n_layers, 65536));
    NIB_ASSIGN(c.n_kv_heads,
               same_for_all(keys, "attention.head_count_kv", c.n_heads, c.n_layers, c.n_heads));
    if (c.n_heads % c.n_kv_heads) {
        return keys.bad("attention.head_count_kv", std::to_string(c.n_kv_heads) +
                                                       " does not divide head_count " +
                                                       std::to_string(c.n_heads));
    }
    if (!keys.has("attention.key_length") && c.n_embd % c.n_heads) {
        return keys.bad("attention.head_count", std::to_string(c.n_heads) +
                                                    " does not divide embedding_length " +
                                                    std::to_string(c.n_embd));
    }
    const int64_t most = kMaxWidth / c.n_heads;
    NIB_ASSIGN(const int64_t key,
               keys.integer_or("attention.key_length", c.n_embd / c.n_heads, 1, most));
    NIB_ASSIGN(const int64_t value, keys.integer_or("attention.value_length", key, 1, most));
    if (key != value || key % 16) {
        return keys.bad("attention.key_length",
                        "heads of " + std::to_string(key) + " (values " + std::to_string(value) +
                            ") are not supported: must be equal and a multiple of 16");
    }
    c.head_dim = static_cast<int32_t>(key);
    return {};
}

Result<void> read_rope(ConfigReader& keys, ModelConfig& c, bool neox) {
    c.rope.neox = neox;
    NIB_ASSIGN(const int64_t dims,
               keys.integer_or("rope.dimension_count", c.head_dim, 2, c.head_dim));
    if (dims % 2) return keys.bad("rope.dimension_count", std::to_string(dims) + " is odd");
    c.rope.n_dims = static_cast<int32_t>(dims);
    NIB_ASSIGN(const double base, keys.number_or("rope.freq_base", 10000, 1, 1e12));
    c.rope.base = static_cast<float>(base);
    NIB_ASSIGN(const std::string type, keys.string_or("rope.scaling.type", "none"));
    NIB_ASSIGN(const double factor, keys.number_or("rope.scaling.factor", 1, 1e-3, 1e6));
    // Older files say linear scaling without a type.
    NIB_ASSIGN(const double linear, keys.number_or("rope.scale_linear", 1, 1e-3, 1e6));
    NIB_ASSIGN(const int64_t original, keys.integer_or("rope.scaling.original_context_length",
                                                       c.n_ctx_train, 1, kMaxContext));
    NIB_ASSIGN(const double attn_factor, keys.number_or("rope.scaling.attn_factor", 1, 1e-3, 1e3));
    keys.ignore("rope.scaling.finetuned");
    c.rope.factor = static_cast<float>(type == "none" && linear != 1 ? linear : factor);
    c.rope.original_context = static_cast<int32_t>(original);
    c.rope.mscale = static_cast<float>(attn_factor);
    if (type == "linear" || (type == "none" && linear != 1)) {
        c.rope.scaling = RopeSpec::Scaling::Linear;
    } else if (type == "yarn") {
        c.rope.scaling = RopeSpec::Scaling::Yarn;
        // The attention temperature of arXiv:2309.00071 section 3.4.
        c.rope.mscale *= static_cast<float>(1 + 0.1 * std::log(c.rope.factor));
    } else if (type != "none" && type != "longrope") {
        return keys.bad("rope.scaling.type",
                        "'" + type + "' is not supported (none, linear, yarn, longrope)");
    }
    return {};
}

}  // namespace

Result<void> read_common(ConfigReader& keys, ModelConfig& c, bool neox) {
    NIB_ASSIGN(const int64_t layers, keys.integer("block_count", 1, kMaxLayers));
    NIB_ASSIGN(const int64_t embd, keys.integer("embedding_length", 1, kMaxWidth));
    NIB_ASSIGN(const int64_t context, keys.integer("context_length", 1, kMaxContext));
    c.n_layers = static_cast<int32_t>(layers);
    c.n_embd = static_cast<int32_t>(embd);
    c.n_ctx_train = static_cast<int32_t>(context);
    NIB_ASSIGN(c.n_ff, same_for_all(keys, "feed_forward_length", 0, c.n_layers, kMaxWidth / 2));
    NIB_TRY(read_heads(keys, c));
    NIB_ASSIGN(const double eps, keys.number("attention.layer_norm_rms_epsilon", 1e-12, 0.1));
    c.rms_eps = static_cast<float>(eps);
    NIB_TRY(read_rope(keys, c, neox));
    NIB_TRY(keys.integer_or("vocab_size", 1, 1, kMaxVocab));  // the table's rows say it
    NIB_ASSIGN(const int64_t experts, keys.integer_or("expert_count", 0, 0, 1 << 20));
    NIB_TRY(keys.integer_or("expert_used_count", 0, 0, 1 << 20));
    if (experts)
        return keys.bad("expert_count", std::to_string(experts) + ": experts are not supported");
    NIB_ASSIGN(const int64_t causal, keys.integer_or("attention.causal", 1, 0, 1));
    if (!causal)
        return keys.bad("attention.causal", "attention that is not causal is not supported");
    keys.ignore("tensor_data_layout");
    keys.ignore("max_position_embeddings");
    return {};
}

Result<void> read_window(ConfigReader& keys, ModelConfig& c, int32_t period) {
    NIB_ASSIGN(const int64_t window,
               keys.integer_or("attention.sliding_window", 0, 0, kMaxContext));
    c.window = static_cast<int32_t>(window);
    c.rope_window = c.rope;
    if (!window) return {};
    c.window_layer.resize(static_cast<size_t>(c.n_layers));
    for (int32_t l = 0; l < c.n_layers; l++) {
        c.window_layer[static_cast<size_t>(l)] = period == 1 || l % period != period - 1;
    }
    return {};
}

}  // namespace nib
