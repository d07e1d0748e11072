// SPDX-License-Identifier: MIT
// The scheduler alone: single plans, and a made-up engine with a virtual clock that runs many of
// them.
#include "src/schedule/scheduler.h"

#include "src/schedule/cost_model.h"
#include "src/schedule/fair_share.h"

#include <algorithm>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nib::test {
namespace {

using testing::ElementsAre;
using Rows = SchedulePlan::Rows;

ScheduleItem decode(uint64_t id, int32_t tail_room = 10, int64_t held = 1) {
    return {.id = id,
            .phase = Phase::Decode,
            .rows_left = 1,
            .tail_room = tail_room,
            .blocks_held = held};
}

ScheduleItem prompt(uint64_t id, int32_t rows, int32_t tail_room = 0) {
    return {.id = id, .phase = Phase::Prompt, .rows_left = rows, .tail_room = tail_room};
}

ScheduleItem waiting(uint64_t id) {
    return {.id = id, .phase = Phase::Waiting};
}

// Every waiting request wants so many rows.
WaitingProbe wants(int32_t rows) {
    return [rows](uint64_t) {
        return WaitingNeeds{.rows = rows, .blocks = (rows + 64) / 64, .wait = false};
    };
}

ScheduleLimits limits(int32_t running = 8, int64_t blocks = 1000) {
    return {.max_running = running, .blocks_available = blocks};
}

TEST(Scheduler, NothingToDoIsAnEmptyPlan) {
    const SchedulePlan plan = plan_step({}, limits(), wants(1));
    EXPECT_TRUE(plan.rows.empty() && plan.admit.empty() && plan.preempt.empty());
}

TEST(Scheduler, DecodeRowsComeFirstThenPromptsThenNewcomers) {
    const ScheduleItem items[] = {waiting(4), prompt(3, 5), decode(2), decode(1)};
    const SchedulePlan plan = plan_step(items, limits(), wants(7));
    EXPECT_THAT(plan.admit, ElementsAre(4));
    EXPECT_THAT(plan.rows, ElementsAre(Rows{1, 1}, Rows{2, 1}, Rows{3, 5}, Rows{4, 7}));
}

TEST(Scheduler, APromptAloneMayFillTheStep) {
    const ScheduleItem items[] = {prompt(1, 3000)};
    EXPECT_THAT(plan_step(items, limits(), wants(1)).rows, ElementsAre(Rows{1, 512}));
}

TEST(Scheduler, BesideStreamsPromptsGetWhatTheStallAllows) {
    const ScheduleItem items[] = {decode(1), decode(2), prompt(3, 3000)};
    ScheduleLimits l = limits();
    EXPECT_THAT(plan_step(items, l, wants(1)).rows.back(), (Rows{3, kFirstBudget}));
    l.cost = {.decode_ms = 10, .prompt_row_ms = 0.5};
    EXPECT_THAT(plan_step(items, l, wants(1)).rows.back(), (Rows{3, 12}));  // 0.6 * 10 / 0.5
    l.cost.crowd_ms = 12;  // the pace that they will have once the prompt is answered
    EXPECT_THAT(plan_step(items, l, wants(1)).rows.back(), (Rows{3, 18}));  // (1.6 * 12 - 10) / 0.5
    l.max_stall_ms = 60;
    EXPECT_THAT(plan_step(items, l, wants(1)).rows.back(), (Rows{3, 100}));
    l.max_stall_ms = 1;  // less than the streams take by themselves: still forward
    EXPECT_THAT(plan_step(items, l, wants(1)).rows.back(), (Rows{3, 1}));
}

TEST(Scheduler, AShortPromptBehindALongOneGoesOnToo) {
    const ScheduleItem items[] = {prompt(1, 5000), prompt(2, 40), prompt(3, 5000)};
    EXPECT_THAT(plan_step(items, limits(), wants(1)).rows,
                ElementsAre(Rows{1, 256}, Rows{2, 40}, Rows{3, 216}));
}

TEST(Scheduler, PrioritiesThenLeastServedClientsThenArrival) {
    ScheduleItem a = waiting(1), b = waiting(2), c = waiting(3), d = waiting(4);
    a.served = b.served = 500, c.served = 3;
    d.priority = 1, d.served = 9000;
    const ScheduleItem items[] = {a, b, c, d};
    EXPECT_THAT(plan_step(items, limits(3), wants(4)).admit, ElementsAre(4, 3, 1));
}

TEST(Scheduler, WhoWaitsForAPrefixIsPassedOver) {
    const ScheduleItem items[] = {waiting(1), waiting(2)};
    const auto plan = plan_step(items, limits(), [](uint64_t id) {
        return WaitingNeeds{.rows = 9, .blocks = 1, .wait = id == 1};
    });
    EXPECT_THAT(plan.admit, ElementsAre(2));
}

TEST(Scheduler, NewcomersLeaveBlocksToThoseWhoRun) {
    // 1 needs 2 blocks for its prompt and may grow by 2, 2 may grow by 2: of 8 blocks 2 are left,
    // which is what a newcomer's own growth takes.
    const ScheduleItem items[] = {prompt(1, 100, 20), decode(2), waiting(3)};
    EXPECT_THAT(plan_step(items, limits(8, 8), wants(60)).admit, ElementsAre());
    EXPECT_THAT(plan_step(items, limits(8, 9), wants(60)).admit, ElementsAre(3));
}

TEST(Scheduler, OneAloneIsAlwaysAdmitted) {
    const ScheduleItem items[] = {waiting(1), waiting(2)};
    EXPECT_THAT(plan_step(items, limits(8, 3), wants(180)).admit, ElementsAre(1));
}

TEST(Scheduler, WithoutBlocksTheLatestOfTheLowestPriorityIsPutBack) {
    ScheduleItem vip = decode(4, 0, 5);
    vip.priority = 1;
    const ScheduleItem items[] = {decode(1, 0, 3), decode(2, 0, 3), decode(3, 0, 3), vip};
    const SchedulePlan plan = plan_step(items, limits(8, 2), wants(1));
    EXPECT_THAT(plan.preempt, ElementsAre(3));
    EXPECT_THAT(plan.rows, ElementsAre(Rows{4, 1}, Rows{1, 1}, Rows{2, 1}));
}

TEST(Scheduler, WhoWasPutBackOftenStaysAndTheOldestAlwaysGoesOn) {
    ScheduleItem tired = decode(2, 0, 3);
    tired.preemptions = kMostPreemptions;
    const ScheduleItem items[] = {decode(1, 0, 3), tired};
    const SchedulePlan plan = plan_step(items, limits(8, 1), wants(1));
    EXPECT_TRUE(plan.preempt.empty());
    EXPECT_THAT(plan.rows, ElementsAre(Rows{1, 1}));
}

TEST(Scheduler, AHigherPriorityTakesTheSequenceOfALower) {
    ScheduleItem vip = waiting(9);
    vip.priority = 5;
    const ScheduleItem items[] = {decode(1), decode(2), vip};
    const SchedulePlan plan = plan_step(items, limits(2), wants(4));
    EXPECT_THAT(plan.preempt, ElementsAre(2));
    EXPECT_THAT(plan.admit, ElementsAre(9));
    const ScheduleItem equal[] = {decode(1), decode(2), waiting(9)};
    EXPECT_TRUE(plan_step(equal, limits(2), wants(4)).preempt.empty());
}

TEST(Scheduler, PausedOnesKeepTheirPlaceAndGetNoRows) {
    ScheduleItem paused = decode(1);
    paused.phase = Phase::Paused;
    const ScheduleItem items[] = {paused, waiting(2)};
    EXPECT_TRUE(plan_step(items, limits(1), wants(4)).rows.empty());
    EXPECT_THAT(plan_step(items, limits(2), wants(4)).rows, ElementsAre(Rows{2, 4}));
}

TEST(CostModel, LearnsWhatRowsCostAndForgets) {
    CostModel model;
    EXPECT_EQ(model.expect(4, 4).decode_ms, 0);
    for (int i = 0; i < 50; i++) {
        model.observe(4, 0, 5);
        model.observe(4, 10, 10);
    }
    EXPECT_NEAR(model.expect(4, 4).decode_ms, 5, 0.1);
    EXPECT_NEAR(model.expect(4, 4).prompt_row_ms, 0.5, 0.05);
    EXPECT_NEAR(model.expect(5, 5).decode_ms, 5.5, 0.1);  // the nearest below and a row
    EXPECT_NEAR(model.expect(2, 5).decode_ms, 2.5, 0.1);  // at most in proportion
    for (int i = 0; i < 100; i++)
        model.observe(4, 10, 25);
    EXPECT_NEAR(model.expect(4, 4).prompt_row_ms, 2, 0.1);
    model.observe(4, 0, 5);
    model.observe(4, 0, 5000);  // somebody stopped the machine
    EXPECT_LT(model.expect(4, 4).decode_ms, 7);
}

TEST(CostModel, AsksForAStepWithoutPromptsWhenItHasSeenNoneForLong) {
    CostModel model;
    model.observe(1, 0, 3);
    for (int i = 0; i < 31; i++)
        model.observe(1, 5, 5);
    EXPECT_FALSE(model.expect(1, 2).measure);
    model.observe(1, 5, 5);
    EXPECT_TRUE(model.expect(1, 2).measure);
    model.observe(1, 0, 9);  // contexts have grown
    EXPECT_FALSE(model.expect(1, 2).measure);
    EXPECT_NEAR(model.expect(1, 2).decode_ms, 6, 0.1);
    EXPECT_FALSE(model.expect(2, 2).measure);
    model.observe(2, 5, 9), model.observe(2, 5, 9);
    EXPECT_TRUE(model.expect(2, 2).measure);  // never seen alone: soon
}

TEST(FairShare, AReturningClientHasNoCredit) {
    FairShare shares;
    shares.enter(1);
    shares.add_rows(1, 900);
    shares.enter(2);
    EXPECT_EQ(shares.rows(2), 900u);
    shares.add_rows(2, 50);
    shares.leave(1);
    shares.enter(1);
    EXPECT_EQ(shares.rows(1), 950u);
    shares.leave(1), shares.leave(2);
    EXPECT_EQ(shares.size(), 0u);
}

// An engine made of numbers: requests with a length of prompt and answer, a pool of blocks, steps
// that take time by a formula.
class MadeUpEngine {
  public:
    struct Job {
        ScheduleItem item;
        uint64_t client = 0;
        int32_t prompt = 0, answer = 0, in_cache = 0, chosen = 0;
        double arrived = 0, last = -1, longest_gap = 0, first = -1;
    };
    ScheduleLimits limits;
    int64_t pool = 0;
    double now = 0;
    std::map<uint64_t, Job> jobs;
    std::map<uint64_t, Job> done;
    FairShare shares;
    CostModel costs;
    int64_t preemptions = 0;
    double decode_ms = 2, decode_row_ms = 0.1, row_ms = 0.5;

