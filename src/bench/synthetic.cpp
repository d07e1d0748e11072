// SPDX-License-Identifier: MIT
// Weights are normal with the deviation that keeps activations in range. Encoding gigabytes would
// take minutes, so a stretch of rows is encoded for each (type, row length) and repeated: kernels
// take the same time for any bits.
#include "src/bench/synthetic.h"

#include "ggml-like/files/gguf.h"
#include "src/arch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>
#include <vector>

namespace nib::bench {
namespace {

constexpr SyntheticModel kModels[] = {
    {"smollm2-135m", "llama", 30, 576, 1536, 9, 3, 64, 49152, 8192, 1e5f, 1e-5f, true, false, 0},
    {"llama-1b", "llama", 16, 2048, 8192, 32, 8, 64, 128256, 131072, 5e5f, 1e-5f, true, false, 0},
    {"llama-3b", "llama", 28, 3072, 8192, 24, 8, 128, 128256, 131072, 5e5f, 1e-5f, true, false, 0},
    {"llama-8b", "llama", 32, 4096, 14336, 32, 8, 128, 128256, 131072, 5e5f, 1e-5f, false, false,
     0},
    {"qwen2.5-7b", "qwen2", 28, 3584, 18944, 28, 4, 128, 152064, 32768, 1e6f, 1e-6f, false, true,
     0},
    {"gemma3-4b", "gemma3", 34, 2560, 10240, 8, 4, 256, 262144, 131072, 1e6f, 1e-6f, true, false,
     1024},
};

constexpr size_t kStretch = size_t(1) << 18;  // values that are really random

// Which type a matrix gets.
class TypeChoice {
  public:
    static Result<TypeChoice> create(const std::string& name, int32_t n_layers) {
        TypeChoice choice;
        choice.n_layers_ = n_layers;
        const bool is_mix = name == "q4_k_m" || name == "q5_k_m";
        choice.usual_ = find_type(is_mix ? name.substr(0, 4) : name);
        choice.better_ = is_mix ? find_type("q6_k") : choice.usual_;
        if (!choice.usual_ || !choice.usual_->encode) {
            return Error{
                Status::BadRequest,
                "expected q4_k_m, q5_k_m or a type that can be written, got '" + name + "'"};
        }
        return choice;
    }

    const QuantDef& of(const std::string& name, int32_t layer, bool tied, int32_t ne0) const {
        bool better = name == "output.weight" || (tied && name == "token_embd.weight");
        if (name.ends_with("attn_v.weight") || name.ends_with("ffn_down.weight")) {
            const int32_t eighth = n_layers_ / 8;
            better = layer < eighth || layer >= 7 * eighth || (layer - eighth) % 3 == 2;
        }
        return fitting(better ? *better_ : *usual_, ne0);
    }

  private:
    static const QuantDef& fitting(const QuantDef& def, int32_t ne0) {
        const auto n = static_cast<uint32_t>(ne0);
        if (n % def.block_elems == 0) return def;
        const char* instead = def.type == Type::Q4_K   ? "q5_0"
                              : def.type == Type::Q5_K ? "q5_1"
                                                       : "q8_0";
        const QuantDef* other = find_type(instead);
        return n % other->block_elems == 0 ? *other : *find_type("f16");
    }

