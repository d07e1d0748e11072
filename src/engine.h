// SPDX-License-Identifier: MIT
// The engine: a loaded model, its KV cache, and one thread that turns requests into tokens. This
// header is all that src/cli and src/server know of the inside; src/engine_c.h says the same in C.
//
// A request is submitted and answered through its Stream. The engine thread makes steps: it asks
// the scheduler which rows of which requests go into the next one, runs it, samples, and hands
// text to the streams. It never waits for a reader: a stream whose reader is behind is paused.
//
// Threads: every function of Engine may be called from any thread; cancel() also from a signal
// handler. A Stream has one reader; its cancel() may be called from any thread.
#pragma once
#include "ggml-like/result.h"
#include "src/histogram.h"
#include "src/sample/sampler.h"
#include "src/tokenizer/tokenizer.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace nib {

enum class LogLevel { Info, Warning };

struct EngineOptions {
    std::string model_path;
    int32_t context = 0;  // tokens of a sequence; 0: as trained, bounded by memory
    int32_t ubatch = 0;   // rows of a prompt per step, 1..4096; 0: 128 to 512, by the model's size
    int32_t threads = 0;  // 0: what the process may use (affinity, cgroup quota)
    std::string cpu_level;  // "", "scalar", "avx2", "avx512"; "" = the best that the CPU has
    std::string cache_type_k = "f16", cache_type_v = "f16";  // or "q8_0"
    bool allow_unknown_pre = false;
    bool check_tensors = false;  // look for non-finite weights and name the tensor

    int32_t parallel = 1;      // requests that run at the same time, 1..256; others wait
    int32_t queue_limit = 64;  // requests that wait at most; more are refused (Busy)
    uint64_t kv_bytes = 0;     // of all KV blocks, running and cached; 0: `parallel` contexts, but
                               // not more than a quarter of the memory that is available
    std::string cache_policy = "lru";  // which cached blocks go first: "lru", "slru"
    double max_stall_ms = 0;  // a running stream waits no longer for its next token because of
                              // others' prompts; 0: twice its time alone

    // Folder of saved states; "": there are none. build names the program in them: a state of
    // another build is refused.
    std::string state_folder, build;

    // Progress of loading in [0, 1]; return false to give up (Cancelled).
    std::function<bool(double)> progress;
    std::function<void(LogLevel, const std::string&)> log;
};

enum class FinishReason { Stop, Length, Cancelled };
const char* finish_reason_name(FinishReason reason);

struct Timings {
    int32_t prompt_n = 0;  // tokens computed for the prompt
    int32_t cached_n = 0;  // tokens of the prompt that were in the cache
    double prompt_ms = 0;  // from the start of its first step to its first token
    int32_t predicted_n = 0;
    double predicted_ms = 0;
    int32_t draft_n = 0, draft_n_accepted = 0;
    double queue_ms = 0;  // from submit() to the start of its first step
};

// What comes out at the end of a request: text, or one vector.
enum class Pooling { None, Mean, Last };

struct Request {
    std::vector<Token> prompt;  // at least one token
    int32_t max_tokens = -1;    // -1: until the context is full
    SamplingParams sampling;
    uint64_t sequence = 0;  // keys the random numbers beside the seed: the number of a choice
    bool ignore_eos = false;
    std::vector<std::string> stop;  // texts that end the answer and are not part of it
    int32_t n_probs = -1;  // with each token: -1 nothing, 0 its own log probability, n > 0 also the
                           // n most probable tokens (0..256)
    bool post_sampling_probs = false;  // of the chain's survivors instead of the raw logits

    Pooling pooling = Pooling::None;  // else: no text; the hidden states of the prompt, pooled

    int32_t priority = 0;      // higher goes first
    std::string client;        // requests of one client share its turn
    uint64_t cache_salt = 0;   // prefixes are shared only between requests of the same salt
    bool cache_prompt = true;  // use what is cached of the prompt
    int32_t slot = -1;  // where it would like to run (RequestInfo::slot); if it is taken, elsewhere
    std::optional<std::chrono::steady_clock::time_point> deadline;  // then it ends as it is: Length
};

struct TokenScore {
    Token id = kNoToken;
    float logprob = 0;  // natural logarithm
};

struct GeneratedToken {
    Token id = kNoToken;
    float logprob = 0;            // if n_probs >= 0
    std::vector<TokenScore> top;  // n_probs of them, best first
};

// What is new since the last event of a stream.
struct StreamEvent {
    // May be shown: never ends inside a character, never holds a part of a stop text.
    std::string text;
    // Chosen since then, the end token too. Text of a token may come with a later event.
    std::vector<GeneratedToken> tokens;
    int32_t prompt_done = 0;  // tokens of the prompt that are computed or were cached
    Timings timings;          // until now
    bool done = false;        // nothing follows; the fields below are valid