    explicit MadeUpEngine(int32_t running, int64_t blocks) : pool(blocks) {
        limits.max_running = running;
    }

    uint64_t add(int32_t prompt, int32_t answer, uint64_t client = 0, int32_t priority = 0) {
        const uint64_t id = ++last_id_;
        Job& j = jobs[id];
        j.item.id = id, j.client = client, j.item.priority = priority;
        j.prompt = prompt, j.answer = answer, j.arrived = now;
        shares.enter(client);
        return id;
    }

    // False if there is nothing left to do.
    bool step() {
        std::vector<ScheduleItem> items;
        int64_t held = 0;
        int32_t decoding = 0;
        for (auto& [id, j] : jobs) {
            j.item.served = shares.rows(j.client);
            j.item.rows_left = j.prompt + j.chosen - j.in_cache;
            j.item.tail_room = (64 - j.in_cache % 64) % 64;
            j.item.blocks_held = (j.in_cache + 63) / 64;
            held += j.item.blocks_held;
            decoding += j.item.phase == Phase::Decode;
            items.push_back(j.item);
        }
        if (items.empty()) return false;
        EXPECT_LE(held, pool);
        limits.blocks_available = pool - held;
        limits.cost = costs.expect(
            decoding, std::min<int32_t>(limits.max_running, static_cast<int32_t>(items.size())));
        const auto plan = plan_step(items, limits, [&](uint64_t id) {
            const Job& j = jobs.at(id);
            const int32_t rows = j.prompt + j.chosen;
            return WaitingNeeds{.rows = rows, .blocks = (rows + 64) / 64, .wait = false};
        });
        for (uint64_t id : plan.preempt) {
            Job& j = jobs.at(id);
            EXPECT_NE(j.item.phase, Phase::Waiting);
            j.in_cache = 0, j.item.phase = Phase::Waiting, j.item.preemptions++;
            preemptions++;
        }
        for (uint64_t id : plan.admit)
            jobs.at(id).item.phase = Phase::Prompt;
        run(plan);
        return true;
    }

