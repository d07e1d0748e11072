// SPDX-License-Identifier: MIT
// The engine for one sequence: prefill in chunks, then a token a step. The sequence of the previous
// call stays in the KV cache; a new prompt computes only what it does not share with it.
#include "src/engine.h"

#include "src/runner.h"
#include "src/stop_filter.h"

#include <algorithm>
#include <chrono>

namespace nib {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string chat_template_of(const GgufFile& file, const EngineOptions& options) {
    const GgufValue* v = file.find("tokenizer.chat_template");
    if (!v) return {};
    if (v->type == GgufType::String) return std::string(v->text);
    if (options.log) {
        options.log(LogLevel::Warning,
                    file.path() + ": tokenizer.chat_template is not a string, ignored");
    }
    return {};
}

}  // namespace

const char* finish_reason_name(FinishReason reason) {
    switch (reason) {
    case FinishReason::Stop:
        return "stop";
    case FinishReason::Length:
        return "length";
    case FinishReason::Cancelled:
        return "cancelled";
    }
    return "";
}

struct Engine::Impl {
    ModelInfo info;
    std::shared_ptr<const Tokenizer> tokenizer;
    std::unique_ptr<Runner> runner;
    int32_t sequence = 0;
    std::vector<Token> cached;  // the tokens whose KV is in the cache
    std::atomic<bool> cancelled{false};

    static Result<void> open(const EngineOptions& options, Impl& self);
    void describe(const GgufFile& file, const EngineOptions& options);
    Result<void> check(const Request& request) const;
    Result<int32_t> reuse(std::span<const Token> prompt);
    Result<bool> prefill(std::span<const Token> tokens, std::vector<float>& logits);
    Result<void> decode(Token token, std::vector<float>& logits);
};

// The loop of one generate() call after its prompt: sample, show, step.
class Generation {
  public:
    Generation(Engine::Impl& engine, const Request& request, Sampler& sampler, Completion& out)
        : engine_(engine),
          request_(request),
          sampler_(sampler),
          out_(out),
          decoder_(engine.tokenizer, false, false),
          filter_(request.stop) {}

    Result<void> run(std::vector<float>& logits) {
        const auto start = Clock::now();
        const int64_t room = engine_.info.n_ctx - static_cast<int64_t>(engine_.cached.size());
        for (;;) {
            if (engine_.cancelled) out_.finish = FinishReason::Cancelled;
            if (engine_.cancelled || at_limit(room)) break;
            NIB_ASSIGN(const Token token, sampler_.sample(logits, engine_.cached.size()));
            sampler_.accept(token);
            out_.tokens.push_back(token);
            if (engine_.tokenizer->is_end(token) && !request_.ignore_eos) break;
            if (!show(filter_.push(decoder_.push(token)))) break;
            if (filter_.stopped() || at_limit(room)) break;
            NIB_TRY(engine_.decode(token, logits));
        }
        if (!filter_.stopped() && out_.finish != FinishReason::Cancelled) {
            show(filter_.push(decoder_.finish()));
            show(filter_.finish());
        }
        out_.timings.predicted_n = static_cast<int32_t>(out_.tokens.size());
        out_.timings.predicted_ms = ms_since(start);
        return {};
    }

  private:
    // No more tokens are wanted, or no more fit.
    bool at_limit(int64_t room) {
        const auto n = static_cast<int64_t>(out_.tokens.size());
        const bool enough = request_.max_tokens >= 0 && n >= request_.max_tokens;
        if (enough || n > room) out_.finish = FinishReason::Length;
        return enough || n > room;
    }

    bool show(const std::string& text) {
        out_.text += text;
        if (text.empty() || !request_.on_text || request_.on_text(text)) return true;
        out_.finish = FinishReason::Cancelled;
        return false;
    }

    Engine::Impl& engine_;
    const Request& request_;
    Sampler& sampler_;
    Completion& out_;
    StreamDecoder decoder_;
    StopFilter filter_;
};

Result<void> Engine::Impl::open(const EngineOptions& options, Impl& self) {
    const auto start = Clock::now();
    NIB_ASSIGN(const std::shared_ptr<GgufFile> file, GgufFile::open(options.model_path));
    ModelOptions model_options{.context = options.context, .check_tensors = options.check_tensors};
    model_options.warn = [&](const std::string& text) {
        if (options.log) options.log(LogLevel::Warning, file->path() + ": " + text);
    };
    NIB_ASSIGN(std::unique_ptr<Model> model, read_model(*file, model_options));
    NIB_ASSIGN(self.tokenizer,
               Tokenizer::create(*file, static_cast<uint64_t>(model->config.n_vocab),
                                 {.allow_unknown_pre = options.allow_unknown_pre}));
    NIB_ASSIGN(self.runner, Runner::create(*file, std::move(model),
                                           {.backend_options = {.threads = options.threads,
                                                                .cpu_level = options.cpu_level},
                                            .context = options.context,
                                            .max_rows = options.ubatch,
                                            .cache_type_k = options.cache_type_k,
                                            .cache_type_v = options.cache_type_v,
                                            .progress = options.progress}));
    self.sequence = self.runner->kv().open_sequence();
    self.describe(*file, options);
    self.info.load_ms = ms_since(start);
    return {};
}