    const QuantDef *usual_ = nullptr, *better_ = nullptr;
    int32_t n_layers_ = 0;
};

struct TensorPlan {
    std::string name;
    const QuantDef* def;
    int32_t ne0, ne1;
    bool is_vector;
};

ModelConfig config_of(const SyntheticModel& m) {
    ModelConfig c;
    c.n_layers = m.n_layers, c.n_embd = m.n_embd, c.n_ff = m.n_ff, c.n_vocab = m.n_vocab;
    c.n_heads = m.n_heads, c.n_kv_heads = m.n_kv_heads, c.head_dim = m.head_dim;
    c.rope.n_dims = m.head_dim;
    return c;
}

std::vector<TensorPlan> plan_tensors(const SyntheticModel& m,
                                     const ArchDef& arch,
                                     const TypeChoice& types) {
    const ModelConfig c = config_of(m);
    std::vector<TensorPlan> tensors;
    for (const TensorRow& row : arch.tensors) {
        const std::string pattern = row.gguf;
        if (pattern.starts_with("rope_") || (pattern.ends_with(".bias") && !m.biases) ||
            (pattern == "output.weight" && m.tied)) {
            continue;
        }
        for (int32_t layer = 0; layer < (row.layer_field ? m.n_layers : 1); layer++) {
            char name[128];
            std::snprintf(name, sizeof name, row.gguf, layer);
            const bool is_vector = row.ne1 == Dim::One;
            const int32_t ne0 = size_of(row.ne0, c);
            tensors.push_back(
                {name, is_vector ? find_type("f32") : &types.of(pattern, layer, m.tied, ne0), ne0,
                 size_of(row.ne1, c), is_vector});
        }
    }
    return tensors;
}

// The letters that byte-level vocabularies use for bytes.
std::string letter_of(int byte) {
    const auto printable = [](int b) {
        return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    };
    int code = byte;
    if (!printable(byte)) {
        code = 256;
        for (int b = 0; b < byte; b++)
            code += printable(b) ? 0 : 1;
    }
    if (code < 128) return std::string(1, static_cast<char>(code));
    return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
}

// Every byte is a token; the rest are fillers that no text gives.
void add_vocabulary(GgufWriter& file, int32_t n_vocab) {
    std::vector<std::string> tokens, merges = {"a b"};
    std::vector<int32_t> kinds;
    for (int b = 0; b < 256; b++)
        tokens.push_back(letter_of(b)), kinds.push_back(1);
    tokens.emplace_back("ab"), kinds.push_back(1);
    tokens.emplace_back("<|end|>"), kinds.push_back(3);
    while (tokens.size() < static_cast<size_t>(n_vocab))
        tokens.push_back("<filler " + std::to_string(tokens.size()) + ">"), kinds.push_back(1);
    file.add_string("tokenizer.ggml.model", "gpt2");
    file.add_string("tokenizer.ggml.pre", "gpt-2");
    file.add_strings("tokenizer.ggml.tokens", tokens);
    file.add_i32s("tokenizer.ggml.token_type", kinds);
    file.add_strings("tokenizer.ggml.merges", merges);
    file.add_u32("tokenizer.ggml.bos_token_id", 257);
    file.add_u32("tokenizer.ggml.eos_token_id", 257);
    file.add_bool("tokenizer.ggml.add_bos_token", false);
}

void add_config(GgufWriter& file, const SyntheticModel& m, const std::string& type) {
    const std::string arch = std::string(m.arch) + ".";
    const auto number = [&](const char* key, int32_t value) {
        file.add_u32(arch + key, static_cast<uint32_t>(value));
    };
    file.add_string("general.architecture", m.arch);
    file.add_string("general.name", std::string(m.name) + " " + type + ", random weights");
    number("block_count", m.n_layers);
    number("context_length", m.n_ctx);
    number("embedding_length", m.n_embd);
    number("feed_forward_length", m.n_ff);
    number("attention.head_count", m.n_heads);
    number("attention.head_count_kv", m.n_kv_heads);
    number("attention.key_length", m.head_dim);
    number("attention.value_length", m.head_dim);
    number("rope.dimension_count", m.head_dim);
    number("vocab_size", m.n_vocab);
    if (m.window) number("attention.sliding_window", m.window);
    file.add_f32(arch + "rope.freq_base", m.rope_base);
    file.add_f32(arch + "attention.layer_norm_rms_epsilon", m.rms_eps);
}

class DataWriter {
  public:
    explicit DataWriter(GgufWriter& file) : file_(file) {}

    Result<void> write(const TensorPlan& t) {
        if (t.is_vector) {  // norms are 1, biases small
            const float value = t.name.ends_with(".bias") ? 0.01f : 1.0f;
            const std::vector<float> values(static_cast<size_t>(t.ne0), value);
            return file_.write_data(values.data(), values.size() * sizeof(float));
        }
        const std::string& stretch = stretch_of(*t.def, t.ne0);
        size_t left = row_bytes(*t.def, static_cast<uint64_t>(t.ne0)) * static_cast<size_t>(t.ne1);
        while (left > 0) {
            const size_t n = std::min(left, stretch.size());
            NIB_TRY(file_.write_data(stretch.data(), n));
            left -= n;
        }
        return {};
    }

  private:
    // Whole rows of the type.
    const std::string& stretch_of(const QuantDef& def, int32_t ne0) {
        std::string& bytes = stretches_[{def.type, ne0}];
        if (!bytes.empty()) return bytes;
        const auto width = static_cast<size_t>(ne0);
        const size_t rows = std::max<size_t>(1, kStretch / width);
        std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(ne0)));
        std::vector<float> values(rows * width);
        for (float& v : values)
            v = normal(random_);
        bytes.resize(row_bytes(def, values.size()));
        def.encode(values.data(), reinterpret_cast<uint8_t*>(bytes.data()), values.size());
        return bytes;
    }

    GgufWriter& file_;
    std::mt19937 random_{1};
    std::map<std::pair<Type, int32_t>, std::string> stretches_;
};

}  // namespace

std::span<const SyntheticModel> synthetic_models() {
    return kModels;
}

Result<const SyntheticModel*> find_synthetic(const std::string& name) {
    std::string names;
    for (const SyntheticModel& m : kModels) {
        if (name == m.name) return &m;
        names += (names.empty() ? "" : ", ") + std::string(m.name);
    }
    return Error{Status::BadRequest, "expected one of " + names + ", got '" + name + "'"};
}

Result<void> write_synthetic(const SyntheticModel& model,
                             const std::string& type,
                             const std::string& path) {
    const ArchDef* arch = find_arch(model.arch);
    if (!arch) return Error{Status::Internal, std::string("no architecture ") + model.arch};
    NIB_ASSIGN(const TypeChoice types, TypeChoice::create(type, model.n_layers));
    const std::vector<TensorPlan> tensors = plan_tensors(model, *arch, types);
    NIB_ASSIGN(const auto file, GgufWriter::create(path));
    add_config(*file, model, type);
    add_vocabulary(*file, model.n_vocab);
    for (const TensorPlan& t : tensors) {
        const uint64_t ne[] = {static_cast<uint64_t>(t.ne0), static_cast<uint64_t>(t.ne1)};
        file->add_tensor(t.name, t.def->type, std::span(ne, t.is_vector ? 1 : 2));
    }
    DataWriter data(*file);
    for (const TensorPlan& t : tensors)
        NIB_TRY(data.write(t));
    return file->finish();
}

}  // namespace nib::bench
