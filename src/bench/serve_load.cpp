// SPDX-License-Identifier: MIT
// One thread per client takes the next request until none is left. Every client keeps what it saw
// to itself; it is put together when all have ended.
#include "src/bench/serve_load.h"

#include "src/bench/http_stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

namespace nib::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTimeoutSeconds = 600;
constexpr size_t kEventMax = 4 << 20;
constexpr size_t kErrorMax = 200;  // bytes of a message
constexpr int32_t kPiecesBeforeLong = 16;

double seconds_between(Clock::time_point a, Clock::time_point b) {
    return std::chrono::duration<double>(b - a).count();
}

struct Answer {
    Clock::time_point start;
    std::vector<Clock::time_point> pieces;
    uint64_t prompt_tokens = 0, cached_tokens = 0, tokens = 0;
    bool finished = false;  // a finish_reason came
    std::string error;
};

uint64_t number_at(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

const Json* member(const Json* value, const char* key) {
    if (!value || !value->is_object()) return nullptr;
    const auto found = value->find(key);
    return found == value->end() ? nullptr : &*found;
}

void take_usage(const Json& usage, Answer& answer) {
    answer.prompt_tokens = number_at(usage, "prompt_tokens");
    answer.tokens = number_at(usage, "completion_tokens");
    const Json* details = member(&usage, "prompt_tokens_details");
    if (details && details->is_object())
        answer.cached_tokens = number_at(*details, "cached_tokens");
}

// One event of the stream. Errors: BadRequest if it is not what the API says.
Result<void> take_event(std::string_view data, Answer& answer) {
    NIB_ASSIGN(const Json event, parse_json(data));
    if (const Json* error = member(&event, "error")) {
        return Error{Status::Io, "in the stream: " + dump_json(*error).substr(0, kErrorMax)};
    }
    const Json* usage = member(&event, "usage");
    if (usage && usage->is_object()) take_usage(*usage, answer);
    const Json* choices = member(&event, "choices");
    if (!choices || !choices->is_array() || choices->empty()) return {};
    const Json* choice = &(*choices)[0];
    const Json* reason = member(choice, "finish_reason");
    answer.finished = answer.finished || (reason && reason->is_string());
    for (const char* field : {"content", "reasoning_content"}) {
        const Json* text = member(member(choice, "delta"), field);
        if (!text || !text->is_string() || text->get_ref<const std::string&>().empty()) continue;
        answer.pieces.push_back(Clock::now());
    }
    return {};
}

class Client {
  public:
    Client(const ServeLoadRequest& request, const Url& url) : request_(request), url_(url) {}

    // on_piece is called after every event.
    template <class OnPiece>
    Answer ask(const std::string& body, const OnPiece& on_piece) {
        Answer answer;
        answer.start = Clock::now();
        const Result<void> result = exchange(body, answer, on_piece);
        if (!result) answer.error = result.error().message;
        if (!result) connection_.reset();
        if (answer.tokens == 0) answer.tokens = answer.pieces.size();
        return answer;
    }

  private:
    template <class OnPiece>
    Result<void> exchange(const std::string& body, Answer& answer, const OnPiece& on_piece) {
        NIB_ASSIGN(const int status, send(body, answer));
        std::string text;
        if (status != 200) {
            bool more = true;
            while (more && text.size() < kEventMax) {
                NIB_ASSIGN(more, connection_->read_body(text));
            }
            return Error{Status::Io, "HTTP " + std::to_string(status)};
        }
        for (bool more = true; more;) {
            NIB_ASSIGN(more, connection_->read_body(text));
            if (text.size() > kEventMax) return Error{Status::Io, "an event without an end"};
            NIB_TRY(take_lines(text, answer));
            on_piece(answer);
        }
        return answer.finished ? Result<void>{} : Error{Status::Io, "an answer without an end"};
    }

    // Sends and returns the status. A server may close a connection that waits for its next
    // request, so one that was used before gets a second try.
    Result<int> send(const std::string& body, Answer& answer) {
        if (connection_ && connection_->reusable()) {
            const Result<int> status = send_once(body, answer);
            if (status) return status;
        }
        NIB_ASSIGN(connection_, HttpStream::connect(url_, kTimeoutSeconds));
        return send_once(body, answer);
    }

    Result<int> send_once(const std::string& body, Answer& answer) {
        answer.start = Clock::now();
        NIB_TRY(connection_->post("/v1/chat/completions", body, request_.key));
        return connection_->read_head();
    }

    // Takes whole lines from the front of `text`.
    static Result<void> take_lines(std::string& text, Answer& answer) {
        size_t at = 0;
        for (size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
            std::string_view line(text.data() + at, end - at);
            if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
            if (line.substr(0, 5) != "data:") continue;
            line.remove_prefix(line.substr(5, 1) == " " ? 6 : 5);
            if (line != "[DONE]") NIB_TRY(take_event(line, answer));
        }
        text.erase(0, at);
        return {};
    }

    const ServeLoadRequest& request_;
    const Url& url_;
    std::optional<HttpStream> connection_;
};

std::string body_of(const ServeLoadRequest& request,
                    int64_t number,
                    int32_t chars,
                    int32_t tokens) {
    Json messages = Json::array();
    if (request.shared_prefix_chars > 0) {
        const auto shared = static_cast<size_t>(request.shared_prefix_chars);
        messages.push_back(
            {{"role", "system"}, {"content", load_prompt(request.seed, -1, shared)}});
    }
    messages.push_back(
        {{"role", "user"},
         {"content", load_prompt(request.seed, number, static_cast<size_t>(chars))}});
    return dump_json({{"messages", std::move(messages)},
                      {"max_tokens", tokens},
                      {"temperature", 0},
                      {"stream", true},
                      {"stream_options", {{"include_usage", true}}},
                      {"ignore_eos", true}});
}

// What the threads share.
struct Load {
    const ServeLoadRequest& request;
    const Url& url;
    std::atomic<int32_t> next{0};
    std::atomic<int32_t> writing{0};  // answers with some pieces, or ended
};

std::vector<Answer> run_client(Load& load) {
    std::vector<Answer> answers;
    Client client(load.request, load.url);
    for (int32_t i; (i = load.next.fetch_add(1)) < load.request.requests;) {
        const std::string body =
            body_of(load.request, i, load.request.prompt_chars, load.request.tokens);
        bool counted = false;
        const auto count = [&](const Answer& answer) {
            if (counted || answer.pieces.size() < size_t(kPiecesBeforeLong)) return;
            counted = true;
            load.writing.fetch_add(1);
        };
        answers.push_back(client.ask(body, count));
        if (!counted) load.writing.fetch_add(1);
    }
    return answers;
}

// The one long prompt: comes once every client writes.
Answer run_long(Load& load) {
    const int32_t streams = std::min(load.request.clients, load.request.requests);
    while (load.writing.load() < streams)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Client client(load.request, load.url);
    const std::string body =
        body_of(load.request, load.request.requests, load.request.long_prompt_chars, 1);
    return client.ask(body, [](const Answer&) {});
}

Result<void> ask_before(const ServeLoadRequest& request, const Url& url) {
    const Answer answer = Client(request, url)
                              .ask(body_of(request, request.requests + 1, request.prompt_chars, 1),
                                   [](const Answer&) {});
    return answer.error.empty() ? Result<void>{} : Error{Status::Io, answer.error};
}

void put_together(const std::vector<Answer>& answers,
                  const std::optional<Answer>& long_answer,
                  ServeLoadReport& report) {
    std::vector<double> first, gaps, before, during;
    Clock::time_point start = Clock::time_point::max(), end = Clock::time_point::min();
    const bool came = long_answer && !long_answer->pieces.empty();
    for (const Answer& a : answers) {
        start = std::min(start, a.start);
        if (!a.error.empty()) report.errors[a.error]++;
        report.done += a.error.empty();
        report.tokens += a.tokens;
        report.prompt_tokens += a.prompt_tokens;
        report.cached_tokens += a.cached_tokens;
        if (a.pieces.empty()) continue;
        end = std::max(end, a.pieces.back());
        first.push_back(seconds_between(a.start, a.pieces[0]));
        for (size_t i = 1; i < a.pieces.size(); ++i) {
            const double gap = seconds_between(a.pieces[i - 1], a.pieces[i]);
            gaps.push_back(gap);
            if (!came) continue;
            if (a.pieces[i] <= long_answer->start) before.push_back(gap);
            if (a.pieces[i] > long_answer->start && a.pieces[i - 1] <= long_answer->pieces[0]) {
                during.push_back(gap);
            }
        }
    }
    if (long_answer && !long_answer->error.empty()) report.errors[long_answer->error]++;
    if (came) report.long_first_token = seconds_between(long_answer->start, long_answer->pieces[0]);
    if (end > start) report.seconds = seconds_between(start, end);
    report.first_token = latency_of(first);
    report.gap = latency_of(gaps);
    report.gap_before = latency_of(before);
    report.gap_during = latency_of(during);
}

}  // namespace

