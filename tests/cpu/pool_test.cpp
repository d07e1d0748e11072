// SPDX-License-Identifier: MIT
// The pool: every unit exactly once, ops in order, any number of threads, any caller, quiet when
// idle.
#include "backends/cpu/pool.h"

#include "backends/cpu/cpu_info.h"

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <time.h>

namespace nib::cpu {
namespace {

// Plain counters, one per unit: a unit that runs twice at the same time is a data race that the
// thread sanitizer sees, one after the other is a count of 2.
struct Counted {
    std::vector<int> counts;
    const Counted* before = nullptr;  // must be complete when this op runs
    std::atomic<int> bad{0};

    static void run(void* context, int first, int end, int thread) {
        auto& self = *static_cast<Counted*>(context);
        if (first < 0 || first >= end || thread < 0) self.bad++;
        for (int i = first; i < end; i++)
            self.counts[size_t(i)]++;
        if (self.before == nullptr || self.before->counts.empty()) return;
        // The neighbours of our own range in the previous op, whoever wrote them.
        const size_t n = self.before->counts.size();
        for (size_t i = 0; i < 8; i++) {
            const size_t at = (size_t(first) * 31 + i * 7919) % n;
            if (self.before->counts[at] != self.counts[size_t(first)]) self.bad++;
        }
    }
};

PoolOp op_of(Counted& c, int most = 65535) {
    return {.run = Counted::run, .context = &c, .units = int(c.counts.size()), .most = most};
}

class PoolThreads : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Some, PoolThreads, testing::Values(1, 2, 3, 7));

TEST_P(PoolThreads, RunsEveryUnitOnceAndOpsInOrder) {
    const auto pool = Pool::create(GetParam());
    EXPECT_EQ(pool->threads(), GetParam());
    const std::array<int, 9> sizes = {1, 2, 3, 0, 64, 7, 1000, 0, 33};
    std::vector<Counted> counted(sizes.size());
    std::vector<PoolOp> ops;
    for (size_t i = 0; i < sizes.size(); i++) {
        counted[i].counts.assign(size_t(sizes[i]), 0);
        if (i > 0) counted[i].before = &counted[i - 1];
        ops.push_back(op_of(counted[i], i % 2 == 0 ? 65535 : 5));
    }
    const int runs = 2048;
    for (int r = 0; r < runs; r++) {
        // Any of them may be run by the thread that opens it: first, last, all, several in a row.
        for (size_t i = 0; i < ops.size(); i++)
            ops[i].alone = r % 2 == 1 && (r / 2) >> i & 1;
        pool->run(ops);
    }
    for (const Counted& c : counted) {
        EXPECT_EQ(c.bad, 0);
        for (const int count : c.counts)
            EXPECT_EQ(count, runs);
    }
}

TEST_P(PoolThreads, RunsWithoutUnitsEnd) {
    const auto pool = Pool::create(GetParam());
    pool->run({});
    const PoolOp none[2] = {};
    pool->run(none);
    Counted counted{.counts = std::vector<int>(5)};
    PoolOp ops[3] = {{}, op_of(counted), {.units = -3}};
    for (int r = 0; r < 100; r++)
        pool->run(ops);
    EXPECT_EQ(counted.counts, std::vector<int>(5, 100));
}

TEST_P(PoolThreads, CountsFarMoreUnitsThanTheClaimWordHolds) {
    const auto pool = Pool::create(GetParam());
    for (const int units : {65535, 65536, 131071, (1 << 20) + 3}) {
        Counted counted;
        counted.counts.assign(size_t(units), 0);
        const PoolOp ops[] = {op_of(counted, 4096), op_of(counted)};
        pool->run(ops);
        EXPECT_EQ(counted.counts, std::vector<int>(size_t(units), 2)) << units;
    }
}

TEST_P(PoolThreads, ServesDifferentCallersInTurn) {
    const auto pool = Pool::create(GetParam());
    Counted counted{.counts = std::vector<int>(40)};
    const PoolOp ops[] = {op_of(counted), op_of(counted, 3)};
    for (int c = 0; c < 20; c++) {
        std::thread([&] {
            for (int r = 0; r < 20; r++)
                pool->run(ops);
        }).join();
        pool->run(ops);
    }
    EXPECT_EQ(counted.counts, std::vector<int>(40, 2 * 20 * 21));
}

struct Seen {
    std::mutex lock;
    std::set<int> threads;
    std::vector<int> owner = std::vector<int>(8, -1);

