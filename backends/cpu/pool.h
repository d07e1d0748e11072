// SPDX-License-Identifier: MIT
// The thread pool of the CPU backend. A run is a list of ops, each a number of equal units; ops end
// in order, the units of one op run anywhere and in any order. Ops end by counting finished units,
// not by counting threads: a thread that holds no units delays nobody, and the caller can finish a
// whole run alone. Every thread has a home range of each op (the same rows on the same core in
// every run) and takes half of what is left of it at a time, then steals from the tail of the
// others.
//
// A waiting thread prefetches the start of its next home range, spins shortly and then sleeps on a
// futex; between runs all workers sleep. With two threads or more every thread is bound to one
// allowed CPU, different cores first: else all of them may stay on one core while another process
// has the other.
//
// Always true: every unit of every op runs exactly once, and what an op wrote is visible to the
// next one and to the caller. After run() returned no thread looks at the ops or their contexts any
// more.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace nib::cpu {

// One step of a run. The caller owns the contexts; they live until run() returns.
struct PoolOp {
    void (*run)(void* context, int first, int end, int thread) = nullptr;  // units first .. end
    void* context = nullptr;
    int units = 0;     // 0: the op is skipped
    int most = 65535;  // units of one claim; above 65535 units, claims are rounded to whole grains
    // Optional: prefetches part 0 .. kAheadParts of the range that starts at unit `first`. It only
    // reads what no op writes, since it runs while earlier ops do.
    void (*ahead)(void* context, int first, int part) = nullptr;
    // So little work that it costs less than telling the others: whoever opens the op runs all its
    // units at once.
    bool alone = false;
};
inline constexpr int kAheadParts = 32;

class Pool {
  public:
    static constexpr int kMostThreads = 512;

    // A pool of up to `threads` threads, the caller of run() included. Where the system refuses a
    // thread, the pool is smaller. Never null.
    static std::unique_ptr<Pool> create(int threads);
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    int threads() const { return n_; }

    // Runs all ops in order; the calling thread is thread 0. One run at a time; different threads
    // may call in turn. The calling thread stays bound to its CPU until the pool dies or another
    // thread calls.
    void run(std::span<const PoolOp> ops);

  private:
    // The claim word of one home range: generation:32 | next:16 | end:16, in grains. A generation
    // is one op of one run. A claim is a compare-exchange on the whole word, so that a late thread
    // fails harmlessly and nothing is ever reset.
    struct alignas(64) Range {
        std::atomic<uint64_t> word{0};
    };
    // 1 while the thread is inside an op's `ahead`.
    struct alignas(64) Reader {
        std::atomic<uint32_t> reading{0};
    };
    struct Grains {
        uint32_t first = 0, end = 0;
        bool empty() const { return first == end; }
    };
    // The `ahead` of the op that follows; copied while its predecessor cannot end.
    struct Next {
        void (*ahead)(void*, int, int) = nullptr;
        void* context = nullptr;
        int first = 0;
    };
    struct Worker;

    explicit Pool(int threads);
    void start_workers(int threads);
    void bind_caller();
    void open(uint32_t index, int thread);
    uint32_t next_shared(uint32_t index) const;
    Grains claim(uint32_t generation, int owner, bool front);
    Grains claim_any(uint32_t generation, int thread);
    Next execute(uint32_t generation, Grains grains, int thread);
    void work(int thread, bool caller, uint32_t last);
    void wait(uint32_t generation, int thread, const Next& next);
    void prefetch(uint32_t generation, int thread, const Next& next);
    void sleep(uint32_t generation);
    void wake();

    int n_ = 1;     // fixed before the first run; workers read it after the first generation opened
    int spin_ = 0;  // pauses before a waiting thread sleeps
    std::vector<int> cpus_;  // allowed CPUs, one of every core first
    std::vector<Range> ranges_;
    std::vector<Reader> readers_;
    std::vector<std::unique_ptr<Worker>> workers_;
    int caller_ = 0;                // system id of the thread that is bound as thread 0
    std::vector<int> caller_cpus_;  // what it was allowed before

    std::span<const PoolOp> ops_;  // of the current run: read only by who holds a claim of it
    uint32_t base_ = 0;            // generation of ops_[0]
    std::atomic<bool> running_{false};
    std::atomic<bool> stop_{false};
    alignas(64) std::atomic<uint32_t> epoch_{0};  // the generation that is open
    alignas(64) std::atomic<uint32_t> sleepers_{0};
    alignas(64) std::atomic<uint32_t> done_{0};  // finished grains of the open generation
    alignas(64) std::atomic<uint32_t> most_{1};  // grains of one claim
};

}  // namespace nib::cpu
