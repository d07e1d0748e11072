// SPDX-License-Identifier: MIT
#include "src/engine/loop.h"

#include <algorithm>

namespace nib {
namespace {

// A prompt that is being computed is worth waiting for if it will give so many tokens more than the
// cache has now.
constexpr int64_t kWorthWaiting = 32;
// Between two looks at deadlines and readers while no request can have rows.
constexpr std::chrono::milliseconds kNoRowsWait{10};
constexpr std::chrono::milliseconds kIdleWait{1000};
// Steps in a row without a block for any of their rows before a request fails: the scheduler should
// put others back before that.
constexpr int32_t kMostBlockedSteps = 8;

constexpr double kFirstTokenBounds[] = {.001, .005, .01, .02, .04, .06, .08, .1,
                                        .25,  .5,   .75, 1,   2.5, 5,   7.5, 10};
constexpr double kGapBounds[] = {.001, .0025, .005, .01, .025, .05, .075, .1,
                                 .15,  .2,    .3,   .4,  .5,   .75, 1,    2.5};
constexpr double kRequestBounds[] = {.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60};

double seconds(EngineClock::duration d) {
    return std::chrono::duration<double>(d).count();
}

uint64_t client_key(const std::string& client) {
    return std::hash<std::string>{}(client);
}

// Tokens that two texts have in common at their beginning.
int64_t common_prefix(std::span<const Token> a, std::span<const Token> b) {
    const size_t n = std::min(a.size(), b.size());
    return std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(n), b.begin()).first -
           a.begin();
}

// How many tokens a request may take over from the cache: its last one is always computed, since
// its logits are needed; a mean of hidden states needs all of them.
int64_t take_over_limit(const ActiveRequest& r) {
    if (!r.request().cache_prompt || r.request().pooling == Pooling::Mean) return 0;
    return static_cast<int64_t>(r.tokens.size()) - 1;
}

std::optional<size_t> find_full_group(const KvCache& kv) {
    const auto groups = kv.groups();
    for (size_t g = 0; g < groups.size(); g++) {
        if (!groups[g].window) return g;
    }
    return std::nullopt;
}

}  // namespace

struct EngineLoop::Job {
    Work work;
    bool alone = true;
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Result<void>> result;
};

EngineLoop::EngineLoop(std::unique_ptr<Runner> runner,
                       std::shared_ptr<const Tokenizer> tokenizer,
                       const EngineOptions& options)
    : runner_(std::move(runner)),
      tokenizer_(std::move(tokenizer)),
      parallel_(options.parallel),
      queue_limit_(options.queue_limit),
      max_stall_ms_(options.max_stall_ms),
      full_group_(find_full_group(runner_->kv())) {
    if (!options.state_folder.empty()) held_.resize(static_cast<size_t>(parallel_));
    stats_.parallel = parallel_;
    stats_.time_to_first_token = Histogram(kFirstTokenBounds);
    stats_.inter_token_latency = Histogram(kGapBounds);
    stats_.queue_time = Histogram(kFirstTokenBounds);
    stats_.request_latency = Histogram(kRequestBounds);
    publish();
    thread_ = std::thread([this] { run(); });
}

EngineLoop::~EngineLoop() {
    stopping_ = true;
    wakeup_->notify();
    thread_.join();
}

Result<std::unique_ptr<Stream>> EngineLoop::submit(Request request) {
    if (request.slot < -1 || request.slot >= parallel_) {
        return Error{Status::BadRequest, "slot: expected -1 to " + std::to_string(parallel_ - 1) +
                                             ", got " + std::to_string(request.slot)};
    }
    NIB_ASSIGN(auto active,
               ActiveRequest::create(std::move(request), tokenizer_, runner_->context(), wakeup_));
    if (n_present_.fetch_add(1) >= parallel_ + queue_limit_) {
        n_present_--;
        n_refused_++;
        return Error{Status::Busy, "the queue is full: " + std::to_string(queue_limit_) +
                                       " requests wait already"};
    }
    active->epoch = epoch_;
    active->client = client_key(active->request().client);
    active->submitted = EngineClock::now();
    auto stream = std::make_unique<ChannelStream>(active->channel());
    {
        const std::lock_guard lock(mutex_);
        active->id = next_id_++;
        inbox_.push_back(std::move(active));
    }
    wakeup_->notify();
    return std::unique_ptr<Stream>(std::move(stream));
}

