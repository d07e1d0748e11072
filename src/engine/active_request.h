// SPDX-License-Identifier: MIT
// One request from submit() to its last event: its tokens, its sampler, the text that it has shown.
// It knows nothing of other requests; the loop (loop.h) decides when it gets rows.
//
// Always true: tokens = prompt + chosen tokens; `done` of them are in the KV cache. A request that
// was put back starts again with done = 0 and the same tokens, and goes on with the same random
// numbers, since these depend on seed and position only.
#pragma once
#include "src/engine/channel.h"
#include "src/schedule/scheduler.h"
#include "src/stop_filter.h"

#include <chrono>
#include <memory>
#include <span>
#include <vector>

namespace nib {

using EngineClock = std::chrono::steady_clock;

class ActiveRequest {
  public:
    // Errors: BadRequest naming the parameter.
    static Result<std::unique_ptr<ActiveRequest>> create(Request request,
                                                         std::shared_ptr<const Tokenizer> tokenizer,
                                                         int32_t n_ctx,
                                                         std::shared_ptr<Wakeup> wakeup);

    const Request& request() const { return request_; }
    const std::shared_ptr<Channel>& channel() const { return channel_; }
    bool is_embedding() const { return request_.pooling != Pooling::None; }

    // ----- where it stands
    uint64_t id = 0, client = 0;
    uint64_t epoch = 0;  // of Engine::cancel() when it was submitted
    Phase phase = Phase::Waiting;
    int32_t sequence = -1;      // of the KV cache
    std::vector<Token> tokens;  // prompt and what was chosen
    size_t done = 0;            // of `tokens`, in the cache
    int32_t preemptions = 0;
    EngineClock::time_point submitted, started, paused_since;
    bool has_started = false;
    bool ended = false;  // nothing happens to it any more but finish()

    size_t prompt_size() const { return request_.prompt.size(); }
    int32_t n_chosen() const { return static_cast<int32_t>(tokens.size() - prompt_size()); }
    std::span<const Token> missing() const { return std::span(tokens).subspan(done); }
    Timings& timings() { return timings_; }
    // Tells the reader how far the prompt is.
    void tell_prompt_done(EngineClock::time_point now);

    // ----- what its rows gave
    // Logits after the last of `tokens`: chooses the next one. False: it is over, finish() says
    // how. Times of first tokens and gaps are told through `now`.
    bool take_logits(std::span<const float> logits, EngineClock::time_point now);
    // Hidden states of a prompt's row, for an embedding.
    void take_hidden(std::span<const float> state);

    // Its time is over: what there is is the answer. Its embedding is complete. It went wrong.
    void stop_at_deadline() { end_ = FinishReason::Length; }
    void stop_with_result() { end_ = FinishReason::Stop; }
    void set_error(Error error) { error_ = std::move(error); }
    // Tells the reader the last event; Cancelled if it was not over by itself.
    void finish(EngineClock::time_point now);
    bool over() const { return end_.has_value(); }
    bool failed() const { return error_.has_value(); }
    EngineClock::time_point last_token_at() const { return last_token_at_; }

  private:
    ActiveRequest(Request request,
                  std::shared_ptr<const Tokenizer> tokenizer,
                  int32_t n_ctx,
                  std::shared_ptr<Wakeup> wakeup);
    bool at_limit() const;
    void update_timings(EngineClock::time_point now);
    GeneratedToken describe(Token token, std::span<const float> logits) const;
    bool end(FinishReason reason) {
        end_ = reason;
        return false;
    }

    Request request_;
    std::shared_ptr<const Tokenizer> tokenizer_;
    int32_t n_ctx_;
    std::shared_ptr<Channel> channel_;
    std::unique_ptr<Sampler> sampler_;
    StreamDecoder decoder_;
    StopFilter filter_;
    std::vector<double> pooled_;
    int64_t n_pooled_ = 0;
    std::optional<FinishReason> end_;
    std::optional<Error> error_;
    bool ended_by_token_ = false;
    Timings timings_;
    EngineClock::time_point first_token_at_, last_token_at_;
};

}  // namespace nib
