// SPDX-License-Identifier: MIT
// The doors of the engine: loading, checking of requests, and the calls that wait. What happens to
// a request is in src/engine/.
#include "src/engine.h"

#include "src/engine/loop.h"
#include "src/engine/states.h"
#include "src/runner.h"

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

Result<void> check_options(const EngineOptions& o) {
    const auto range = [](const char* name, int64_t value, int64_t low, int64_t high) {
        if (value >= low && value <= high) return Result<void>();
        return Result<void>(Error{Status::BadRequest,
                                  std::string(name) + "=" + std::to_string(value) + ": must be " +
                                      std::to_string(low) + ".." + std::to_string(high)});
    };
    NIB_TRY(range("parallel", o.parallel, 1, 256));
    NIB_TRY(range("queue_limit", o.queue_limit, 1, 1'000'000));
    if (o.cache_policy == "lru" || o.cache_policy == "slru") return {};
    return Error{Status::BadRequest, "cache_policy '" + o.cache_policy + "': must be lru or slru"};
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
    std::unique_ptr<EngineLoop> loop;
    std::unique_ptr<EngineStates> states;  // null: no folder

    Result<void> open(const EngineOptions& options);
    void describe(const GgufFile& file, const Runner& runner, const EngineOptions& options);
    Result<void> check(std::span<const Token> prompt) const;
};

Result<void> Engine::Impl::open(const EngineOptions& options) {
    const auto start = Clock::now();
    NIB_TRY(check_options(options));
    NIB_ASSIGN(const std::shared_ptr<GgufFile> file, GgufFile::open(options.model_path));
    ModelOptions model_options{.context = options.context, .check_tensors = options.check_tensors};
    model_options.warn = [&](const std::string& text) {
        if (options.log) options.log(LogLevel::Warning, file->path() + ": " + text);
    };
    NIB_ASSIGN(std::unique_ptr<Model> model, read_model(*file, model_options));
    NIB_ASSIGN(tokenizer, Tokenizer::create(*file, static_cast<uint64_t>(model->config.n_vocab),
                                            {.allow_unknown_pre = options.allow_unknown_pre}));
    const uint64_t model_hash = options.state_folder.empty() ? 0 : hash_of(*file);
    NIB_ASSIGN(
        auto runner,
        Runner::create(
            *file, std::move(model),
            {.backend_options = {.threads = options.threads, .cpu_level = options.cpu_level},
             .context = options.context,
             .max_rows = options.ubatch,
             .max_sequences = options.parallel,
             .kv_bytes = options.kv_bytes,
             .kv_policy = options.cache_policy == "slru" ? CachePolicy::Slru : CachePolicy::Lru,
             .cache_type_k = options.cache_type_k,
             .cache_type_v = options.cache_type_v,
             .progress = options.progress}));
    describe(*file, *runner, options);
    if (!options.state_folder.empty()) {
        NIB_ASSIGN(states, EngineStates::create(options, *runner, model_hash));
    }
    loop = std::make_unique<EngineLoop>(std::move(runner), tokenizer, options);
    info.load_ms = ms_since(start);
    return {};
}

void Engine::Impl::describe(const GgufFile& file,
                            const Runner& runner,
                            const EngineOptions& options) {
    const Model& m = runner.model();
    info.path = file.path();
    info.arch = m.arch->name;
    info.name = m.name;
    info.type_name = m.type_name;
    info.n_params = m.n_params;
    info.file_bytes = file.file_bytes();
    info.weight_bytes = runner.weight_bytes();
    info.kv_bytes_per_token = kv_bytes_per_token(runner.kv().groups());
    info.n_layers = m.config.n_layers;
    info.n_embd = m.config.n_embd;
    info.n_vocab = m.config.n_vocab;
    info.n_ctx_train = m.config.n_ctx_train;
    info.n_ctx = runner.context();
    info.chat_template = chat_template_of(file, options);
    info.backend = runner.backend().description();
}

