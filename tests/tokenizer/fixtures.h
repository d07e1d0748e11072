// SPDX-License-Identifier: MIT
// What the tokenizer's tests share: vocabularies from files and from a few lines of text.
#pragma once
#include "src/tokenizer/tokenizer.h"
#include "src/tokenizer/utf8.h"
#include "tests/support/support.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace nib::test {

using TokenizerPtr = std::shared_ptr<const Tokenizer>;
using Tokens = std::vector<Token>;

inline Result<TokenizerPtr> try_load(const std::string& path,
                                     uint64_t n_rows = 0,
                                     TokenizerOptions options = {}) {
    NIB_ASSIGN(auto file, GgufFile::open(path, {.need_tensors = false}));
    return Tokenizer::create(*file, n_rows, options);
}

inline Result<TokenizerPtr> try_load(const GgufBytes& bytes,
                                     uint64_t n_rows = 0,
                                     TokenizerOptions options = {}) {
    const TempDir folder;
    const std::string path = folder.file("vocab.gguf");
    write_file(path, bytes.bytes());
    return try_load(path, n_rows, options);  // nothing of the file is needed once it is loaded
}

template <class Source>
TokenizerPtr load(const Source& source, TokenizerOptions options = {}) {
    auto loaded = try_load(source, 0, options);
    if (loaded.ok()) return std::move(loaded).value();
    ADD_FAILURE() << loaded.error().message;
    return nullptr;
}

// A downloaded model by its file name: $NIB_MODELS or the user's cache; empty if it is not there.
inline std::string model_path(const std::string& name) {
    const char* models = std::getenv("NIB_MODELS");
    const char* home = std::getenv("HOME");
    const std::string folder =
        models ? models : std::string(home ? home : "") + "/.cache/nib/models";
    const std::string path = folder + "/" + name;
    return file_exists(path) ? path : std::string();
}

inline constexpr const char* kSmol = "SmolLM2-135M-Instruct.Q4_1.gguf";
inline constexpr const char* kGemma = "gemma-3-270m-q4_k_m.gguf";

// One token of a made-up vocabulary.
struct Entry {
    std::string text;
    TokenKind kind = TokenKind::Normal;
    float score = 0;
};

inline GgufBytes vocabulary_bytes(const std::string& model, const std::vector<Entry>& entries) {
    std::vector<std::string> texts;
    std::vector<int32_t> kinds;
    std::vector<float> scores;
    for (const Entry& e : entries) {
        texts.push_back(e.text);
        kinds.push_back(static_cast<int32_t>(e.kind));
        scores.push_back(e.score);
    }
    GgufBytes bytes;
    bytes.add_string("tokenizer.ggml.model", model);
    bytes.add_strings("tokenizer.ggml.tokens", texts);
    bytes.add_i32s("tokenizer.ggml.token_type", kinds);
    if (model == "llama") bytes.add_f32s("tokenizer.ggml.scores", scores);
    return bytes;
}

// xorshift: the same numbers on every machine.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
    uint64_t next() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return state_;
    }
    size_t below(size_t n) { return static_cast<size_t>(next() >> 11) % n; }

  private:
    uint64_t state_;
};

}  // namespace nib::test
