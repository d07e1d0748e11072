// SPDX-License-Identifier: MIT
// The pool at work. Whoever finishes the last grain of an op runs the small ops that follow and
// opens the next generation: new range words, then the epoch, then a wake-up if anybody sleeps. An
// op is read only between a successful claim and the report of its grains; during that time it
// cannot end, so ops_ and base_ need no lock.
#include "backends/cpu/pool.h"

#include "backends/cpu/cpu_info.h"
#include "ggml-like/result.h"

#include <algorithm>

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace nib::cpu {
namespace {

// About 50 us: the gap between two ops is far shorter, the gap between two tokens mostly too.
constexpr int kSpinPauses = 2000;
constexpr size_t kStackBytes = size_t(2) << 20;
constexpr uint32_t kMostGrains = 65535;

void pause_cpu() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
}

// Units of one grain: 1, except where the claim word cannot count the units.
uint32_t grain_units(const PoolOp& op) {
    return uint32_t(op.units - 1) / kMostGrains + 1;
}
uint32_t grain_count(const PoolOp& op) {
    return uint32_t(op.units - 1) / grain_units(op) + 1;
}

// The part of `count` at which the home range of a thread starts.
uint32_t home(uint32_t count, int thread, int threads) {
    return uint32_t(uint64_t(count) * uint32_t(thread) / uint32_t(threads));
}

int unit_of(const PoolOp& op, uint32_t grain) {
    return int(std::min<int64_t>(op.units, int64_t(grain) * grain_units(op)));
}

int system_thread_id() {
    return int(syscall(SYS_gettid));
}

}  // namespace

struct Pool::Worker {
    Pool* pool = nullptr;
    int index = 0;
    pthread_t handle{};

    static void* main(void* self) {
        auto* worker = static_cast<Worker*>(self);
        // The pool counts its threads only when all have started; a generation opens after that.
        worker->pool->sleep(0);
        worker->pool->work(worker->index, false, 0);
        return nullptr;
    }
};

std::unique_ptr<Pool> Pool::create(int threads) {
    return std::unique_ptr<Pool>(new Pool(std::clamp(threads, 1, kMostThreads)));
}

Pool::Pool(int threads)
    : cpus_(cpus_by_core("", process_cpus())), ranges_(size_t(threads)), readers_(size_t(threads)) {
    start_workers(threads);
    // More threads than CPUs: who spins only takes time from who works.
    spin_ = n_ <= int(cpus_.size()) ? kSpinPauses : 0;
}

Pool::~Pool() {
    stop_.store(true, std::memory_order_seq_cst);
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    wake();
    for (const auto& worker : workers_)
        pthread_join(worker->handle, nullptr);
    if (caller_ == system_thread_id()) bind_thread(pthread_self(), caller_cpus_);
}

void Pool::start_workers(int threads) {
    pthread_attr_t attributes;
    if (threads == 1 || pthread_attr_init(&attributes) != 0) return;
    pthread_attr_setstacksize(&attributes, kStackBytes);
    for (int t = 1; t < threads; t++) {
        auto worker = std::make_unique<Worker>();
        worker->pool = this;
        worker->index = t;
        if (pthread_create(&worker->handle, &attributes, Worker::main, worker.get()) != 0) break;
        workers_.push_back(std::move(worker));
    }
    pthread_attr_destroy(&attributes);
    n_ = 1 + int(workers_.size());
    for (const auto& worker : workers_) {
        const int cpu = cpus_[size_t(worker->index) % cpus_.size()];
        bind_thread(worker->handle, {&cpu, 1});
    }
}

// Binds the calling thread as thread 0, once for each new caller.
void Pool::bind_caller() {
    if (n_ == 1) return;
    const int id = system_thread_id();
    if (id == caller_) return;
    caller_cpus_ = this_thread_cpus();
    bind_thread(pthread_self(), {cpus_.data(), 1});
    caller_ = id;
}

void Pool::run(std::span<const PoolOp> ops) {
    NIB_ASSERT(!running_.exchange(true, std::memory_order_acquire));
    bind_caller();
    ops_ = ops;
    base_ = epoch_.load(std::memory_order_relaxed) + 1;
    const uint32_t last = base_ + uint32_t(ops.size());
    open(0, 0);
    work(0, true, last);
    // A worker that saw an earlier epoch may still be prefetching; contexts may die when we return.
    for (const Reader& reader : readers_) {
        while (reader.reading.load(std::memory_order_seq_cst) != 0)
            sched_yield();
    }
    ops_ = {};
    running_.store(false, std::memory_order_release);
}

// The first op from `index` on whose units are shared out.
uint32_t Pool::next_shared(uint32_t index) const {
    while (index < ops_.size() && (ops_[index].units <= 0 || ops_[index].alone))
        index++;
    return index;
}