Result<void> Engine::Impl::check(std::span<const Token> prompt) const {
    if (prompt.empty()) return Error{Status::BadRequest, "the prompt has no tokens"};
    if (prompt.size() > static_cast<size_t>(info.n_ctx)) {
        return Error{Status::TooLong, "the prompt has " + std::to_string(prompt.size()) +
                                          " tokens, the context holds " +
                                          std::to_string(info.n_ctx)};
    }
    for (size_t i = 0; i < prompt.size(); i++) {
        if (prompt[i] >= 0 && prompt[i] < info.n_vocab) continue;
        return Error{Status::BadRequest, "prompt[" + std::to_string(i) +
                                             "]=" + std::to_string(prompt[i]) + ": must be 0.." +
                                             std::to_string(info.n_vocab - 1)};
    }
    return {};
}

Engine::Engine() : impl_(std::make_unique<Impl>()) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options) {
    auto engine = std::unique_ptr<Engine>(new Engine());
    NIB_TRY(engine->impl_->open(options));
    return engine;
}

const ModelInfo& Engine::model() const {
    return impl_->info;
}
const std::shared_ptr<const Tokenizer>& Engine::tokenizer() const {
    return impl_->tokenizer;
}

Result<std::unique_ptr<Stream>> Engine::submit(Request request) {
    NIB_TRY(impl_->check(request.prompt));
    return impl_->loop->submit(std::move(request));
}

EngineStats Engine::stats() const {
    return impl_->loop->stats();
}

Result<Completion> Engine::generate(const Request& request, const OnText& on_text) {
    NIB_ASSIGN(const auto stream, submit(request));
    Completion out;
    bool wanted = true;
    for (;;) {
        std::optional<StreamEvent> event = stream->next(std::chrono::hours(1));
        if (!event) continue;
        if (wanted) out.text += event->text;
        for (const GeneratedToken& t : event->tokens)
            if (wanted) out.tokens.push_back(t.id);
        if (wanted && on_text && !event->text.empty() && !on_text(event->text)) {
            wanted = false;
            stream->cancel();
        }
        if (!event->done) continue;
        if (event->error) return *event->error;
        out.finish = wanted ? event->finish : FinishReason::Cancelled;
        out.timings = event->timings;
        return out;
    }
}

Result<void> Engine::score(std::span<const Token> tokens,
                           const std::function<void(int32_t, std::span<const float>)>& on_logits) {
    NIB_TRY(impl_->check(tokens));
    return impl_->loop->run_alone([&](Runner& runner) -> Result<void> {
        const int32_t sequence = runner.kv().open_sequence();
        const auto rows = static_cast<size_t>(runner.max_rows());
        Result<void> result;
        for (size_t at = 0; at < tokens.size() && result.ok(); at += rows) {
            const StepPart part{.sequence = sequence,
                                .tokens = tokens.subspan(at, std::min(rows, tokens.size() - at)),
                                .all_logits = true};
            result = runner.step({&part, 1}, [&](size_t, int32_t i, std::span<const float> row) {
                on_logits(static_cast<int32_t>(at) + i, row);
            });
        }
        runner.kv().close_sequence(sequence, false);
        return result;
    });
}

void Engine::cancel() noexcept {
    impl_->loop->cancel_all();
}

void Engine::clear_cache() {
    const auto done = impl_->loop->run_alone([](Runner& runner) -> Result<void> {
        runner.kv().clear_cached();
        return {};
    });
    (void)done;  // only a closing engine refuses, and forgets everything anyway
}

Result<StateSize> Engine::save_state(int32_t slot, const std::string& name, uint64_t salt) {
    NIB_TRY(check_slot(impl_->states.get(), impl_->loop->parallel(), slot));
    return impl_->states->save(*impl_->loop, slot, name, salt);
}

Result<StateSize> Engine::restore_state(int32_t slot, const std::string& name, uint64_t salt) {
    NIB_TRY(check_slot(impl_->states.get(), impl_->loop->parallel(), slot));
    return impl_->states->restore(*impl_->loop, slot, name, salt);
}

Result<int64_t> Engine::erase_state(int32_t slot, uint64_t salt) {
    NIB_TRY(check_slot(impl_->states.get(), impl_->loop->parallel(), slot));
    return impl_->loop->erase_slot(slot, salt);
}

}  // namespace nib
