// SPDX-License-Identifier: MIT
// A model on a backend, ready to run steps: weights in the device's layout, the plan, the KV cache.
// The engine decides what a step holds; the runner runs it. Threads: one at a time.
#pragma once
#include "ggml-like/backend.h"
#include "src/kv/kv_cache.h"
#include "src/model.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nib {

struct RunnerOptions {
    std::string backend = "cpu";
    BackendOptions backend_options;
    int32_t context = 0;     // tokens of a sequence; 0: as trained, bounded by memory
    int32_t max_rows = 0;    // rows of a step; 0: 128 to 512, more for larger models
    int32_t least_rows = 1;  // but as many as this, and as there are sequences
    int32_t max_sequences = 1;
    uint64_t kv_bytes = 0;  // of all KV blocks; 0: max_sequences contexts
    CachePolicy kv_policy = CachePolicy::Lru;
    std::string cache_type_k = "f16", cache_type_v = "f16";  // or "q8_0"
    bool fuse = true;
    std::function<bool(double)> progress;  // share of the weights that are loaded; false: give up
};

// What one sequence adds to a step: the tokens that follow what it holds already.
struct StepPart {
    int32_t sequence = 0;
    std::span<const int32_t> tokens;
    bool all_logits = false;  // of every token; else of the last one if want_logits
    bool want_logits = true;
};

class Runner {
  public:
    // The file must stay until create() returns; afterwards it is not needed.
    // Errors: Unsupported (an op that the backend lacks), OutOfMemory, BadRequest, Cancelled,
    // BadFile.
    static Result<std::unique_ptr<Runner>> create(const GgufFile& file,
                                                  std::unique_ptr<Model> model,
                                                  const RunnerOptions& options);

    // Runs the parts as one step and makes their sequences longer. on_logits(part, index of the
    // token in its part, logits [n_vocab]) is called in order. Errors: OutOfMemory, TooLong:
    // nothing was done.
    using OnLogits = std::function<void(size_t part, int32_t index, std::span<const float> logits)>;
    Result<void> step(std::span<const StepPart> parts, const OnLogits& on_logits);
    // The same, but gives the hidden states after the last norm, [n_embd], instead of logits. The
    // first call makes a second plan.
    Result<void> step_hidden(std::span<const StepPart> parts, const OnLogits& on_hidden);
    // From now on what steps run is added to `trace`, with times; null: no more.
    void set_trace(OpTrace* trace) { inputs_.trace = trace; }

    const Model& model() const { return *model_; }
    KvCache& kv() { return *kv_; }
    const KvCache& kv() const { return *kv_; }
    int32_t context() const { return context_; }
    int32_t max_rows() const { return plan_->max_rows; }
    const Plan& plan() const { return *plan_; }
    Backend& backend() { return *backend_; }
    const Backend& backend() const { return *backend_; }
    uint64_t weight_bytes() const { return weights_->bytes(); }
    uint64_t workspace_bytes() const { return executor_->workspace_bytes(); }

  private:
    Runner() = default;
    Result<void> load(const GgufFile& file, const RunnerOptions& options);
    Result<void> prepare(const RunnerOptions& options);
    Result<void> plan_steps(Graph graph, const RunnerOptions& options);
    uint64_t file_weight_bytes() const;
    void add_rows(size_t part, const StepPart& p);
    Result<void> run(Executor& executor, std::span<const StepPart> parts, const OnLogits& on_row);

    std::unique_ptr<Model> model_;
    std::unique_ptr<Backend> backend_;
    std::unique_ptr<WeightStore> weights_;
    std::shared_ptr<const Plan> plan_;
    std::unique_ptr<KvCache> kv_;
    std::unique_ptr<Executor> executor_;
    std::unique_ptr<Executor> hidden_executor_;  // null until it is asked for
    int32_t context_ = 0;

    // The rows of the step that is being put together; reused.
    std::vector<int32_t> tokens_, sequences_, outputs_;
    std::vector<int64_t> positions_;
    std::vector<std::pair<size_t, int32_t>> wanted_;  // (part, index) of each output
    StepInputs inputs_;
};

}  // namespace nib