Result<void> EngineLoop::run_job(Work work, bool alone) {
    const auto job = std::make_shared<Job>();
    job->work = std::move(work);
    job->alone = alone;
    {
        const std::lock_guard lock(mutex_);
        jobs_.push_back(job);
    }
    wakeup_->notify();
    std::unique_lock lock(job->mutex);
    job->changed.wait(lock, [&] { return job->result.has_value(); });
    return *job->result;
}

EngineStats EngineLoop::stats() const {
    const std::lock_guard lock(mutex_);
    EngineStats s = published_;
    s.waiting += static_cast<int32_t>(inbox_.size());
    s.requests_refused = n_refused_;
    return s;
}

void EngineLoop::cancel_all() noexcept {
    epoch_++;
}

void EngineLoop::run() {
    for (;;) {
        take_submitted();
        if (stopping_) break;
        sweep();
        run_jobs();
        if (step()) continue;
        wakeup_->wait(requests_.empty() ? kIdleWait : kNoRowsWait);
    }
    for (auto& r : requests_)
        end(*r);
    drop_ended();
    const std::lock_guard lock(mutex_);
    for (auto& job : jobs_) {
        const std::lock_guard job_lock(job->mutex);
        job->result = Error{Status::Cancelled, "the engine is closed"};
        job->changed.notify_all();
    }
}

void EngineLoop::take_submitted() {
    {
        const std::lock_guard lock(mutex_);
        if (inbox_.empty()) return;
        for (auto& r : inbox_) {
            shares_.enter(r->client);
            requests_.push_back(std::move(r));
        }
        inbox_.clear();
    }
    publish();
}

// Requests that nobody waits for any more, or whose time is over; readers that are behind.
void EngineLoop::sweep() {
    const auto now = EngineClock::now();
    bool some_ended = false;
    for (auto& r : requests_) {
        follow_reader(*r, now);
        if (!must_end(*r, now)) continue;
        end(*r);
        some_ended = true;
    }
    if (some_ended) drop_ended();
}

// A reader that is behind pauses its request; one that has caught up lets it go on.
void EngineLoop::follow_reader(ActiveRequest& r, EngineClock::time_point now) {
    const size_t unread = r.channel()->unread_bytes();
    if (r.phase == Phase::Decode && unread > kPauseBytes) {
        r.phase = Phase::Paused;
        r.paused_since = now;
    } else if (r.phase == Phase::Paused && unread <= kPauseBytes / 2) {
        r.phase = Phase::Decode;
    }
}

bool EngineLoop::must_end(ActiveRequest& r, EngineClock::time_point now) {
    if (r.channel()->cancelled() || r.epoch != epoch_) return true;
    if (r.request().deadline && now >= *r.request().deadline) {
        r.stop_at_deadline();
        return true;
    }
    return r.phase == Phase::Paused && now - r.paused_since > kPauseLimit;
}

void EngineLoop::run_jobs() {
    const bool idle = std::none_of(requests_.begin(), requests_.end(),
                                   [](const auto& r) { return r->phase != Phase::Waiting; });
    std::vector<std::shared_ptr<Job>> jobs;
    {
        const std::lock_guard lock(mutex_);
        for (auto& job : jobs_) {
            if (idle || !job->alone) jobs.push_back(std::move(job));
        }
        std::erase(jobs_, nullptr);
    }
    for (auto& job : jobs) {
        Result<void> result = job->work(*runner_);
        publish();
        const std::lock_guard lock(job->mutex);
        job->result = std::move(result);
        job->changed.notify_all();
    }
}