  private:
    void run(const SchedulePlan& plan) {
        int32_t decode_rows = 0, prompt_rows = 0, total = 0;
        for (const auto& r : plan.rows) {
            (jobs.at(r.id).item.phase == Phase::Decode ? decode_rows : prompt_rows) += r.n;
            total += r.n;
        }
        ASSERT_GT(total, 0) << "a step without a row";
        ASSERT_LE(total, limits.max_rows);
        const double ms =
            (decode_rows ? decode_ms + decode_row_ms * decode_rows : 0) + row_ms * prompt_rows;
        costs.observe(decode_rows, prompt_rows, ms);
        now += ms;
        for (const auto& r : plan.rows) {
            Job& j = jobs.at(r.id);
            shares.add_rows(j.client, r.n);
            j.in_cache += r.n;
            ASSERT_LE(j.in_cache, j.prompt + j.chosen);
            if (j.in_cache < j.prompt + j.chosen) continue;
            j.item.phase = Phase::Decode;
            j.chosen++;
            if (j.first < 0) j.first = now;
            if (j.last >= 0) j.longest_gap = std::max(j.longest_gap, now - j.last);
            j.last = now;
            if (j.chosen < j.answer) continue;
            shares.leave(j.client);
            done[r.id] = j;
            jobs.erase(r.id);
        }
    }
    uint64_t last_id_ = 0;
};

TEST(SchedulerRuns, ALongPromptDoesNotStallStreams) {
    MadeUpEngine engine(8, 10'000);
    std::vector<uint64_t> streams;
    for (int i = 0; i < 4; i++)
        streams.push_back(engine.add(20, 3000));
    for (int i = 0; i < 200; i++)
        engine.step();
    for (auto& [id, j] : engine.jobs)
        j.longest_gap = 0;
    const uint64_t big = engine.add(6000, 4);
    while (engine.jobs.count(big))
        ASSERT_TRUE(engine.step());
    for (uint64_t id : streams)
        EXPECT_LE(engine.jobs.at(id).longest_gap, 2 * 2.4);
    // And the prompt takes what is left: not much longer than it must.
    EXPECT_LT(engine.done.at(big).first - engine.done.at(big).arrived, 6000 * 0.5 * 3);
}

TEST(SchedulerRuns, OneRequestOfAQuietClientStartsBeforeManyOfABusyOne) {
    MadeUpEngine engine(2, 10'000);
    for (int i = 0; i < 50; i++)
        engine.add(30, 20, 1);
    for (int i = 0; i < 30; i++)
        engine.step();
    const uint64_t one = engine.add(30, 20, 2);
    const size_t before = engine.done.size();
    while (!engine.done.count(one))
        ASSERT_TRUE(engine.step());
    EXPECT_LE(engine.done.size() - before, 4u);
}

// Clients that ask again at once: there are always prompts to read, contexts are long, and a row
// costs what it costs; the machine must not spend its time on steps with few rows.
TEST(SchedulerRuns, ASaturatedServerIsNotMuchSlowerThanItsWork) {
    MadeUpEngine engine(8, 10'000);
    engine.decode_ms = 2.5, engine.decode_row_ms = 0.6, engine.row_ms = 0.6;
    constexpr int kPrompt = 70, kAnswer = 64, kRequests = 120;
    int added = 8;
    for (int i = 0; i < 8; i++)
        engine.add(kPrompt, kAnswer);
    while (engine.step()) {
        for (; added < kRequests && added - static_cast<int>(engine.done.size()) < 8; added++)
            engine.add(kPrompt, kAnswer);
    }
    ASSERT_EQ(engine.done.size(), static_cast<size_t>(kRequests));
    const double rows = kRequests * kPrompt * 0.6 + kRequests * kAnswer * 0.6;
    const double steps = kRequests * kAnswer / 8.0 * 2.5;
    EXPECT_LT(engine.now, 1.35 * (rows + steps));
    for (const auto& [id, j] : engine.done)
        EXPECT_LT(j.first - j.arrived, 1000) << id;
}

TEST(SchedulerRuns, EverythingEndsWhateverComes) {
    for (uint32_t seed = 1; seed <= 60; seed++) {
        std::mt19937 random(seed);
        const auto pick = [&](int low, int high) {
            return std::uniform_int_distribution<int>(low, high)(random);
        };
        // The pool holds one request of the largest size and little more.
        MadeUpEngine engine(pick(1, 9), pick(14, 40));
        int added = 0;
        for (int i = 0; i < 20'000; i++) {
            if (added < 40 && pick(0, 9) == 0) {
                engine.add(pick(1, 500), pick(1, 300), static_cast<uint64_t>(pick(0, 3)),
                           pick(0, 5) ? 0 : pick(-2, 2));
                added++;
            }
            if (!engine.step() && added == 40) break;
            if (testing::Test::HasFatalFailure()) return;
        }
        ASSERT_EQ(engine.done.size(), 40u) << "seed " << seed;
    }
}

}  // namespace
}  // namespace nib::test
