// SPDX-License-Identifier: MIT
// The engine: a loaded model, its KV cache and the loop that turns requests into tokens. This
// header is all that src/cli and src/server know of the inside.
//
// Threads: one thread at a time calls generate() and score(); cancel() may be called from any
// thread and from a signal handler.
#pragma once
#include "ggml-like/result.h"
#include "src/sample/sampler.h"
#include "src/tokenizer/tokenizer.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nib {

enum class LogLevel { Info, Warning };

struct EngineOptions {
    std::string model_path;
    int32_t context = 0;    // tokens; 0: what the model was trained for, bounded by memory
    int32_t ubatch = 512;   // rows of a prompt per step, 1..4096
    int32_t threads = 0;    // 0: what the process may use (affinity, cgroup quota)
    std::string cpu_level;  // "", "scalar", "avx2", "avx512"; "" = the best that the CPU has
    std::string cache_type_k = "f16", cache_type_v = "f16";  // or "q8_0"
    bool allow_unknown_pre = false;
    bool check_tensors = false;  // look for non-finite weights and name the tensor
    // Progress of loading in [0, 1]; return false to give up (Cancelled).
    std::function<bool(double)> progress;
    std::function<void(LogLevel, const std::string&)> log;
};

enum class FinishReason { Stop, Length, Cancelled };
const char* finish_reason_name(FinishReason reason);

struct Timings {
    int32_t prompt_n = 0;  // tokens computed for the prompt
    int32_t cached_n = 0;  // tokens of the prompt that were in the cache
    double prompt_ms = 0;
    int32_t predicted_n = 0;
    double predicted_ms = 0;
    int32_t draft_n = 0, draft_n_accepted = 0;
};

struct Request {
    std::vector<Token> prompt;  // at least one token
    int32_t max_tokens = -1;    // -1: until the context is full
    SamplingParams sampling;
    bool ignore_eos = false;
    std::vector<std::string> stop;  // texts that end the answer and are not part of it
    // Text as it is generated, never ending inside a character; return false to stop (Cancelled).
    std::function<bool(std::string_view)> on_text;
};

struct Completion {
    std::string text;
    std::vector<Token> tokens;  // without the prompt; with the end token if one was chosen
    FinishReason finish = FinishReason::Stop;
    Timings timings;
};

struct ModelInfo {
    std::string path, arch, name, type_name;  // type_name: the commonest weight type, "q4_1"
    uint64_t n_params = 0, file_bytes = 0, weight_bytes = 0, kv_bytes_per_token = 0;
    int32_t n_layers = 0, n_embd = 0, n_vocab = 0, n_ctx_train = 0, n_ctx = 0;
    std::string chat_template;  // empty if the file has none
    std::string backend;        // "cpu avx512, 2 threads"
    double load_ms = 0;
};

class Engine {
  public:
    static Result<std::unique_ptr<Engine>> create(const EngineOptions& options);
    ~Engine();

    const ModelInfo& model() const;
    const std::shared_ptr<const Tokenizer>& tokenizer() const;

    // Errors: TooLong with both numbers if the prompt does not fit, BadRequest (ids out of range),
    // Internal (non-finite logits). A common prefix with the previous call is not computed again.
    Result<Completion> generate(const Request& request);

    // Logits of every position of `tokens`, computed afresh in chunks of the engine's ubatch.
    // on_logits(position, logits [n_vocab]) is called in order.
    Result<void> score(std::span<const Token> tokens,
                       const std::function<void(int32_t, std::span<const float>)>& on_logits);

    // Ends the running generate() after its current step.
    void cancel() noexcept;
    // Forgets the cached sequence.
    void clear_cache();

  private:
    friend class Generation;
    Engine();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace nib