std::string load_prompt(uint64_t seed, int64_t number, size_t chars) {
    static constexpr const char* kWords[] = {
        "river",  "stone", "paper", "garden", "window", "letter",  "morning", "engine",
        "winter", "boat",  "night", "market", "bridge", "silver",  "number",  "teacher",
        "small",  "old",   "quiet", "bright", "writes", "carries", "finds",   "follows",
        "the",    "a",     "some",  "every",  "under",  "beside",  "before",  "without"};
    // The number stands in front so that no two texts begin alike.
    std::string text =
        number < 0 ? "Rules for every answer:" : "Question " + std::to_string(number) + ":";
    uint64_t state = seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(number + 2);
    for (int word = 1; text.size() < chars; ++word) {
        state += 0x9e3779b97f4a7c15u;
        uint64_t z = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        text += std::string(" ") + kWords[(z ^ (z >> 31)) % std::size(kWords)];
        if (word % 12 == 0) text += '.';
    }
    text.resize(std::max(chars, size_t(1)), '.');
    return text;
}

Latency latency_of(std::vector<double>& seconds) {
    if (seconds.empty()) return {};
    std::sort(seconds.begin(), seconds.end());
    const auto rank = [&](double share) {
        const auto at = static_cast<size_t>(std::ceil(share * double(seconds.size())));
        return seconds[std::clamp<size_t>(at, 1, seconds.size()) - 1];
    };
    return {.count = seconds.size(), .p50 = rank(0.5), .p99 = rank(0.99), .max = seconds.back()};
}