void Engine::Impl::describe(const GgufFile& file, const EngineOptions& options) {
    const Model& m = runner->model();
    info.path = file.path();
    info.arch = m.arch->name;
    info.name = m.name;
    info.type_name = m.type_name;
    info.n_params = m.n_params;
    info.file_bytes = file.file_bytes();
    info.weight_bytes = runner->weight_bytes();
    info.kv_bytes_per_token = kv_bytes_per_token(runner->kv().groups());
    info.n_layers = m.config.n_layers;
    info.n_embd = m.config.n_embd;
    info.n_vocab = m.config.n_vocab;
    info.n_ctx_train = m.config.n_ctx_train;
    info.n_ctx = runner->context();
    info.chat_template = chat_template_of(file, options);
    info.backend = runner->backend().description();
}

Result<void> Engine::Impl::check(const Request& request) const {
    if (request.prompt.empty()) return Error{Status::BadRequest, "the prompt has no tokens"};
    if (request.prompt.size() > static_cast<size_t>(info.n_ctx)) {
        return Error{Status::TooLong, "the prompt has " + std::to_string(request.prompt.size()) +
                                          " tokens, the context holds " +
                                          std::to_string(info.n_ctx)};
    }
    for (size_t i = 0; i < request.prompt.size(); i++) {
        if (request.prompt[i] >= 0 && request.prompt[i] < info.n_vocab) continue;
        return Error{Status::BadRequest, "prompt[" + std::to_string(i) +
                                             "]=" + std::to_string(request.prompt[i]) +
                                             ": must be 0.." + std::to_string(info.n_vocab - 1)};
    }
    return {};
}

// Keeps what the prompt shares with the cached sequence, except its last token: its logits are
// needed.
Result<int32_t> Engine::Impl::reuse(std::span<const Token> prompt) {
    const size_t most = std::min(cached.size(), prompt.size() - 1);
    size_t same = 0;
    while (same < most && cached[same] == prompt[same])
        same++;
    const int64_t kept = runner->kv().keep_prefix(sequence, static_cast<int64_t>(same));
    cached.resize(static_cast<size_t>(kept));
    return static_cast<int32_t>(kept);
}

// False if it was cancelled on the way.
Result<bool> Engine::Impl::prefill(std::span<const Token> tokens, std::vector<float>& logits) {
    const auto rows = static_cast<size_t>(runner->max_rows());
    for (size_t at = 0; at < tokens.size(); at += rows) {
        if (cancelled) return false;
        const size_t n = std::min(rows, tokens.size() - at);
        const StepPart part{.sequence = sequence,
                            .tokens = tokens.subspan(at, n),
                            .want_logits = at + n == tokens.size()};
        NIB_TRY(runner->step({&part, 1}, [&](size_t, int32_t, std::span<const float> row) {
            logits.assign(row.begin(), row.end());
        }));
        cached.insert(cached.end(), part.tokens.begin(), part.tokens.end());
    }
    return true;
}

Result<void> Engine::Impl::decode(Token token, std::vector<float>& logits) {
    NIB_TRY(prefill({&token, 1}, logits));
    return {};
}

Engine::Engine() : impl_(std::make_unique<Impl>()) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options) {
    auto engine = std::unique_ptr<Engine>(new Engine());
    NIB_TRY(Impl::open(options, *engine->impl_));
    return engine;
}

const ModelInfo& Engine::model() const {
    return impl_->info;
}
const std::shared_ptr<const Tokenizer>& Engine::tokenizer() const {
    return impl_->tokenizer;
}

Result<Completion> Engine::generate(const Request& request) {
    Impl& e = *impl_;
    e.cancelled = false;
    NIB_TRY(e.check(request));
    NIB_ASSIGN(const std::unique_ptr<Sampler> sampler,
               Sampler::create(request.sampling, e.info.n_vocab));
    sampler->accept(request.prompt);
    Completion out;
    const auto start = Clock::now();
    NIB_ASSIGN(out.timings.cached_n, e.reuse(request.prompt));
    out.timings.prompt_n = static_cast<int32_t>(request.prompt.size()) - out.timings.cached_n;
    std::vector<float> logits;
    NIB_ASSIGN(
        const bool done,
        e.prefill(std::span(request.prompt).subspan(static_cast<size_t>(out.timings.cached_n)),
                  logits));
    out.timings.prompt_ms = ms_since(start);
    if (!done) {
        out.finish = FinishReason::Cancelled;
        return out;
    }
    NIB_TRY(Generation(e, request, *sampler, out).run(logits));
    return out;
}

Result<void> Engine::score(std::span<const Token> tokens,
                           const std::function<void(int32_t, std::span<const float>)>& on_logits) {
    Impl& e = *impl_;
    NIB_TRY(e.check({.prompt = {tokens.begin(), tokens.end()}}));
    clear_cache();
    const auto rows = static_cast<size_t>(e.runner->max_rows());
    for (size_t at = 0; at < tokens.size(); at += rows) {
        const StepPart part{.sequence = e.sequence,
                            .tokens = tokens.subspan(at, std::min(rows, tokens.size() - at)),
                            .all_logits = true};
        NIB_TRY(e.runner->step({&part, 1}, [&](size_t, int32_t index, std::span<const float> row) {
            on_logits(static_cast<int32_t>(at) + index, row);
        }));
        e.cached.insert(e.cached.end(), part.tokens.begin(), part.tokens.end());
    }
    return {};
}

void Engine::cancel() noexcept {
    impl_->cancelled = true;
}

void Engine::clear_cache() {
    impl_->cached.clear();
    impl_->runner->kv().keep_prefix(impl_->sequence, 0);
}

}  // namespace nib
