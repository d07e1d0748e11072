// SPDX-License-Identifier: MIT
#include "src/server/state.h"

#include "src/cli/chat_prompt.h"
#include "src/option_values.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>

namespace nib {

std::string model_id_of(const Options& options) {
    for (const std::string& alias : options.aliases) {
        if (alias != kAnyName) return alias;
    }
    std::string name = options.model.substr(options.model.rfind('/') + 1);
    constexpr std::string_view kEnding = ".gguf";
    if (name.size() > kEnding.size() && name.ends_with(kEnding)) {
        name.resize(name.size() - kEnding.size());
    }
    return name;
}

ServerState::ServerState(const Options& options, ApiKeys keys)
    : options_(options),
      keys_(std::move(keys)),
      model_id_(model_id_of(options)),
      started_unix_(std::time(nullptr)) {
    // Ids go on where no earlier run of the server was.
    last_id_ = static_cast<uint64_t>(std::random_device()()) << 32;
}

Result<void> ServerState::load_template(const ModelInfo& model) {
    NIB_ASSIGN(const ChosenTemplate chosen, choose_template(options_, model.chat_template));
    if (chosen.source.empty()) {
        template_problem_ =
            "the model has no chat template; start the server with --chat-template "
            "chatml or --chat-template-file FILE";
        return {};
    }
    auto parsed = ChatTemplate::parse(chosen.source);
    if (parsed) {
        template_ = std::move(parsed).value();
        return {};
    }
    template_problem_ = "chat template: " + parsed.error().message;
    if (chosen.own) return {};  // completions still work
    return Error{Status::BadFile, template_problem_};
}

Result<void> ServerState::set_engine(std::unique_ptr<Engine> engine) {
    NIB_ASSIGN(kwargs_, nib::template_kwargs(options_));
    NIB_TRY(load_template(engine->model()));
    owned_engine_ = std::move(engine);
    engine_ = owned_engine_.get();
    ServerPhase loading = ServerPhase::Loading;  // a signal may have come meanwhile
    phase_.compare_exchange_strong(loading, ServerPhase::Ready);
    return {};
}

int ServerState::retry_after() const {
    const Engine* e = engine();
    if (!e) return 2;
    const EngineStats stats = e->stats();
    const double rounds =
        static_cast<double>(stats.waiting + 1) / static_cast<double>(std::max(1, stats.parallel));
    const double seconds = std::ceil(answer_ms_.load() / 1000 * std::max(rounds, 1.0));
    return static_cast<int>(std::clamp(seconds, 1.0, static_cast<double>(kRetryAfterMax)));
}

void ServerState::count_answer(double ms) {
    const double before = answer_ms_.load();
    // Two writers at once lose one sample of an estimate.
    answer_ms_ = before == 0 ? ms : before + (ms - before) / 16;
}

std::string ServerState::client_of(const HttpRequest& request) const {
    if (keys_.empty()) return request.peer;
    return "key " + std::to_string(text_hash(given_key(request.head).key));
}

uint64_t ServerState::salt_of(const HttpRequest& request) const {
    if (keys_.size() < 2) return 0;
    return text_hash(given_key(request.head).key);
}

HttpResponse ServerState::answer_fields(const HttpRequest& request,
                                        const std::function<HttpResponse(Fields&)>& respond) {
    JsonLimits limits;
    limits.depth = kJsonDepthMax;
    limits.values = kJsonValuesMax;
    limits.string_bytes = std::max<uint64_t>(limits.string_bytes, request.body.size());
    const auto parsed = parse_json(request.body, limits);
    ApiError error;
    error.code = "invalid_json";
    if (!parsed) {
        error.message = parsed.error().message;
        return error_response(error);
    }
    if (!parsed->is_object()) {
        error.message = "body: expected a JSON object, got " + shown_value(*parsed);
        return error_response(error);
    }
    Fields fields(*parsed);
    HttpResponse response = respond(fields);
    return fields.ok() ? response : error_response(fields.error());
}

void ServerState::check_model(Fields& fields) const {
    const std::string name = fields.text("model", model_id_, kModelNameMax);
    const std::string file = options_.model.substr(options_.model.rfind('/') + 1);
    if (!fields.ok()) return;
    for (const std::string& known :
         {std::string(), std::string("default"), model_id_, file, engine()->model().name}) {
        if (name == known) return;
    }
    for (const std::string& alias : options_.aliases) {
        if (name == alias || alias == kAnyName) return;
    }
    ApiError error;
    error.status = 404;
    error.message = "model: expected " + shown(model_id_) + ", got " + shown(name);
    error.param = "model";
    error.code = "model_not_found";
    fields.fail(std::move(error));
}

}  // namespace nib
