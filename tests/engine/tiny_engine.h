// SPDX-License-Identifier: MIT
// A tiny random model in a file, and requests to an engine on it.
#pragma once
#include "src/engine.h"
#include "tests/support/tiny_model.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace nib::test {

class TinyFile {
  public:
    static TinyOptions q8_0() {
        TinyOptions options;
        options.type = "q8_0";
        return options;
    }
    explicit TinyFile(const char* arch = "llama", TinyOptions options = q8_0()) {
        path_ = dir_.file("tiny.gguf");
        write_file(path_, tiny_gguf(*find_arch(arch), options));
    }
    const std::string& path() const { return path_; }

    std::unique_ptr<Engine> open(EngineOptions o = {}) const {
        o.model_path = path_;
        auto engine = Engine::create(o);
        EXPECT_TRUE(engine.ok()) << engine.error().message;
        return engine.ok() ? std::move(*engine) : nullptr;
    }

  private:
    TempDir dir_;
    std::string path_;
};

// Ids of the byte vocabulary, different for each seed from the first token on.
inline std::vector<Token> some_tokens(int n, int seed = 1) {
    std::vector<Token> t;
    for (int i = 0; i < n; i++)
        t.push_back((i * 37 + seed * 101 + i * i % 7) % 256);
    return t;
}

inline Request greedy_request(std::vector<Token> prompt, int32_t n) {
    Request r;
    r.prompt = std::move(prompt);
    r.max_tokens = n;
    r.ignore_eos = true;
    r.sampling.temperature = 0;
    return r;
}

inline Request sampled_request(std::vector<Token> prompt, int32_t n, uint64_t seed) {
    Request r;
    r.prompt = std::move(prompt);
    r.max_tokens = n;
    r.ignore_eos = true;
    r.sampling.temperature = 1.2f;
    r.sampling.top_k = 0;
    r.sampling.top_p = 1;
    r.sampling.min_p = 0;
    r.sampling.seed = seed;
    return r;
}

// Everything that a stream gives, up to its end.
struct Answer {
    std::string text;
    std::vector<Token> tokens;
    StreamEvent last;
};
inline Answer read_all(Stream& stream) {
    Answer a;
    for (;;) {
        auto event = stream.next(std::chrono::seconds(60));
        if (!event) {
            ADD_FAILURE() << "a stream is silent for a minute";
            return a;
        }
        a.text += event->text;
        for (const GeneratedToken& t : event->tokens)
            a.tokens.push_back(t.id);
        if (!event->done) continue;
        a.last = std::move(*event);
        return a;
    }
}

}  // namespace nib::test