ActiveRequest* EngineLoop::find(uint64_t id) const {
    // In order of arrival, so of ids.
    const auto found =
        std::lower_bound(requests_.begin(), requests_.end(), id,
                         [](const auto& r, uint64_t wanted) { return r->id < wanted; });
    return found != requests_.end() && (*found)->id == id ? found->get() : nullptr;
}

ScheduleItem EngineLoop::view(const ActiveRequest& r) const {
    const bool counts = full_group_.has_value();
    const auto in_last = static_cast<int32_t>(r.done % kBlockTokens);
    return {.id = r.id,
            .phase = r.phase,
            .priority = r.request().priority,
            .served = shares_.rows(r.client),
            .rows_left = static_cast<int32_t>(r.tokens.size() - r.done),
            .tail_room = !counts   ? INT32_MAX / 2
                         : in_last ? kBlockTokens - in_last
                                   : 0,
            .blocks_held = counts && r.sequence >= 0
                               ? static_cast<int64_t>(r.done + kBlockTokens - 1) / kBlockTokens
                               : 0,
            .preemptions = r.preemptions};
}

// `ahead`: waiting requests that will be admitted before this one in the same step.
WaitingNeeds EngineLoop::probe(const ActiveRequest& r, std::vector<const ActiveRequest*>& ahead) {
    const int64_t limit = take_over_limit(r);
    const uint64_t salt = r.request().cache_salt;
    const int64_t have = limit > 0 ? runner_->kv().match(r.tokens, limit, salt) : 0;
    const auto soon_gives_more = [&](const ActiveRequest& other) {
        if (other.request().cache_salt != salt) return false;
        const int64_t common = std::min(common_prefix(r.tokens, other.tokens), limit);
        return common >= have + kWorthWaiting && static_cast<int64_t>(other.done) < common;
    };
    bool wait = std::any_of(ahead.begin(), ahead.end(),
                            [&](const ActiveRequest* a) { return soon_gives_more(*a); });
    for (const auto& other : requests_) {
        if (wait) break;
        wait = other->phase == Phase::Prompt && soon_gives_more(*other);
    }
    stats_.prefix_waits += wait;
    if (!wait) ahead.push_back(&r);
    const auto size = static_cast<int64_t>(r.tokens.size());
    const int64_t shared = have / kBlockTokens * kBlockTokens;  // the rest of a block is copied
    return {.rows = static_cast<int32_t>(size - have),
            .blocks = full_group_
                          ? runner_->kv().blocks_needed(*full_group_, shared, size + 1 - shared)
                          : 0,
            .wait = wait};
}

SchedulePlan EngineLoop::plan() {
    std::vector<ScheduleItem> items;
    items.reserve(requests_.size());
    int32_t decoding = 0;
    for (const auto& r : requests_) {
        items.push_back(view(*r));
        decoding += r->phase == Phase::Decode;
    }
    const ScheduleLimits limits{
        .max_rows = runner_->max_rows(),
        .max_running = parallel_,
        .block_tokens = kBlockTokens,
        .blocks_available = full_group_ ? runner_->kv().blocks_available(*full_group_) : INT32_MAX,
        .max_stall_ms = max_stall_ms_,
        .cost =
            costs_.expect(decoding, std::min(parallel_, static_cast<int32_t>(requests_.size())))};
    std::vector<const ActiveRequest*> ahead;
    return plan_step(items, limits, [&](uint64_t id) { return probe(*find(id), ahead); });
}

void EngineLoop::put_back(ActiveRequest& r) {
    release(r);
    r.phase = Phase::Waiting;
    r.preemptions++;
    stats_.preemptions++;
}

// It goes on waiting if there is no sequence for it.
void EngineLoop::admit(ActiveRequest& r) {
    KvCache& kv = runner_->kv();
    r.sequence = kv.open_sequence(r.request().cache_salt);
    if (r.sequence < 0) return;
    const int64_t limit = take_over_limit(r);
    r.done = limit > 0 ? static_cast<size_t>(kv.attach(r.sequence, r.tokens, limit)) : 0;
    const auto now = EngineClock::now();
    if (!r.has_started) {
        r.has_started = true;
        r.started = now;
        r.timings().cached_n = static_cast<int32_t>(r.done);
        stats_.queue_time.add(seconds(now - r.submitted));
        stats_.cached_tokens += r.done;
    } else {
        stats_.recomputed_tokens += r.tokens.size() - r.done;
    }
    if (r.n_chosen() == 0) r.tell_prompt_done(now);  // what the cache had
    r.phase = r.n_chosen() > 0 && r.missing().size() == 1 ? Phase::Decode : Phase::Prompt;
}