    FinishReason finish = FinishReason::Stop;
    std::string stopping_word;     // the stop text that ended it
    bool ended_by_token = false;   // by an end token of the model
    std::vector<float> embedding;  // [n_embd] if the request asked for it; not normalized
    std::optional<Error> error;    // Internal: logits not finite; OutOfMemory; BadRequest: no token
                                   // is allowed. Text before it is good.
};

class Stream {
  public:
    virtual ~Stream() = default;  // cancels what is not done
    // Waits until there is something new, at most `timeout`; nothing: still at work. After `done`:
    // an event with done set and nothing else.
    virtual std::optional<StreamEvent> next(std::chrono::milliseconds timeout) = 0;
    // The request ends after the step that is running, wherever it is; its blocks are free then.
    virtual void cancel() noexcept = 0;
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

// A request that runs or waits, for people who look (GET /slots).
struct RequestInfo {
    uint64_t id = 0;
    bool running = false;
    int32_t slot = -1;  // 0..parallel-1: the place it runs in; -1 while it waits
    int32_t prompt_n = 0, prompt_done = 0, predicted_n = 0, max_tokens = -1;
    std::string client;
};

// A picture of the engine, made after its last step. Counters only grow.
struct EngineStats {
    int32_t running = 0, waiting = 0, parallel = 0;
    int32_t blocks_used = 0, blocks_cached = 0, blocks_free = 0;  // they add up to all blocks
    uint64_t kv_bytes_used = 0, kv_bytes_total = 0;    // used: by running requests and the cache
    uint64_t prompt_tokens = 0;                        // computed
    uint64_t cached_tokens = 0;                        // found in the cache instead
    uint64_t predicted_tokens = 0;                     // generated
    double prompt_seconds = 0, predicted_seconds = 0;  // of steps, shared out by rows
    uint64_t steps = 0, step_rows = 0;
    uint64_t preemptions = 0, recomputed_tokens = 0, prefix_waits = 0, evicted_blocks = 0;
    uint64_t requests_done = 0, requests_cancelled = 0, requests_failed = 0, requests_refused = 0;
    int32_t longest_request = 0;  // tokens of the longest sequence so far
    Histogram time_to_first_token, inter_token_latency, queue_time, request_latency;  // seconds
    std::vector<RequestInfo> requests;
};

struct StateSize {
    int64_t tokens = 0;
    uint64_t bytes = 0;  // of the file
};

class Engine {
  public:
    static Result<std::unique_ptr<Engine>> create(const EngineOptions& options);
    ~Engine();  // cancels everything; streams that are left end with Cancelled

    const ModelInfo& model() const;
    const std::shared_ptr<const Tokenizer>& tokenizer() const;

    // Checks the request and puts it into the queue. Errors: TooLong with both numbers if the
    // prompt does not fit, BadRequest (ids out of range, parameters), Busy (the queue is full).
    Result<std::unique_ptr<Stream>> submit(Request request);
    EngineStats stats() const;

    // submit() and wait; on_text gets the text as it comes and returns false to stop (Cancelled).
    using OnText = std::function<bool(std::string_view)>;
    Result<Completion> generate(const Request& request, const OnText& on_text = {});

    // Logits of every position of `tokens`, computed afresh in chunks of the engine's ubatch, while
    // nothing else runs. on_logits(position, logits [n_vocab]) is called in order.
    Result<void> score(std::span<const Token> tokens,
                       const std::function<void(int32_t, std::span<const float>)>& on_logits);

    // Ends every request after the current step.
    void cancel() noexcept;
    // Forgets what is cached and not in use.
    void clear_cache();

    // Saved states: what the last request that ended in a slot left in the cache, as a file of
    // state_folder. Restored, it is cached as if it had been computed here: the next request that
    // begins with its tokens takes them over and gives the same bits. Requests go on meanwhile,
    // between two steps blocks are copied. salt: as in Request, of the one who asks; what was left
    // for another salt is not there.
    // Errors: Unsupported (no state_folder), BadRequest that begins with "slot" (there is no such
    // one, or it holds nothing) or "filename".
    Result<StateSize> save_state(int32_t slot, const std::string& name, uint64_t salt = 0);
    // Errors besides: BadFile (no state, or damaged), Unsupported that begins with "filename"
    // (made with another model, KV type or build), TooLong, OutOfMemory.
    Result<StateSize> restore_state(int32_t slot, const std::string& name, uint64_t salt = 0);
    // How many tokens are forgotten: those that lead to nothing else that is cached or in use.
    Result<int64_t> erase_state(int32_t slot, uint64_t salt = 0);

  private:
    Engine();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace nib