// Opens op `index` of the run, or the first one after it that has units to share, or the end of the
// run; those before it are run here.
void Pool::open(uint32_t index, int thread) {
    for (const uint32_t shared = next_shared(index); index < shared; index++) {
        const PoolOp& op = ops_[index];
        if (op.units > 0) op.run(op.context, 0, op.units, thread);
    }
    const bool end = index == ops_.size();
    const uint32_t generation = base_ + index;
    const uint32_t grains = end ? 0 : grain_count(ops_[index]);
    const uint32_t grain = end ? 1 : grain_units(ops_[index]);
    const uint32_t most = end ? 1 : uint32_t(std::max(ops_[index].most, 1)) / grain;
    done_.store(0, std::memory_order_relaxed);
    most_.store(std::max(most, 1U), std::memory_order_relaxed);
    for (int t = 0; t < n_; t++) {
        const uint64_t first = home(grains, t, n_);
        const uint64_t stop = home(grains, t + 1, n_);
        ranges_[size_t(t)].word.store(uint64_t(generation) << 32 | first << 16 | stop,
                                      std::memory_order_release);
    }
    epoch_.store(generation, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) wake();
}

// Takes up to half of what is left of a range: from the front of the own one, from the tail of
// another.
Pool::Grains Pool::claim(uint32_t generation, int owner, bool front) {
    std::atomic<uint64_t>& word = ranges_[size_t(owner)].word;
    uint64_t w = word.load(std::memory_order_acquire);
    for (;;) {
        const uint32_t next = uint32_t(w >> 16) & 0xffff;
        const uint32_t end = uint32_t(w) & 0xffff;
        if (uint32_t(w >> 32) != generation || next >= end) return {};
        const uint32_t half = n_ == 1 ? end - next : (end - next + 1) / 2;
        const uint32_t take = std::min(half, most_.load(std::memory_order_relaxed));
        const uint64_t to = front ? w + (uint64_t(take) << 16) : w - take;
        if (word.compare_exchange_weak(w, to, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
            return front ? Grains{next, next + take} : Grains{end - take, end};
        }
    }
}

Pool::Grains Pool::claim_any(uint32_t generation, int thread) {
    Grains grains = claim(generation, thread, true);
    for (int i = 1; grains.empty() && i < n_; i++) {
        grains = claim(generation, (thread + i) % n_, false);
    }
    return grains;
}

// Runs claimed grains, reports them, and opens the next op if they were the last ones.
Pool::Next Pool::execute(uint32_t generation, Grains grains, int thread) {
    const uint32_t index = generation - base_;
    const PoolOp& op = ops_[index];
    Next next;
    if (const uint32_t shared = next_shared(index + 1); shared < ops_.size()) {
        const PoolOp& after = ops_[shared];
        next = {after.ahead, after.context, unit_of(after, home(grain_count(after), thread, n_))};
    }
    const uint32_t all = grain_count(op);
    const uint32_t count = grains.end - grains.first;
    op.run(op.context, unit_of(op, grains.first), unit_of(op, grains.end), thread);
    if (done_.fetch_add(count, std::memory_order_acq_rel) + count == all) open(index + 1, thread);
    return next;
}

// The loop of every thread: until the generation `last` opens for the caller, until the end for a
// worker.
void Pool::work(int thread, bool caller, uint32_t last) {
    Next next;
    uint32_t next_of = 0;  // the generation that `next` follows
    while (caller || !stop_.load(std::memory_order_acquire)) {
        const uint32_t generation = epoch_.load(std::memory_order_seq_cst);
        if (caller && generation == last) return;
        const Grains grains = claim_any(generation, thread);
        if (grains.empty()) {
            wait(generation, thread, next_of == generation ? next : Next{});
            next = {};
        } else {
            next = execute(generation, grains, thread);
            next_of = generation;
        }
    }
}

// Waits until another generation than the given one is open.
void Pool::wait(uint32_t generation, int thread, const Next& next) {
    if (next.ahead != nullptr) prefetch(generation, thread, next);
    for (int i = 0; i < spin_; i++) {
        if (epoch_.load(std::memory_order_acquire) != generation) return;
        pause_cpu();
    }
    sleep(generation);
}

// While `reading` is set and the generation was open after it was set, run() cannot return: it
// looks at `reading` after the epoch moved on. Both orders are sequentially consistent on each
// side.
void Pool::prefetch(uint32_t generation, int thread, const Next& next) {
    std::atomic<uint32_t>& reading = readers_[size_t(thread)].reading;
    reading.store(1, std::memory_order_seq_cst);
    for (int part = 0; part < kAheadParts; part++) {
        if (epoch_.load(std::memory_order_seq_cst) != generation) break;
        next.ahead(next.context, next.first, part);
    }
    reading.store(0, std::memory_order_release);
}

void Pool::sleep(uint32_t generation) {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    while (epoch_.load(std::memory_order_seq_cst) == generation) {
        syscall(SYS_futex, &epoch_, FUTEX_WAIT_PRIVATE, generation, nullptr, nullptr, 0);
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void Pool::wake() {
    syscall(SYS_futex, &epoch_, FUTEX_WAKE_PRIVATE, 1 << 30, nullptr, nullptr, 0);
}

}  // namespace nib::cpu