    static void run(void* context, int first, int end, int thread) {
        auto& self = *static_cast<Seen*>(context);
        const std::lock_guard hold(self.lock);
        self.threads.insert(thread);
        for (int i = first; i < end; i++)
            self.owner[size_t(i)] = thread;
    }
};

TEST(Pool, ThreadNumbersAreInRange) {
    const auto pool = Pool::create(3);
    Seen seen;
    const PoolOp op{.run = Seen::run, .context = &seen, .units = 8, .most = 1};
    for (int r = 0; r < 200; r++)
        pool->run({&op, 1});
    EXPECT_GE(*seen.threads.begin(), 0);
    EXPECT_LT(*seen.threads.rbegin(), 3);
    for (const int thread : seen.owner)
        EXPECT_GE(thread, 0);
}

struct OneSlow {
    std::atomic<bool> rest_done{false};
    std::atomic<int> done{0};
    std::atomic<bool> timed_out{false};

    static void run(void* context, int first, int end, int) {
        auto& self = *static_cast<OneSlow*>(context);
        if (first == 0) {
            // Holds unit 0 until somebody else has done all others, which needs stealing.
            const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
            while (self.done.load() < 31 && !self.timed_out) {
                if (std::chrono::steady_clock::now() > limit) self.timed_out = true;
                std::this_thread::yield();
            }
        } else {
            self.done += end - first;
        }
    }
};

TEST(Pool, WhoHoldsOneUnitDoesNotKeepTheOthers) {
    const auto pool = Pool::create(2);
    if (pool->threads() < 2) GTEST_SKIP() << "skipped: the system gives no second thread";
    OneSlow slow;
    const PoolOp op{.run = OneSlow::run, .context = &slow, .units = 32, .most = 1};
    pool->run({&op, 1});
    EXPECT_FALSE(slow.timed_out);
    EXPECT_EQ(slow.done, 31);
}

// The context of an `ahead` dies right after run(): no thread may look at it later.
struct Ahead {
    int readable = 7;
    std::atomic<int>* calls = nullptr;
    std::atomic<int>* bad = nullptr;

    static void run(void*, int, int, int) {}
    static void ahead(void* context, int first, int part) {
        auto& self = *static_cast<Ahead*>(context);
        if (self.readable != 7 || first < 0 || first >= 50 || part < 0 || part >= kAheadParts) {
            (*self.bad)++;
        }
        (*self.calls)++;
    }
};

TEST_P(PoolThreads, PrefetchingEndsBeforeTheRunDoes) {
    const auto pool = Pool::create(GetParam());
    std::atomic<int> calls{0};
    std::atomic<int> bad{0};
    for (int r = 0; r < 3000; r++) {
        auto context = std::make_unique<Ahead>();
        context->calls = &calls;
        context->bad = &bad;
        std::vector<PoolOp> ops(4, {.run = Ahead::run,
                                    .context = context.get(),
                                    .units = 50,
                                    .most = 65535,
                                    .ahead = Ahead::ahead});
        pool->run(ops);
        context->readable = 0;
    }
    EXPECT_EQ(bad, 0);
    if (GetParam() == 1) {
        EXPECT_EQ(calls, 0);  // who is alone never waits
    }
}

double process_cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

TEST(Pool, UsesNoCpuBetweenRuns) {
    const auto pool = Pool::create(4);
    Counted counted{.counts = std::vector<int>(100)};
    const PoolOp op = op_of(counted);
    pool->run({&op, 1});
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const double before = process_cpu_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    EXPECT_LT(process_cpu_seconds() - before, 0.02);
}

TEST(Pool, ClampsAbsurdThreadCounts) {
    EXPECT_EQ(Pool::create(0)->threads(), 1);
    EXPECT_EQ(Pool::create(-5)->threads(), 1);
    const auto pool = Pool::create(1 << 30);
    EXPECT_LE(pool->threads(), Pool::kMostThreads);
    Counted counted{.counts = std::vector<int>(1000)};
    const PoolOp op = op_of(counted);
    pool->run({&op, 1});
    EXPECT_EQ(counted.counts, std::vector<int>(1000, 1));
}

TEST(Pool, GivesTheCallerItsCpusBack) {
    const std::vector<int> before = this_thread_cpus();
    {
        const auto pool = Pool::create(2);
        Counted counted{.counts = std::vector<int>(10)};
        const PoolOp op = op_of(counted);
        pool->run({&op, 1});
        if (pool->threads() == 2) {
            EXPECT_EQ(this_thread_cpus().size(), 1U);
        }
    }
    EXPECT_EQ(this_thread_cpus(), before);
    const auto alone = Pool::create(1);
    alone->run({});
    EXPECT_EQ(this_thread_cpus(), before);
}

}  // namespace
}  // namespace nib::cpu
