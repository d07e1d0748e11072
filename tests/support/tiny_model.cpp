// SPDX-License-Identifier: MIT
#include "tests/support/tiny_model.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>

#include <gtest/gtest.h>

namespace nib::test {
namespace {

struct Keys {
    std::map<std::string, double> numbers;
    double operator[](const std::string& key) const {
        const auto found = numbers.find(key);
        return found == numbers.end() ? 0 : found->second;
    }
};

// The sizes that the tensor table needs, from the tiny keys.
ModelConfig sizes(const Keys& k, int n_vocab) {
    ModelConfig c;
    c.n_layers = static_cast<int32_t>(k["block_count"]);
    c.n_embd = static_cast<int32_t>(k["embedding_length"]);
    c.n_ff = static_cast<int32_t>(k["feed_forward_length"]);
    c.n_heads = static_cast<int32_t>(k["attention.head_count"]);
    c.n_kv_heads = static_cast<int32_t>(k["attention.head_count_kv"]);
    const double key_length = k["attention.key_length"];
    c.head_dim = key_length > 0 ? static_cast<int32_t>(key_length) : c.n_embd / c.n_heads;
    const double rope = k["rope.dimension_count"];
    c.rope.n_dims = rope > 0 ? static_cast<int32_t>(rope) : c.head_dim;
    c.n_vocab = n_vocab;
    return c;
}

class Writer {
  public:
    Writer(const TinyOptions& o) : options_(o), rng_(o.seed) {}

    void add(const std::string& name, const TensorRow& row, const ModelConfig& c) {
        if (name == options_.without_tensor) return;
        const auto ne0 = static_cast<uint64_t>(size_of(row.ne0, c));
        const auto ne1 = static_cast<uint64_t>(size_of(row.ne1, c));
        const bool vector = row.ne1 == Dim::One;
        const bool norm = name.find("norm") != std::string::npos;
        const QuantDef* def = vector ? find_type("f32") : find_type(options_.type);
        if (ne0 % def->block_elems) def = find_type("q8_0");
        std::normal_distribution<float> normal(
            norm ? 1.0f : 0.0f, vector ? 0.1f : 1.0f / std::sqrt(static_cast<float>(ne0)));
        std::vector<float> values(ne0 * ne1);
        for (float& v : values)
            v = normal(rng_);
        std::vector<uint64_t> ne = {ne0};
        if (!vector) ne.push_back(ne1);
        file.tensor(name, ne, static_cast<uint32_t>(def->type), file.data.size());
        std::string bytes(row_bytes(*def, ne0) * ne1, '\0');
        for (uint64_t r = 0; r < ne1; r++) {
            def->encode(values.data() + r * ne0,
                        reinterpret_cast<uint8_t*>(bytes.data()) + r * row_bytes(*def, ne0), ne0);
        }
        bytes.resize((bytes.size() + 31) / 32 * 32, '\0');
        file.data += bytes;
        if (first_.empty())
            first_ = name, first_type_ = static_cast<uint32_t>(def->type),
            first_bytes_ = bytes.size();
    }

    // The same bytes under another name; `first` was the first tensor of the file.
    void copy(const std::string& first,
              const std::string& name,
              const TensorRow& row,
              const ModelConfig& c) {
        EXPECT_EQ(first, first_);
        const auto ne0 = static_cast<uint64_t>(size_of(row.ne0, c));
        const auto ne1 = static_cast<uint64_t>(size_of(row.ne1, c));
        file.tensor(name, {ne0, ne1}, first_type_, file.data.size());
        file.data += file.data.substr(0, first_bytes_);
    }

    GgufBytes file;

  private:
    std::string first_;
    uint32_t first_type_ = 0;
    size_t first_bytes_ = 0;
    const TinyOptions& options_;
    std::mt19937 rng_;
};

// A character of the byte-level alphabet for byte b, in UTF-8.
std::string byte_letter(int b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    int code = b;
    if (!printable) {
        code = 256;
        for (int i = 0; i < b; i++) {
            if (!((i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174)) code++;
        }
    }
    if (code < 128) return std::string(1, static_cast<char>(code));
    return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
}

void add_vocabulary(GgufBytes& file, int n_vocab) {
    std::vector<std::string> tokens, merges;
    std::vector<int32_t> types;
    for (int b = 0; b < 256; b++)
        tokens.push_back(byte_letter(b)), types.push_back(1);
    for (const char* mark : {"<|im_start|>", "<|im_end|>"})
        tokens.emplace_back(mark), types.push_back(3);
    for (char c = 'a'; static_cast<int>(tokens.size()) < n_vocab;
         c = c == 'z' ? 'a' : static_cast<char>(c + 1)) {
        const std::string first(1, c), second(1, static_cast<char>('a' + tokens.size() % 26));
        if (static_cast<int>(tokens.size()) < 256 + 2 + 26) {
            tokens.push_back(first + second);
            merges.push_back(first + " " + second);
        } else {
            tokens.push_back("<unused" + std::to_string(tokens.size()) + ">");
        }
        types.push_back(1);
    }
    file.add_string("tokenizer.ggml.model", "gpt2").add_string("tokenizer.ggml.pre", "gpt-2");
    file.add_strings("tokenizer.ggml.tokens", tokens).add_i32s("tokenizer.ggml.token_type", types);
    file.add_strings("tokenizer.ggml.merges", merges);
    file.add_u32("tokenizer.ggml.eos_token_id", 257)
        .add_bool("tokenizer.ggml.add_bos_token", false);
}

}  // namespace

std::string tiny_gguf(const ArchDef& arch, const TinyOptions& options) {
    Keys keys;
    std::map<std::string, bool> is_float;
    const auto set = [&](const TinyKey& k) {
        keys.numbers[k.key] = k.value;
        is_float[k.key] = k.is_float;
    };
    for (const TinyKey& k : arch.tiny)
        set(k);
    const ModelConfig c = sizes(keys, options.n_vocab);  // tensors as the true config says
    for (const TinyKey& k : options.keys)
        set(k);

    Writer w(options);
    w.file.add_string("general.architecture", arch.name).add_string("general.name", "tiny");
    for (const auto& [key, value] : keys.numbers) {
        const std::string full = std::string(arch.name) + "." + key;
        if (is_float[key]) {
            // A NaN of a float key is a NaN in the file; infinity removes the key.
            if (!std::isinf(value)) w.file.add_f32(full, static_cast<float>(value));
        } else if (!std::isnan(value)) {
            w.file.add_u32(full, static_cast<uint32_t>(static_cast<int64_t>(value)));
        }
    }
    if (!options.extra_key.empty())
        w.file.add_u32(std::string(arch.name) + "." + options.extra_key, 7);
    if (options.chat_template_is_number) w.file.add_u32("tokenizer.chat_template", 7);
    if (!options.chat_template.empty())
        w.file.add_string("tokenizer.chat_template", options.chat_template);
    add_vocabulary(w.file, options.n_vocab);
    for (const TensorRow& row : arch.tensors) {
        const std::string gguf = row.gguf;
        if (gguf.starts_with("rope_")) continue;
        if (gguf == "output.weight" && options.copy_head) w.copy("token_embd.weight", gguf, row, c);
        if (gguf == "output.weight" && (options.tied || options.copy_head)) continue;
        for (int layer = 0; layer < (row.layer_field ? c.n_layers : 1); layer++) {
            char name[128];
            std::snprintf(name, sizeof name, row.gguf, layer);
            w.add(name, row, c);
        }
    }
    return w.file.bytes();
}

}  // namespace nib::test