// One step; false if there was nothing to do.
bool EngineLoop::step() {
    if (requests_.empty()) return false;
    const auto start = EngineClock::now();
    const SchedulePlan todo = plan();
    for (uint64_t id : todo.preempt)
        put_back(*find(id));
    for (uint64_t id : todo.admit)
        admit(*find(id));

    // The tokens are copied: requests grow while the step hands out its rows.
    step_tokens_.clear();
    step_tokens_.reserve(static_cast<size_t>(runner_->max_rows()));
    std::vector<ActiveRequest*> texts, embeddings;
    std::vector<StepPart> text_parts, embedding_parts;
    for (const SchedulePlan::Rows& rows : todo.rows) {
        ActiveRequest& r = *find(rows.id);
        if (r.sequence < 0) continue;
        const auto n = std::min(static_cast<size_t>(rows.n), r.missing().size());
        if (!runner_->kv().reserve(r.sequence, static_cast<int32_t>(n)).ok()) continue;
        const auto part = r.missing().first(n);
        step_tokens_.insert(step_tokens_.end(), part.begin(), part.end());
        (r.is_embedding() ? embeddings : texts).push_back(&r);
        (r.is_embedding() ? embedding_parts : text_parts)
            .push_back({.sequence = r.sequence,
                        .tokens = std::span(step_tokens_).last(n),
                        .all_logits = r.request().pooling == Pooling::Mean,
                        .want_logits = n == r.missing().size()});
    }
    if (texts.empty() && embeddings.empty()) return blocked(todo);
    blocked_steps_ = 0;
    run_parts(texts, text_parts, false, start);
    run_parts(embeddings, embedding_parts, true, EngineClock::now());
    drop_ended();
    return true;
}

// Rows were planned and none could have a block. The next plan knows better; if it does not, the
// request that came last gives up.
bool EngineLoop::blocked(const SchedulePlan& todo) {
    if (todo.rows.empty()) return !todo.preempt.empty();
    if (++blocked_steps_ < kMostBlockedSteps) return true;
    blocked_steps_ = 0;
    end(*find(todo.rows.back().id),
        Error{Status::OutOfMemory, "no KV block is free for the next token"});
    drop_ended();
    return true;
}

void EngineLoop::run_parts(const std::vector<ActiveRequest*>& members,
                           std::span<const StepPart> parts,
                           bool hidden,
                           EngineClock::time_point start) {
    if (parts.empty()) return;
    const auto on_row = [&](size_t part, int32_t, std::span<const float> row) {
        ActiveRequest& r = *members[part];
        if (hidden) return r.take_hidden(row);
        const auto now = EngineClock::now();
        const auto before = r.last_token_at();
        const int32_t chosen = r.n_chosen();
        r.take_logits(row, now);
        stats_.predicted_tokens += static_cast<uint64_t>(r.n_chosen() - chosen);
        if (chosen == 0)
            stats_.time_to_first_token.add(seconds(now - r.submitted));
        else
            stats_.inter_token_latency.add(seconds(now - before));
    };
    const auto result = hidden ? runner_->step_hidden(parts, on_row) : runner_->step(parts, on_row);
    if (!result.ok()) {
        for (ActiveRequest* r : members)
            end(*r, result.error());
        return;
    }
    account(members, parts, seconds(EngineClock::now() - start));
}