Result<ServeLoadReport> measure_serving(const ServeLoadRequest& request) {
    NIB_ASSIGN(const Url url, parse_url(request.url));
    NIB_ASSIGN(const HttpStream reachable, HttpStream::connect(url, kTimeoutSeconds));
    if (request.warm) NIB_TRY(ask_before(request, url));
    ServeLoadReport report{.request = request};
    Load load{request, url};
    const int32_t clients = std::min(request.clients, request.requests);
    std::vector<std::vector<Answer>> seen(static_cast<size_t>(clients));
    std::vector<std::jthread> threads;
    std::optional<Answer> long_answer;
    std::string trouble;
    try {
        for (std::vector<Answer>& answers : seen)
            threads.emplace_back([&answers, &load] { answers = run_client(load); });
    } catch (const std::exception& e) {
        load.next = request.requests;  // those that run finish what they have
        trouble = e.what();
    }
    if (request.long_prompt_chars > 0 && trouble.empty()) long_answer = run_long(load);
    threads.clear();  // joins
    if (!trouble.empty()) return Error{Status::Io, "clients: " + trouble};
    std::vector<Answer> answers;
    for (std::vector<Answer>& some : seen)
        std::move(some.begin(), some.end(), std::back_inserter(answers));
    put_together(answers, long_answer, report);
    return report;
}

}  // namespace nib::bench
