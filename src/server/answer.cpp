// SPDX-License-Identifier: MIT
#include "src/server/answer.h"

#include "src/server/sse.h"

#include <algorithm>
#include <ctime>
#include <thread>

namespace nib {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Errors that come before a stream has anything to say are answers with a status of their own; a
// prompt that takes longer than this begins its stream before its first token.
constexpr auto kFirstNewsWait = milliseconds(2000);
// With several choices each is looked at this often.
constexpr auto kManyWait = milliseconds(10);

// The choices of a request on their way through the engine.
class ChoiceSet {
  public:
    explicit ChoiceSet(AnswerContext& context) : context_(context) {
        const int all = context.request.generations();
        choices_.resize(static_cast<size_t>(all));
        for (int i = 0; i < all; i++) {
            choices_[static_cast<size_t>(i)].index = i;
            choices_[static_cast<size_t>(i)].prompt = static_cast<size_t>(i / context.request.n);
        }
        window_ = static_cast<size_t>(std::max(1, context.server.options().parallel));
    }

    // Submits the first ones. False: nothing runs, error() says why.
    bool start() {
        submit_more();
        return !error_;
    }

    // Something new of one choice, or nothing within the time or at the end.
    struct Event {
        Choice* choice = nullptr;
        StreamEvent event;
    };
    std::optional<Event> next(milliseconds wait) {
        const auto until = Clock::now() + wait;
        while (!failed() && !done()) {
            submit_more();
            const bool alone = running_.size() == 1;
            for (size_t i = 0; i < running_.size(); i++) {
                const size_t at = (turn_ + i) % running_.size();
                const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
                const auto here = alone ? std::max(left, milliseconds(0)) : milliseconds(0);
                auto event = running_[at].stream->next(here);
                if (!event) continue;
                turn_ = at + 1;
                Choice* choice = running_[at].choice;
                take(*choice, *event);
                if (event->done) {
                    running_.erase(running_.begin() + static_cast<ptrdiff_t>(at));
                    n_done_++;
                    if (event->error) fail(*event->error);
                }
                return Event{choice, std::move(*event)};
            }
            if (Clock::now() >= until) break;
            if (!alone) std::this_thread::sleep_for(std::min(wait, kManyWait));
        }
        return std::nullopt;
    }

    bool done() const { return n_done_ == choices_.size(); }
    bool failed() const { return error_.has_value(); }
    const ApiError& error() const { return *error_; }
    const std::vector<Choice>& choices() const { return choices_; }
    std::vector<Choice>& choices() { return choices_; }
    void stop() { running_.clear(); }

  private:
    struct Running {
        Choice* choice;
        std::unique_ptr<Stream> stream;
    };

    void fail(const Error& error) {
        if (!error_) error_ = from_error(error, context_.server.retry_after());
    }

    void submit_more() {
        while (!failed() && n_submitted_ < choices_.size() && running_.size() < window_) {
            Choice& choice = choices_[n_submitted_];
            Request request = context_.request.base;
            request.prompt = context_.request.prompts[choice.prompt];
            request.sequence = static_cast<uint64_t>(choice.index % context_.request.n);
            auto stream = context_.server.engine()->submit(std::move(request));
            if (!stream) {
                // The queue is full: what runs already makes room.
                const bool later = stream.error().status == Status::Busy && !running_.empty();
                if (!later) fail(stream.error());
                return;
            }
            running_.push_back({&choice, std::move(stream).value()});
            n_submitted_++;
        }
    }

    void take(Choice& choice, StreamEvent& event) {
        const Tokenizer& tokenizer = context_.tokenizer();
        if (!context_.request.base.ignore_eos) {
            std::erase_if(event.tokens,
                          [&](const GeneratedToken& t) { return tokenizer.is_end(t.id); });
        }
        choice.text += event.text;
        choice.tokens.insert(choice.tokens.end(), event.tokens.begin(), event.tokens.end());
        choice.timings = event.timings;
        if (!event.done) return;
        choice.done = true;
        choice.finish = event.finish;
        choice.ended_by_token = event.ended_by_token;
        choice.stopping_word = event.stopping_word;
    }