// What the step has done to its requests and to the counters.
void EngineLoop::account(const std::vector<ActiveRequest*>& members,
                         std::span<const StepPart> parts,
                         double step_seconds) {
    int32_t decode_rows = 0, prompt_rows = 0;
    for (size_t p = 0; p < parts.size(); p++) {
        ActiveRequest& r = *members[p];
        const auto n = static_cast<int32_t>(parts[p].tokens.size());
        const bool prompt = r.phase == Phase::Prompt;
        (prompt ? prompt_rows : decode_rows) += n;
        r.done += static_cast<size_t>(n);
        shares_.add_rows(r.client, n);
        if (prompt) r.tell_prompt_done(EngineClock::now());
        const auto length = static_cast<int32_t>(r.tokens.size());
        stats_.longest_request = std::max(stats_.longest_request, length);
        if (parts[p].want_logits) {
            if (r.is_embedding()) r.stop_with_result();
            r.phase = Phase::Decode;
        }
        if (r.over()) end(r);
    }
    const double rows = decode_rows + prompt_rows;
    stats_.steps++;
    stats_.step_rows += static_cast<uint64_t>(rows);
    stats_.prompt_tokens += static_cast<uint64_t>(prompt_rows);
    stats_.prompt_seconds += step_seconds * prompt_rows / rows;
    stats_.predicted_seconds += step_seconds * decode_rows / rows;
    costs_.observe(decode_rows, prompt_rows, step_seconds * 1e3);
}

void EngineLoop::release(ActiveRequest& r) {
    if (r.sequence < 0) return;
    const bool keep = !r.failed() && r.request().cache_prompt;
    if (!held_.empty()) {
        const int32_t wanted = r.request().slot;
        Held& held = held_[static_cast<size_t>(wanted >= 0 ? wanted : r.sequence)];
        held.tokens.assign(r.tokens.begin(),
                           r.tokens.begin() + static_cast<ptrdiff_t>(keep ? r.done : 0));
        held.salt = r.request().cache_salt;
    }
    runner_->kv().close_sequence(r.sequence, keep);
    r.sequence = -1;
    r.done = 0;
}

// The request is over, by itself, by its client or with an error; drop_ended() tells its reader.
void EngineLoop::end(ActiveRequest& r, std::optional<Error> error) {
    if (r.ended) return;
    r.ended = true;
    if (error) r.set_error(std::move(*error));
    release(r);
    (r.failed() ? stats_.requests_failed
     : r.over() ? stats_.requests_done
                : stats_.requests_cancelled)++;
    stats_.request_latency.add(seconds(EngineClock::now() - r.submitted));
}

void EngineLoop::drop_ended() {
    Requests ended;
    for (auto& r : requests_) {
        if (!r->ended) continue;
        shares_.leave(r->client);
        ended.push_back(std::move(r));
    }
    std::erase(requests_, nullptr);
    n_present_ -= static_cast<int32_t>(ended.size());
    publish();
    // Who reads the last event finds the counters and blocks as they are after it.
    const auto now = EngineClock::now();
    for (auto& r : ended)
        r->finish(now);
}

void EngineLoop::publish() {
    const KvCache::Stats kv = runner_->kv().stats();
    stats_.blocks_used = kv.blocks_used;
    stats_.blocks_cached = kv.blocks_cached;
    stats_.blocks_free = kv.blocks_free;
    stats_.kv_bytes_used = kv.bytes_used + kv.bytes_cached;
    stats_.kv_bytes_total = kv.bytes_total;
    stats_.evicted_blocks = kv.evicted;
    stats_.running = stats_.waiting = 0;
    stats_.requests.clear();
    for (const auto& r : requests_) {
        const bool running = r->phase != Phase::Waiting;
        (running ? stats_.running : stats_.waiting)++;
        stats_.requests.push_back(
            {.id = r->id,
             .running = running,
             .slot = r->sequence,
             .prompt_n = static_cast<int32_t>(r->prompt_size()),
             .prompt_done = static_cast<int32_t>(std::min(r->done, r->prompt_size())),
             .predicted_n = r->n_chosen(),
             .max_tokens = r->request().max_tokens,
             .client = r->request().client});
    }
    const std::lock_guard lock(mutex_);
    published_ = stats_;
}

}  // namespace nib
