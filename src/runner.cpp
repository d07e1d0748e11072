// SPDX-License-Identifier: MIT
#include "src/runner.h"

#include <algorithm>
#include <mutex>

namespace nib {
namespace {

constexpr int32_t kOutputSlice = 16;  // rows of logits in memory at a time
// Rows of a step that nobody chose. From 128 on a prompt is read as fast with few rows as with many
// where the weights come from a cache; where they come from memory 512 rows gain some percent. The
// values of the rows shall not take more than a share of what the weights take.
constexpr int32_t kFewRows = 128, kManyRows = 512;
constexpr uint64_t kWorkspaceShare = 64;

Result<void> check_support(const Backend& backend, const Plan& plan) {
    for (const std::vector<int32_t>* list : {&plan.trunk, &plan.tail}) {
        for (int32_t n : *list) {
            const Node& node = plan.graph.nodes()[static_cast<size_t>(n)];
            if (backend.supports(plan.graph, node)) continue;
            return Error{Status::Unsupported, backend.description() + " cannot run " +
                                                  op_name(node) + " as this model needs it"};
        }
    }
    return {};
}

// The context that the user gets without asking: what the model was trained for, if the KV of it
// fits into half of the memory that is left.
int32_t default_context(const Model& m, const Backend& backend, uint64_t bytes_per_token) {
    if (!bytes_per_token) return m.config.n_ctx_train;
    const uint64_t fits =
        backend.memory_available() / 2 / bytes_per_token / kBlockTokens * kBlockTokens;
    return static_cast<int32_t>(
        std::clamp<uint64_t>(fits, 512, static_cast<uint64_t>(m.config.n_ctx_train)));
}

// Memory for KV blocks that nobody chose: a context for every sequence, but several sequences get
// no more than a quarter of what the weights leave; one context is always there.
uint64_t kv_bytes(uint64_t weights,
                  const Backend& backend,
                  uint64_t bytes_per_token,
                  int32_t context,
                  const RunnerOptions& options) {
    if (options.kv_bytes || options.max_sequences == 1) return options.kv_bytes;
    const uint64_t available = backend.memory_available();
    const uint64_t left = available > weights ? available - weights : 0;
    const uint64_t all = bytes_per_token * static_cast<uint64_t>(context) *
                         static_cast<uint64_t>(options.max_sequences);
    return left / 4 < all ? std::max<uint64_t>(left / 4, 1) : 0;
}

}  // namespace

Result<std::unique_ptr<Runner>> Runner::create(const GgufFile& file,
                                               std::unique_ptr<Model> model,
                                               const RunnerOptions& options) {
    auto r = std::unique_ptr<Runner>(new Runner());
    r->model_ = std::move(model);
    const BackendDef* def = find_backend(options.backend);
    if (!def)
        return Error{Status::BadRequest, "no backend '" + options.backend + "' in this build"};
    NIB_ASSIGN(r->backend_, def->create(options.backend_options));
    NIB_TRY(r->prepare(options));
    NIB_TRY(r->load(file, options));
    NIB_ASSIGN(r->executor_, r->backend_->prepare(r->plan_, *r->weights_, r->kv_->groups()));
    return r;
}

Result<void> Runner::prepare(const RunnerOptions& options) {
    NIB_ASSIGN(Graph graph, build_graph(*model_));
    const std::vector<AttentionSpec> layers = graph.attention_layers();
    std::vector<KvGroupSpec> groups = make_kv_groups(layers);
    for (KvGroupSpec& group : groups) {
        NIB_ASSIGN(group.type_k, kv_type(options.cache_type_k));
        NIB_ASSIGN(group.type_v, kv_type(options.cache_type_v));
    }
    const uint64_t per_token = kv_bytes_per_token(groups);
    context_ = options.context ? options.context : default_context(*model_, *backend_, per_token);
    NIB_TRY(plan_steps(std::move(graph), options));
    NIB_TRY(check_support(*backend_, *plan_));
    NIB_ASSIGN(kv_, KvCache::create(*backend_, std::move(groups),
                                    {.context = context_,
                                     .max_rows = plan_->max_rows,
                                     .max_sequences = options.max_sequences,
                                     .bytes = kv_bytes(file_weight_bytes(), *backend_, per_token,
                                                       context_, options),
                                     .policy = options.kv_policy}));
    return {};
}

Result<void> Runner::plan_steps(Graph graph, const RunnerOptions& options) {
    const int32_t least = std::min(std::max(options.least_rows, options.max_sequences), context_);
    const auto plan_for = [&](Graph&& g, int32_t rows) -> Result<void> {
        NIB_ASSIGN(plan_, make_plan(std::move(g), {.max_rows = std::clamp(rows, least, context_),
                                                   .max_outputs = kOutputSlice,
                                                   .fuse = options.fuse}));
        return {};
    };
    if (options.max_rows) return plan_for(std::move(graph), options.max_rows);
    NIB_TRY(plan_for(std::move(graph), kManyRows));
    const uint64_t most = file_weight_bytes() / kWorkspaceShare;
    const uint64_t needed = backend_->workspace(*plan_);
    if (needed <= most) return {};
    NIB_ASSIGN(Graph again, build_graph(*model_));
    return plan_for(std::move(again),
                    std::max<int32_t>(kFewRows, static_cast<int32_t>(kManyRows * most / needed)));
}

uint64_t Runner::file_weight_bytes() const {
    uint64_t bytes = 0;
    for (const Weight& w : model_->weights)
        bytes += w.bytes();
    return bytes;
}

Result<void> Runner::load(const GgufFile& file, const RunnerOptions& options) {
    const uint64_t total = file_weight_bytes();
    uint64_t done = 0;
    std::mutex mutex;  // progress is told one at a time, in order
    const auto on_done = [&](const uint8_t* data, size_t bytes) {
        file.drop_pages(data, bytes);  // or the weights would be in memory twice
        const std::lock_guard lock(mutex);
        done += bytes;
        return !options.progress || options.progress(double(done) / double(total));
    };
    NIB_ASSIGN(weights_, backend_->load(model_->weights, on_done));
    if (file.changed()) return file.bad("the file changed while it was read");
    for (Weight& w : model_->weights)
        w.data = nullptr;
    return {};
}

void Runner::add_rows(size_t part, const StepPart& p) {
    const int64_t at = kv_->length(p.sequence);
    for (size_t i = 0; i < p.tokens.size(); i++) {
        const bool last = i + 1 == p.tokens.size();
        if (p.all_logits || (last && p.want_logits)) {
            outputs_.push_back(static_cast<int32_t>(tokens_.size()));
            wanted_.emplace_back(part, static_cast<int32_t>(i));
        }
        tokens_.push_back(p.tokens[i]);
        sequences_.push_back(p.sequence);
        positions_.push_back(at + static_cast<int64_t>(i));
    }
}

Result<void> Runner::step(std::span<const StepPart> parts, const OnLogits& on_logits) {
    return run(*executor_, parts, on_logits);
}

Result<void> Runner::step_hidden(std::span<const StepPart> parts, const OnLogits& on_hidden) {
    if (!hidden_executor_) {
        NIB_ASSIGN(Graph graph, build_hidden_graph(*model_));
        NIB_ASSIGN(std::shared_ptr<const Plan> plan,
                   make_plan(std::move(graph),
                             {.max_rows = plan_->max_rows, .max_outputs = kOutputSlice}));
        NIB_ASSIGN(hidden_executor_, backend_->prepare(std::move(plan), *weights_, kv_->groups()));
    }
    return run(*hidden_executor_, parts, on_hidden);
}

Result<void> Runner::run(Executor& executor,
                         std::span<const StepPart> parts,
                         const OnLogits& on_row) {
    tokens_.clear(), sequences_.clear(), positions_.clear(), outputs_.clear(), wanted_.clear();
    for (size_t p = 0; p < parts.size(); p++) {
        NIB_TRY(kv_->reserve(parts[p].sequence, static_cast<int32_t>(parts[p].tokens.size())));
        add_rows(p, parts[p]);
    }
    NIB_ASSERT(!tokens_.empty() && tokens_.size() <= static_cast<size_t>(plan_->max_rows));
    kv_->fill(inputs_);
    inputs_.n_rows = static_cast<int32_t>(tokens_.size());
    inputs_.tokens = tokens_.data();
    inputs_.positions = positions_.data();
    inputs_.sequences = sequences_.data();
    inputs_.n_outputs = static_cast<int32_t>(outputs_.size());
    inputs_.outputs = outputs_.data();
    inputs_.on_logits = [&](int32_t o, std::span<const float> logits) {
        const auto& [part, index] = wanted_[static_cast<size_t>(o)];
        on_row(part, index, logits);
    };
    NIB_TRY(executor.run(inputs_));
    for (const StepPart& p : parts)
        kv_->commit(p.sequence, p.tokens);
    return {};
}

}  // namespace nib
