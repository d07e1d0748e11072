// SPDX-License-Identifier: MIT
// Every case is a list of pool ops over pieces of work, repeated; cases with the same number of
// threads take turns, so that a noisy second hits all of them alike. The best repetition is the
// limit, the median is told beside it. Pools of fewer threads than asked for show how much of the
// memory one core can draw.
#include "backends/cpu/roofline.h"

#include "backends/cpu/cpu_info.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/pool.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <sys/mman.h>

namespace nib::cpu {
namespace {

constexpr int kRepetitions = 30, kLeastRepetitions = 5;
constexpr double kSeconds = 1.5;            // of everything, about
constexpr size_t kPiece = size_t(1) << 20;  // of a memory read: one claim
constexpr size_t kAhead = 4096;             // what the kernels fetch ahead
constexpr double kCaseSeconds = 2e-3;       // of one repetition of a case that can be scaled
constexpr int kEmptyOps = 2000;

double seconds_of(Pool& pool, std::span<const PoolOp> ops) {
    const auto start = std::chrono::steady_clock::now();
    pool.run(ops);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One thing to measure: ops that do `work` units of it together.
struct Case {
    std::string name, unit;
    double work = 0;  // a rate is work / seconds; 0: the result is ns for each op
    double* limit = nullptr;
    std::vector<PoolOp> ops;
    std::vector<double> results;
};

struct Reading {
    const Kernels* kernels;
    const uint8_t* data;
    size_t bytes;  // of one unit
    size_t ahead;
    int times;  // each unit is read so often
    static void run(void* context, int first, int end, int) {
        const auto& r = *static_cast<const Reading*>(context);
        int32_t sum = 0;
        for (int u = first; u < end; u++) {
            for (int i = 0; i < r.times; i++)
                sum ^= r.kernels->probe_read(r.data + size_t(u) * r.bytes, r.bytes, r.ahead);
        }
        asm volatile("" ::"r"(sum));
    }
};

struct Multiplying {
    const Kernels* kernels;
    size_t rounds;
    static void run_int8(void* context, int first, int end, int) {
        const auto& m = *static_cast<const Multiplying*>(context);
        for (int u = first; u < end; u++) {
            const int32_t sum = m.kernels->probe_int8(m.rounds);
            asm volatile("" ::"r"(sum));
        }
    }
    static void run_float(void* context, int first, int end, int) {
        const auto& m = *static_cast<const Multiplying*>(context);
        for (int u = first; u < end; u++) {
            const float sum = m.kernels->probe_float(m.rounds);
            asm volatile("" ::"x"(sum));
        }
    }
};

void nothing(void*, int, int, int) {}

// All cases of one number of threads.
class Measuring {
  public:
    Measuring(const Kernels& kernels, int threads, bool limits, Roofline& out)
        : kernels_(kernels), pool_(Pool::create(threads)), limits_(limits), out_(out) {}

    void add_memory(const HugeBuffer& memory, const char* pages) {
        for (const size_t ahead : {size_t(0), kAhead}) {
            const auto units = static_cast<int>(memory.bytes() / kPiece);
            add({.name = std::string("memory read, ") + pages + (ahead ? ", prefetch" : ""),
                 .unit = "GB/s",
                 .work = double(units) * kPiece,
                 .limit = &out_.read_bytes_per_s,
                 .ops = {{.run = Reading::run,
                          .context = keep({&kernels_, memory.data(), kPiece, ahead, 1}),
                          .units = units}}});
        }
    }

    // Every thread has a set of its own that stays in a cache.
    void add_cached(const HugeBuffer& memory, const char* name, size_t bytes) {
        bytes = std::min(bytes, memory.bytes() / static_cast<size_t>(pool_->threads()));
        bytes = bytes / 1024 * 1024;
        if (bytes == 0) return;
        const int times = static_cast<int>(std::max<size_t>(2, (size_t(32) << 20) / bytes));
        add({.name = name,
             .unit = "GB/s",
             .work = double(bytes) * times * pool_->threads(),
             .ops = {
                 each_thread(Reading::run, keep({&kernels_, memory.data(), bytes, 0, times}))}});
    }

    void add_multiplying() {
        int8_ = {&kernels_, rounds_for(Multiplying::run_int8)};
        float_ = {&kernels_, rounds_for(Multiplying::run_float)};
        const double threads = pool_->threads();
        add({.name = "int8 multiply-add",
             .unit = "GMAC/s",
             .work = double(int8_.rounds) * kProbeInt8Macs * threads,
             .limit = &out_.int8_macs_per_s,
             .ops = {each_thread(Multiplying::run_int8, &int8_)}});
        add({.name = "float multiply-add",
             .unit = "GMAC/s",
             .work = double(float_.rounds) * kProbeFloatMacs * threads,
             .limit = &out_.float_macs_per_s,
             .ops = {each_thread(Multiplying::run_float, &float_)}});
    }

    void add_sync() {
        add({.name = "an op without work",
             .unit = "ns",
             .limit = &out_.sync_ns,
             .ops = std::vector<PoolOp>(kEmptyOps, each_thread(nothing, nullptr))});
    }

    // At least kLeastRepetitions, then until the time is over.
    void run(double seconds_most) {
        const auto start = std::chrono::steady_clock::now();
        for (int r = 0; r <= kRepetitions; r++) {
            const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
            if (r > kLeastRepetitions && spent.count() > seconds_most) break;
            for (Case& c : cases_) {
                const double seconds = seconds_of(*pool_, c.ops);
                if (r == 0) continue;  // warms up
                c.results.push_back(c.work > 0 ? c.work / seconds
                                               : seconds * 1e9 / double(c.ops.size()));
            }
        }
        for (Case& c : cases_)
            report(c);
    }

  private:
    PoolOp each_thread(void (*function)(void*, int, int, int), void* context) const {
        return {.run = function, .context = context, .units = pool_->threads(), .most = 1};
    }

    Reading* keep(Reading reading) {
        return readings_.emplace_back(std::make_unique<Reading>(reading)).get();
    }

    // So many rounds that one repetition takes about kCaseSeconds on any level.
    size_t rounds_for(void (*function)(void*, int, int, int)) {
        Multiplying m{&kernels_, 64};
        for (;;) {
            const PoolOp op = each_thread(function, &m);
            const double seconds = seconds_of(*pool_, {&op, 1});
            if (seconds >= kCaseSeconds || m.rounds > (size_t(1) << 40)) return m.rounds;
            m.rounds *= 2;
        }
    }

    void add(Case c) { cases_.push_back(std::move(c)); }

    void report(Case& c) {
        std::sort(c.results.begin(), c.results.end());
        const double best = c.work > 0 ? c.results.back() : c.results.front();
        const double scale = c.work > 0 ? 1e-9 : 1;
        const int n = pool_->threads();
        out_.rows.push_back({c.name + ", " + std::to_string(n) + (n == 1 ? " thread" : " threads"),
                             c.unit, best * scale, c.results[c.results.size() / 2] * scale});
        if (limits_ && c.limit) *c.limit = std::max(*c.limit, best);
    }

    const Kernels& kernels_;
    std::unique_ptr<Pool> pool_;
    const bool limits_;  // whether these numbers are limits: all threads
    Roofline& out_;
    std::vector<Case> cases_;
    std::vector<std::unique_ptr<Reading>> readings_;
    Multiplying int8_{}, float_{};
};

// Filled, so that every page is real.
Result<HugeBuffer> filled(size_t bytes, bool huge) {
    NIB_ASSIGN(HugeBuffer memory, HugeBuffer::create(bytes));
    if (!huge) madvise(memory.data(), bytes, MADV_NOHUGEPAGE);
    std::memset(memory.data(), 1, bytes);
    return memory;
}

}  // namespace

Result<Roofline> measure_roofline(const Kernels& kernels, int threads) {
    const CpuInfo info = read_cpu_info();
    const size_t l3 = info.l3_bytes ? info.l3_bytes : size_t(32) << 20;
    const size_t l2 = info.l2_bytes ? info.l2_bytes : size_t(512) << 10;
    // Four times the last cache, but never much of what is free.
    size_t bytes = std::clamp<size_t>(4 * l3, size_t(128) << 20, size_t(1) << 30);
    if (info.memory_available) bytes = std::min<size_t>(bytes, info.memory_available / 8);
    bytes = std::max(bytes / kPiece * kPiece, kPiece);
    NIB_ASSIGN(const HugeBuffer plain, filled(bytes, false));
    NIB_ASSIGN(const HugeBuffer huge, filled(bytes, true));
    Roofline out;
    std::vector<int> counts;
    for (int n = 1; n < threads; n *= 2)
        counts.push_back(n);
    counts.push_back(threads);
    for (const int n : counts) {
        Measuring m(kernels, n, n == threads, out);
        m.add_memory(plain, "plain pages");
        m.add_memory(huge, "huge pages");
        m.add_cached(huge, "L3 read", l3 / 2 / static_cast<size_t>(n));
        m.add_cached(huge, "L2 read", l2 / 2);
        m.add_multiplying();
        m.add_sync();
        m.run(kSeconds / double(counts.size()));
    }
    return out;
}

}  // namespace nib::cpu