    AnswerContext& context_;
    std::vector<Choice> choices_;
    std::vector<Running> running_;
    size_t window_ = 1, n_submitted_ = 0, n_done_ = 0, turn_ = 0;
    std::optional<ApiError> error_;
};

ApiError shutdown_error() {
    ApiError error;
    error.status = 503;
    error.message = "the server is shutting down";
    error.code = "server_shutdown";
    error.retry_after = 1;
    return error;
}

// The stream of one request. Everything that it needs lives in it: the handler has returned.
class AnswerStream final : public BodySource {
  public:
    AnswerStream(AnswerContext context, std::unique_ptr<AnswerFormat> format)
        : context_(std::move(context)), set_(context_), format_(std::move(format)) {}

    // The first news, or an error that is still an answer of its own.
    std::optional<ApiError> begin(HttpRequest& http) {
        if (!set_.start()) return set_.error();
        const auto until = Clock::now() + kFirstNewsWait;
        while (Clock::now() < until && waiting_.empty() && !http.is_gone()) {
            if (ending()) return shutdown_error();
            auto event = set_.next(milliseconds(kGonePollMs));
            if (set_.failed()) return set_.error();
            if (event) write(*event, waiting_);
        }
        return std::nullopt;
    }

    bool next(std::string& out) override {
        if (!waiting_.empty()) {
            out = std::move(waiting_);
            waiting_.clear();
            return more(out);
        }
        if (ending()) return cut_off(out);
        if (auto event = set_.next(milliseconds(kStreamWaitMs))) {
            last_written_ = Clock::now();
            if (!(event->event.done && set_.failed())) write(*event, out);
        } else if (Clock::now() - last_written_ > milliseconds(kPingMs)) {
            append_ping(out);
            last_written_ = Clock::now();
        }
        return more(out);
    }

  private:
    bool ending() const { return context_.server.phase() == ServerPhase::Ending; }

    void write(ChoiceSet::Event& event, std::string& out) {
        const StreamEvent& e = event.event;
        const bool first = !event.choice->started;
        if (context_.request.return_progress) write_progress(*event.choice, e.prompt_done, out);
        if (e.text.empty() && e.tokens.empty() && !e.done) return;
        event.choice->started = true;
        format_->news(context_, {*event.choice, e.text, e.tokens, first, e.done}, out);
    }

    // The first one says what the cache had, even if more is done by now.
    void write_progress(Choice& choice, int32_t done, std::string& out) {
        const int32_t cached = choice.timings.cached_n;
        for (const int32_t processed : {cached, done}) {
            if (processed <= choice.prompt_told || done < cached) continue;
            choice.prompt_told = processed;
            format_->progress(context_, choice,
                              {{"total", context_.request.prompts[choice.prompt].size()},
                               {"cache", cached},
                               {"processed", processed},
                               {"time_ms", static_cast<int64_t>(choice.timings.prompt_ms)}},
                              out);
        }
    }

    // Writes the end if this is it; false: it was.
    bool more(std::string& out) {
        if (set_.failed()) {
            append_event(out, error_json(set_.error()));
            return false;
        }
        if (!set_.done()) return true;
        format_->end(context_, set_.choices(), out);
        context_.server.count_answer(milliseconds_since(start_));
        return false;
    }

    // The server ends: an error, then what a reader needs to see a proper end.
    bool cut_off(std::string& out) {
        set_.stop();
        append_event(out, error_json(shutdown_error()));
        for (Choice& choice : set_.choices()) {
            if (choice.done) continue;
            choice.finish = FinishReason::Length;
            choice.done = true;
            format_->news(context_, {choice, {}, {}, !choice.started, true}, out);
        }
        format_->end(context_, set_.choices(), out);
        return false;
    }

    static double milliseconds_since(Clock::time_point start) {
        return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    }

