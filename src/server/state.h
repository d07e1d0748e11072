// SPDX-License-Identifier: MIT
// What all routes share: the engine once it is loaded, the chat template, keys, and the phase of
// the server's life (loading, ready, draining, ending). Threads: any; the engine appears once and
// stays.
#pragma once
#include "src/chat/chat_template.h"
#include "src/engine.h"
#include "src/options.h"
#include "src/server/access.h"
#include "src/server/fields.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace nib {

enum class ServerPhase {
    Loading,
    Ready,
    Draining,  // no new work; what runs may finish
    Ending     // what runs ends now, with a last event
};

class ServerState {
  public:
    ServerState(const Options& options, ApiKeys keys);

    const Options& options() const { return options_; }
    const ApiKeys& keys() const { return keys_; }

    ServerPhase phase() const { return phase_; }
    void set_phase(ServerPhase phase) { phase_ = phase; }
    // Loads the chat template of the flags or the model; errors name it. Ready afterwards.
    Result<void> set_engine(std::unique_ptr<Engine> engine);
    Engine* engine() const { return engine_.load(); }
    const Tokenizer& tokenizer() const { return *engine()->tokenizer(); }
    // Null: the model has none, or it is wrong; then why.
    const std::shared_ptr<const ChatTemplate>& chat_template() const { return template_; }
    const std::string& template_problem() const { return template_problem_; }
    const Json& template_kwargs() const { return kwargs_; }

    const std::string& model_id() const { return model_id_; }
    int64_t started_unix() const { return started_unix_; }
    uint64_t next_id() { return ++last_id_; }

    // Seconds until a place in the queue is likely, from the time that answers took.
    int retry_after() const;
    void count_answer(double ms);

    // Who asks: requests of one client share a turn, and tenants share no prefixes.
    std::string client_of(const HttpRequest& request) const;
    uint64_t salt_of(const HttpRequest& request) const;

    // Reads the body as a JSON object and answers with what `respond` makes of its fields, or with
    // the first problem: of the body, or one that `respond` left in the fields.
    static HttpResponse answer_fields(const HttpRequest& request,
                                      const std::function<HttpResponse(Fields&)>& respond);
    // The model's name in a request must be one of ours, if it is there.
    void check_model(Fields& fields) const;

    struct Counters {
        std::atomic<uint64_t> unauthorized{0}, forbidden{0}, busy{0}, unavailable{0}, malformed{0};
    };
    Counters counters;

  private:
    Result<void> load_template(const ModelInfo& model);

    const Options options_;
    const ApiKeys keys_;
    std::atomic<ServerPhase> phase_{ServerPhase::Loading};
    std::unique_ptr<Engine> owned_engine_;
    std::atomic<Engine*> engine_{nullptr};
    std::shared_ptr<const ChatTemplate> template_;
    std::string template_problem_;
    Json kwargs_ = Json::object();
    std::string model_id_;
    const int64_t started_unix_;
    std::atomic<uint64_t> last_id_{0};
    std::atomic<double> answer_ms_{0};  // moving average
};

// An alias that stands for every name.
inline constexpr std::string_view kAnyName = "*";
// "/a/b/Name.Q4_1.gguf" is "Name.Q4_1", if there is no alias.
std::string model_id_of(const Options& options);

}  // namespace nib
