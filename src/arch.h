// SPDX-License-Identifier: MIT
// What an architecture file in models/ says: how to read its config, which tensors it has, how its
// graph goes, and a tiny config for tests. It opens no file, starts no thread and names no device.
#pragma once
#include "ggml-like/graph.h"

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace nib {

inline constexpr int32_t kMaxLayers = 1024;
inline constexpr int32_t kMaxVocab = 1 << 22;
inline constexpr int32_t kMaxWidth = 1
                                     << 20;  // values of a row: embedding, feed forward, all heads
inline constexpr int32_t kMaxContext = 1 << 24;

struct ModelConfig {
    int32_t n_layers = 0, n_embd = 0, n_ff = 0, n_vocab = 0, n_ctx_train = 0;
    int32_t n_heads = 0, n_kv_heads = 0, head_dim = 0;
    float rms_eps = 0;
    RopeSpec rope;                         // of layers that see everything
    RopeSpec rope_window;                  // of window layers
    int32_t window = 0;                    // 0: no window layers
    std::vector<bool> window_layer;        // [n_layers], empty: none
    float embd_scale = 1, attn_scale = 0;  // attn_scale 0: 1 / sqrt(head_dim)
    float attn_softcap = 0, final_softcap = 0;

    bool windowed(int32_t layer) const {
        return !window_layer.empty() && window_layer[static_cast<size_t>(layer)];
    }
    float scale_of_attention() const;
    AttentionSpec attention(int32_t layer) const;
    const RopeSpec& rope_of(int32_t layer) const { return windowed(layer) ? rope_window : rope; }
};

// The weights of a layer; null where the architecture or the file has none.
struct LayerWeights {
    const Weight *attn_norm = nullptr, *attn_post_norm = nullptr;
    const Weight *wq = nullptr, *wk = nullptr, *wv = nullptr, *wqkv = nullptr, *wo = nullptr;
    const Weight *bq = nullptr, *bk = nullptr, *bv = nullptr, *bo = nullptr;
    const Weight *q_norm = nullptr, *k_norm = nullptr;
    const Weight *ffn_norm = nullptr, *ffn_post_norm = nullptr;
    const Weight *w_gate = nullptr, *w_up = nullptr, *w_down = nullptr;
};

struct ModelWeights {
    const Weight *token_embd = nullptr, *output_norm = nullptr, *output = nullptr;
    const Weight* rope_freqs = nullptr;  // factors for every position
    const Weight *rope_factors_long = nullptr, *rope_factors_short = nullptr;
    std::vector<LayerWeights> layers;

    const Weight* head() const {
        return output ? output : token_embd;
    }  // tied unless the file has one
};

// Sizes that a tensor's shape is written in.
enum class Dim : uint8_t {
    One,
    Embd,
    Ff,
    FfTwice,
    Q,
    Kv,
    Qkv,
    HeadDim,
    HeadDimHalf,
    RopeHalf,
    Vocab
};
int32_t size_of(Dim dim, const ModelConfig& c);

enum class Need : uint8_t { Required, Optional };

// One row of an architecture's tensor table. %d in the names is the layer.
struct TensorRow {
    const char* gguf;  // "blk.%d.attn_q.weight"
    const char*
        checkpoint;  // "model.layers.%d.self_attn.q_proj.weight", as safetensors files name it
    const Weight* ModelWeights::*field = nullptr;  // one of these two
    const Weight* LayerWeights::*layer_field = nullptr;
    Dim ne0 = Dim::One, ne1 = Dim::One;  // innermost first; ne1 One: a vector
    Need need = Need::Required;
};

// The keys of a file that begin with "ARCH.". Every read names its range; a key that was never read
// is an error at the end (finish), since it may change the result.
class ConfigReader {
  public:
    virtual ~ConfigReader() = default;
    virtual Result<int64_t> integer(const char* key, int64_t low, int64_t high) = 0;
    virtual Result<int64_t> integer_or(const char* key,
                                       int64_t fallback,
                                       int64_t low,
                                       int64_t high) = 0;
    virtual Result<double> number(const char* key, double low, double high) = 0;
    virtual Result<double> number_or(const char* key, double fallback, double low, double high) = 0;
    virtual Result<std::string> string_or(const char* key, const char* fallback) = 0;
    // One integer for all layers, or an array of one for each.
    virtual Result<std::vector<int64_t>> per_layer(
        const char* key, int64_t fallback, int64_t n_layers, int64_t low, int64_t high) = 0;
    virtual bool has(const char* key) const = 0;
    // Says that a key is known and does not change what we compute.
    virtual void ignore(const char* key) = 0;
    virtual Error bad(const char* key, const std::string& what) const = 0;
};

// The keys that every decoder has: sizes, heads, norm, context, rope (with its scaling). Head
// counts that differ between layers are refused. neox: how the architecture pairs rotated values.
Result<void> read_common(ConfigReader& keys, ModelConfig& c, bool neox);
// attention.sliding_window and which layers have it: every layer but each `period`-th.
Result<void> read_window(ConfigReader& keys, ModelConfig& c, int32_t period);

// A key of the tiny config that tests write: "embedding_length" = 64.
struct TinyKey {
    const char* key;
    double value;
    bool is_float = false;
};

struct ArchDef {
    const char* name;  // general.architecture
    Result<ModelConfig> (*read_config)(ConfigReader& keys);
    std::span<const TensorRow> tensors;
    // weights outlive the graph; rope factors have been put into the config.
    void (*build)(Graph& g, const ModelConfig& c, const ModelWeights& w);
    std::span<const TinyKey> tiny;
};
std::span<const ArchDef* const> all_archs();
const ArchDef* find_arch(const std::string& name);  // nullptr if unknown

}  // namespace nib