    AnswerContext context_;
    ChoiceSet set_;
    std::unique_ptr<AnswerFormat> format_;
    std::string waiting_;
    Clock::time_point start_ = Clock::now(), last_written_ = Clock::now();
};

HttpResponse answer_whole(AnswerContext context, HttpRequest& http, AnswerFormat& format) {
    const auto start = Clock::now();
    ChoiceSet set(context);
    if (!set.start()) return error_response(set.error());
    while (!set.done()) {
        set.next(milliseconds(kGonePollMs));
        if (set.failed()) return error_response(set.error());
        if (context.server.phase() == ServerPhase::Ending) return error_response(shutdown_error());
        if (http.is_gone()) {
            ApiError gone;
            gone.message = "the client left";
            gone.code = "client_closed_request";
            return error_response(gone);
        }
    }
    const std::chrono::duration<double, std::milli> took = Clock::now() - start;
    context.server.count_answer(took.count());
    return json_response(format.whole(context, set.choices()));
}

}  // namespace

Json AnswerContext::base(const char* object) const {
    return {{"id", id},
            {"object", object},
            {"created", created},
            {"model", server.model_id()},
            {"system_fingerprint", "nib-" + server.engine()->model().arch}};
}

HttpResponse answer(ServerState& server,
                    HttpRequest& http,
                    GenerationRequest request,
                    const char* id_prefix,
                    std::unique_ptr<AnswerFormat> format) {
    const bool stream = request.stream;
    AnswerContext context{server, std::move(request), {}, std::time(nullptr)};
    char id[64];
    std::snprintf(id, sizeof id, "%s%016llx", id_prefix,
                  static_cast<unsigned long long>(server.next_id()));
    context.id = id;
    if (!stream) return answer_whole(std::move(context), http, *format);
    auto source = std::make_shared<AnswerStream>(std::move(context), std::move(format));
    if (const auto error = source->begin(http)) return error_response(*error);
    HttpResponse response;
    response.content_type = kEventStream;
    response.set_header("Cache-Control", "no-cache");
    response.set_header("X-Accel-Buffering", "no");
    response.source = std::move(source);
    return response;
}

const char* finish_text(const Choice& choice) {
    return choice.finish == FinishReason::Stop ? "stop" : "length";
}

Json usage_json(const AnswerContext& context, const std::vector<Choice>& choices) {
    int64_t prompt = 0, cached = 0, completion = 0;
    for (const auto& tokens : context.request.prompts)
        prompt += static_cast<int64_t>(tokens.size());
    for (const Choice& choice : choices) {
        completion += choice.timings.predicted_n;
        if (choice.index % context.request.n == 0) cached += choice.timings.cached_n;
    }
    return {{"prompt_tokens", prompt},
            {"completion_tokens", completion},
            {"total_tokens", prompt + completion},
            {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

Json timings_json(const Timings& t) {
    const auto rate = [](int32_t n, double ms) { return ms > 0 ? n * 1000.0 / ms : 0.0; };
    const auto each = [](int32_t n, double ms) { return n > 0 ? ms / n : 0.0; };
    Json json = {{"cache_n", t.cached_n},
                 {"prompt_n", t.prompt_n},
                 {"prompt_ms", t.prompt_ms},
                 {"prompt_per_token_ms", each(t.prompt_n, t.prompt_ms)},
                 {"prompt_per_second", rate(t.prompt_n, t.prompt_ms)},
                 {"predicted_n", t.predicted_n},
                 {"predicted_ms", t.predicted_ms},
                 {"predicted_per_token_ms", each(t.predicted_n, t.predicted_ms)},
                 {"predicted_per_second", rate(t.predicted_n, t.predicted_ms)},
                 {"queue_ms", t.queue_ms}};
    if (t.draft_n > 0) {
        json["draft_n"] = t.draft_n;
        json["draft_n_accepted"] = t.draft_n_accepted;
    }
    return json;
}

Json token_ids_json(std::span<const GeneratedToken> tokens) {
    Json ids = Json::array();
    for (const GeneratedToken& token : tokens)
        ids.push_back(token.id);
    return ids;
}

Json token_json(const Tokenizer& tokenizer, Token id, float logprob, const char* key) {
    const std::string piece = tokenizer.piece(id, true);
    Json bytes = Json::array();
    for (const char c : piece)
        bytes.push_back(static_cast<unsigned char>(c));
    return {{"token", piece}, {key, logprob}, {"bytes", std::move(bytes)}};
}

}  // namespace nib
