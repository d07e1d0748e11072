// SPDX-License-Identifier: MIT
#include "src/engine/active_request.h"

#include <algorithm>
#include <cmath>

namespace nib {
namespace {

double ms_between(EngineClock::time_point from, EngineClock::time_point to) {
    return std::chrono::duration<double, std::milli>(to - from).count();
}

// The n best of the raw logits, ties to the lower id.
std::vector<TokenScore> best_logits(std::span<const float> logits, size_t n) {
    const auto before = [&](Token a, Token b) {
        const float la = logits[static_cast<size_t>(a)], lb = logits[static_cast<size_t>(b)];
        return la != lb ? la > lb : a < b;
    };
    // A heap of the best so far, the worst of them on top.
    std::vector<Token> heap;
    heap.reserve(n + 1);
    for (size_t i = 0; i < logits.size() && n > 0; i++) {
        const auto id = static_cast<Token>(i);
        if (heap.size() == n && !before(id, heap.front())) continue;
        heap.push_back(id);
        std::push_heap(heap.begin(), heap.end(), before);
        if (heap.size() <= n) continue;
        std::pop_heap(heap.begin(), heap.end(), before);
        heap.pop_back();
    }
    std::sort_heap(heap.begin(), heap.end(), before);
    std::vector<TokenScore> best;
    for (Token id : heap)
        best.push_back({id, logits[static_cast<size_t>(id)]});
    return best;
}

double log_sum_exp(std::span<const float> logits) {
    const double most = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (float l : logits)
        sum += std::exp(static_cast<double>(l) - most);
    return most + std::log(sum);
}

}  // namespace

ActiveRequest::ActiveRequest(Request request,
                             std::shared_ptr<const Tokenizer> tokenizer,
                             int32_t n_ctx,
                             std::shared_ptr<Wakeup> wakeup)
    : tokens(request.prompt),
      request_(std::move(request)),
      tokenizer_(std::move(tokenizer)),
      n_ctx_(n_ctx),
      channel_(std::make_shared<Channel>(std::move(wakeup))),
      decoder_(tokenizer_, false, false),
      filter_(request_.stop) {}

Result<std::unique_ptr<ActiveRequest>> ActiveRequest::create(
    Request request,
    std::shared_ptr<const Tokenizer> tokenizer,
    int32_t n_ctx,
    std::shared_ptr<Wakeup> wakeup) {
    const int32_t n_vocab = tokenizer->n_vocab();
    auto active = std::unique_ptr<ActiveRequest>(
        new ActiveRequest(std::move(request), std::move(tokenizer), n_ctx, std::move(wakeup)));
    if (active->is_embedding()) return active;
    const Request& r = active->request_;
    NIB_ASSIGN(active->sampler_, Sampler::create(r.sampling, n_vocab, r.sequence));
    active->sampler_->accept(r.prompt);
    return active;
}

// No more tokens are wanted, or no more fit: the last one needs no place in the context.
bool ActiveRequest::at_limit() const {
    if (request_.max_tokens >= 0 && n_chosen() >= request_.max_tokens) return true;
    return tokens.size() > static_cast<size_t>(n_ctx_);
}

bool ActiveRequest::take_logits(std::span<const float> logits, EngineClock::time_point now) {
    if (n_chosen() == 0) first_token_at_ = now;
    last_token_at_ = now;
    if (at_limit()) return end(FinishReason::Length);
    auto chosen = sampler_->sample(logits, tokens.size());
    if (!chosen.ok()) {
        error_ = chosen.error();
        return end(FinishReason::Stop);
    }
    const Token token = *chosen;
    sampler_->accept(token);
    tokens.push_back(token);
    timings_.predicted_n++;
    update_timings(now);
    GeneratedToken told = describe(token, logits);
    if (tokenizer_->is_end(token) && !request_.ignore_eos) {
        ended_by_token_ = true;
        channel_->push({}, std::move(told), timings_);
        return end(FinishReason::Stop);
    }
    channel_->push(filter_.push(decoder_.push(token)), std::move(told), timings_);
    if (filter_.stopped()) return end(FinishReason::Stop);
    return !at_limit() || end(FinishReason::Length);
}

void ActiveRequest::tell_prompt_done(EngineClock::time_point now) {
    update_timings(now);
    channel_->set_prompt_done(static_cast<int32_t>(std::min(done, prompt_size())), timings_);
}

void ActiveRequest::update_timings(EngineClock::time_point now) {
    timings_.queue_ms = ms_between(submitted, has_started ? started : now);
    if (!has_started) return;
    const auto first = timings_.predicted_n > 0 ? first_token_at_ : now;
    timings_.prompt_ms = ms_between(started, first);
    timings_.predicted_ms = ms_between(first, now);
}

GeneratedToken ActiveRequest::describe(Token token, std::span<const float> logits) const {
    GeneratedToken told;
    told.id = token;
    if (request_.n_probs < 0) return told;
    const auto n = static_cast<size_t>(request_.n_probs);
    if (request_.post_sampling_probs) {
        for (const Candidate& c : sampler_->candidates()) {
            const float logprob = std::log(c.p);
            if (c.id == token) told.logprob = logprob;
            if (told.top.size() < n) told.top.push_back({c.id, logprob});
        }
        return told;
    }
    const double norm = log_sum_exp(logits);
    told.logprob = static_cast<float>(logits[static_cast<size_t>(token)] - norm);
    told.top = best_logits(logits, n);
    for (TokenScore& score : told.top)
        score.logprob = static_cast<float>(score.logprob - norm);
    return told;
}

void ActiveRequest::take_hidden(std::span<const float> state) {
    pooled_.resize(state.size());
    if (request_.pooling == Pooling::Last) {
        std::copy(state.begin(), state.end(), pooled_.begin());
        n_pooled_ = 1;
        return;
    }
    for (size_t i = 0; i < state.size(); i++)
        pooled_[i] += state[i];
    n_pooled_++;
}

void ActiveRequest::finish(EngineClock::time_point now) {
    StreamEvent last;
    last.finish = end_.value_or(FinishReason::Cancelled);
    if (!is_embedding() && !filter_.stopped() && last.finish != FinishReason::Cancelled) {
        last.text = filter_.push(decoder_.finish());
        last.text += filter_.finish();
        // The held back bytes may have completed a stop text.
        if (filter_.stopped()) last.finish = FinishReason::Stop;
    }
    last.stopping_word = filter_.stopping_word();
    last.ended_by_token = ended_by_token_;
    update_timings(now);
    last.timings = timings_;
    for (double v : pooled_)
        last.embedding.push_back(static_cast<float>(v / static_cast<double>(n_pooled_)));
    last.error = error_;
    channel_->finish(std::move(last));
}

}  // namespace nib
