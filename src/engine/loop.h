// SPDX-License-Identifier: MIT
// The engine thread: takes what was submitted, asks the scheduler for the next step, gives and
// takes sequences of the KV cache, runs the step, and hands its rows to the requests.
//
// Threads: submit(), run_alone(), stats() and cancel_all() from any thread; everything else happens
// on the loop's own thread.
#pragma once
#include "src/engine/active_request.h"
#include "src/runner.h"
#include "src/schedule/cost_model.h"
#include "src/schedule/fair_share.h"

#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

namespace nib {

class EngineLoop {
  public:
    EngineLoop(std::unique_ptr<Runner> runner,
               std::shared_ptr<const Tokenizer> tokenizer,
               const EngineOptions& options);
    // Ends every request with Cancelled and joins the thread.
    ~EngineLoop();
    EngineLoop(const EngineLoop&) = delete;
    EngineLoop& operator=(const EngineLoop&) = delete;

    // Errors: Busy, BadRequest.
    Result<std::unique_ptr<Stream>> submit(Request request);
    // Runs `work` on the engine thread when no request is running, and waits for it.
    using Work = std::function<Result<void>(Runner&)>;
    Result<void> run_alone(Work work) { return run_job(std::move(work), true); }
    // The same between two steps, whatever runs.
    Result<void> run_between(Work work) { return run_job(std::move(work), false); }
    // What a slot (RequestInfo::slot) held last; `salt` must be its request's. Errors: BadRequest
    // (nothing is held), and those of the cache.
    Result<KvState> save_slot(int32_t slot, uint64_t salt);
    Result<void> restore_slot(int32_t slot, uint64_t salt, KvState state);
    Result<int64_t> erase_slot(int32_t slot, uint64_t salt);
    EngineStats stats() const;
    int32_t parallel() const { return parallel_; }
    void cancel_all() noexcept;  // also from a signal handler

  private:
    using Requests = std::vector<std::unique_ptr<ActiveRequest>>;
    struct Job;
    struct Held {
        std::vector<Token> tokens;
        uint64_t salt = 0;
    };

    void run();
    void take_submitted();
    void sweep();
    static void follow_reader(ActiveRequest& r, EngineClock::time_point now);
    bool must_end(ActiveRequest& r, EngineClock::time_point now);
    void run_jobs();
    bool step();
    bool blocked(const SchedulePlan& todo);
    SchedulePlan plan();
    ScheduleItem view(const ActiveRequest& r) const;
    WaitingNeeds probe(const ActiveRequest& r, std::vector<const ActiveRequest*>& ahead);
    void put_back(ActiveRequest& r);
    void admit(ActiveRequest& r);
    void run_parts(const std::vector<ActiveRequest*>& members,
                   std::span<const StepPart> parts,
                   bool hidden,
                   EngineClock::time_point start);
    void account(const std::vector<ActiveRequest*>& members,
                 std::span<const StepPart> parts,
                 double step_seconds);
    void release(ActiveRequest& r);
    void end(ActiveRequest& r, std::optional<Error> error = {});
    void drop_ended();
    void publish();
    Result<void> run_job(Work work, bool alone);
    ActiveRequest* find(uint64_t id) const;

    std::unique_ptr<Runner> runner_;
    std::shared_ptr<const Tokenizer> tokenizer_;
    int32_t parallel_, queue_limit_;
    double max_stall_ms_;
    // The layers that see everything; their blocks are what requests compete for.
    std::optional<size_t> full_group_;

    std::shared_ptr<Wakeup> wakeup_ = std::make_shared<Wakeup>();
    std::atomic<bool> stopping_{false};
    std::atomic<uint64_t> epoch_{0};
    mutable std::mutex mutex_;  // of the four below
    std::deque<std::unique_ptr<ActiveRequest>> inbox_;
    std::deque<std::shared_ptr<Job>> jobs_;
    EngineStats published_;
    uint64_t next_id_ = 1;
    std::atomic<int32_t> n_present_{0};  // submitted and not over
    std::atomic<uint64_t> n_refused_{0};

    // Of the loop's thread.
    Requests requests_;  // in order of arrival
    FairShare shares_;
    CostModel costs_;
    EngineStats stats_;
    std::vector<Held> held_;          // [slot], by requests that ended; empty if nobody may ask
    int32_t blocked_steps_ = 0;       // in a row, in which no row found a block
    std::vector<Token> step_tokens_;  // of the present step, part behind part
    std::thread thread_;
};

}  // namespace nib
