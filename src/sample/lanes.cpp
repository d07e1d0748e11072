// SPDX-License-Identifier: MIT
// Each loop has a body of whole vectors and a tail of single values. The vectors are the compiler's
// own (four floats, whatever the machine has), because it does not find them by itself in loops
// with maxima, masks or casts.
#include "src/sample/lanes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace nib {
namespace {

using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));
using Words = uint32_t __attribute__((vector_size(16)));
using Doubles = double __attribute__((vector_size(32)));

constexpr size_t kWidth = 4;
constexpr size_t kUnroll = 4;  // independent accumulators hide the latency of additions
constexpr size_t kBlock = kWidth * kUnroll;
constexpr float kBanned = -std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kDeepest = -87.0f;  // e^-87 is still a normal float

inline Floats load(const float* from) {
    Floats v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

inline void store(float* to, const Floats& v) {
    std::memcpy(to, &v, sizeof v);
}

inline Floats all(float x) {
    return Floats{x, x, x, x};
}

inline Doubles wide(const Floats& v) {
    return __builtin_convertvector(v, Doubles);
}

inline double sum_of(const Doubles* lanes, size_t n) {
    Doubles sum = lanes[0];
    for (size_t i = 1; i < n; ++i)
        sum += lanes[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// e^x for x <= 0. With n = round(x / ln 2), e^x = 2^n * e^(x - n ln 2), and a polynomial (minimax,
// 1.05e-7) is enough for the second factor. Adding 1.5 * 2^23 + 127 rounds to an integer and leaves
// n + 127 in the low bits, from where a shift makes it the exponent of 2^n.
inline Floats exp_below_zero(Floats x) {
    constexpr float kRound = 12583039.0f;
    constexpr float kPerLn2 = 1.44269504f;
    constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
    const Floats shifted = x * kPerLn2 + kRound;
    const Floats n = shifted - kRound;
    const Floats r = (x - n * kLn2High) - n * kLn2Low;
    Floats poly = 8.3125013e-3f * r + 4.1890332e-2f;
    poly = poly * r + 1.6667115e-1f;
    poly = poly * r + 4.9999230e-1f;
    poly = (poly * (r * r) + r) + 1.0f;
    const Floats e = poly * (Floats)((Words)shifted << 23);
    // Below kDeepest the bits above are noise, perhaps a NaN: none of them passes the mask.
    return (Floats)((Words)e & (Words)(x >= kDeepest));
}

}  // namespace

bool any_at_least(const float* block, float bar) {
    Ints any = load(block) >= bar;
    for (size_t i = kWidth; i < kLanes; i += kWidth)
        any |= load(block + i) >= bar;
    return ((any[0] | any[1]) | (any[2] | any[3])) != 0;
}

LogitScan scan(std::span<const float> logits, float* copy) {
    Floats top[kUnroll], low[kUnroll];
    Ints bad[kUnroll];
    for (size_t i = 0; i < kUnroll; ++i) {
        top[i] = all(kBanned);
        low[i] = all(kLargest);
        bad[i] = Ints{0, 0, 0, 0};
    }
    const float* x = logits.data();
    size_t at = 0;
    for (; at + kBlock <= logits.size(); at += kBlock) {
        for (size_t i = 0; i < kUnroll; ++i) {
            const Floats v = load(x + at + i * kWidth);
            if (copy) store(copy + at + i * kWidth, v);
            bad[i] |= ~(v <= kLargest);
            top[i] = v > top[i] ? v : top[i];
            low[i] = v < low[i] ? v : low[i];
        }
    }
    LogitScan result{kBanned, false, false};
    float lowest = kLargest;
    for (; at < logits.size(); ++at) {
        if (copy) copy[at] = x[at];
        result.bad |= !(x[at] <= kLargest);
        result.top = std::max(result.top, x[at]);
        lowest = std::min(lowest, x[at]);
    }
    for (size_t i = 0; i < kUnroll; ++i) {
        for (size_t lane = 0; lane < kWidth; ++lane) {
            result.bad |= bad[i][lane] != 0;
            result.top = std::max(result.top, top[i][lane]);
            lowest = std::min(lowest, low[i][lane]);
        }
    }
    result.banned = lowest == kBanned;
    return result;
}

Range range_of(std::span<const float> values) {
    const float* x = values.data();
    Floats low[kUnroll], high[kUnroll];
    for (size_t i = 0; i < kUnroll; ++i)
        low[i] = high[i] = all(x[0]);
    size_t at = 0;
    for (; at + kBlock <= values.size(); at += kBlock) {
        for (size_t i = 0; i < kUnroll; ++i) {
            const Floats v = load(x + at + i * kWidth);
            high[i] = v > high[i] ? v : high[i];
            low[i] = v < low[i] ? v : low[i];
        }
    }
    Range range{x[0], x[0]};
    for (; at < values.size(); ++at)
        range = {std::min(range.low, x[at]), std::max(range.high, x[at])};
    for (size_t i = 0; i < kUnroll; ++i) {
        for (size_t lane = 0; lane < kWidth; ++lane)
            range = {std::min(range.low, low[i][lane]), std::max(range.high, high[i][lane])};
    }
    return range;
}

size_t find_first_at_least(std::span<const float> values, float bar) {
    size_t at = 0;
    while (at + kLanes <= values.size() && !any_at_least(values.data() + at, bar))
        at += kLanes;
    while (at < values.size() && !(values[at] >= bar))
        ++at;
    return at;
}

size_t count_at_least(std::span<const float> values, float bar) {
    const float* x = values.data();
    Ints counts[kUnroll];
    for (Ints& lanes : counts)
        lanes = Ints{0, 0, 0, 0};
    size_t at = 0;
    for (; at + kBlock <= values.size(); at += kBlock) {
        for (size_t i = 0; i < kUnroll; ++i)
            counts[i] -= load(x + at + i * kWidth) >= bar;  // true is -1
    }
    size_t count = 0;
    for (; at < values.size(); ++at)
        count += x[at] >= bar ? 1 : 0;
    for (const Ints& lanes : counts) {
        for (size_t lane = 0; lane < kWidth; ++lane)
            count += static_cast<size_t>(lanes[lane]);
    }
    return count;
}

double weigh(std::span<const float> logits, float top, std::span<float> weights) {
    const float* x = logits.data();
    float* w = weights.data();
    Doubles sums = {0, 0, 0, 0};
    size_t at = 0;
    for (; at + kBlock <= logits.size(); at += kBlock) {
        Floats e[kUnroll];
        for (size_t i = 0; i < kUnroll; ++i) {
            e[i] = exp_below_zero(load(x + at + i * kWidth) - top);
            store(w + at + i * kWidth, e[i]);
        }
        sums += wide((e[0] + e[1]) + (e[2] + e[3]));
    }
    double sum = 0;
    for (; at < logits.size(); ++at) {
        w[at] = exp_below_zero(all(x[at] - top))[0];
        sum += static_cast<double>(w[at]);
    }
    return sum_of(&sums, 1) + sum;
}

Moments moments_below(std::span<const float> logits, float top) {
    const float* x = logits.data();
    const auto high = static_cast<double>(top);
    Doubles sums[2] = {{0, 0, 0, 0}, {0, 0, 0, 0}}, squares[2] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    size_t at = 0;
    for (; at + 2 * kWidth <= logits.size(); at += 2 * kWidth) {
        for (size_t i = 0; i < 2; ++i) {
            const Doubles d = high - wide(load(x + at + i * kWidth));
            sums[i] += d;
            squares[i] += d * d;
        }
    }
    Moments result{0, 0};
    for (; at < logits.size(); ++at) {
        const double d = high - static_cast<double>(x[at]);
        result.sum += d;
        result.squares += d * d;
    }
    result.sum += sum_of(sums, 2);
    result.squares += sum_of(squares, 2);
    return result;
}

double weighted_depth(std::span<const float> logits, std::span<const float> weights, float top) {
    const float* x = logits.data();
    const float* w = weights.data();
    const auto high = static_cast<double>(top);
    Doubles sums[2] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    size_t at = 0;
    for (; at + 2 * kWidth <= logits.size(); at += 2 * kWidth) {
        for (size_t i = 0; i < 2; ++i) {
            const size_t from = at + i * kWidth;
            sums[i] += wide(load(w + from)) * (high - wide(load(x + from)));
        }
    }
    double sum = 0;
    for (; at < logits.size(); ++at)
        sum += static_cast<double>(w[at]) * (high - static_cast<double>(x[at]));
    return sum_of(sums, 2) + sum;
}

void nearness(std::span<const float> logits, double center, std::span<float> out) {
    const float* x = logits.data();
    float* y = out.data();
    const size_t n = logits.size();
    for (size_t i = 0; i < n; ++i)
        y[i] = static_cast<float>(-std::fabs(static_cast<double>(x[i]) - center));
}

void scale(std::span<float> logits, double factor) {
    float* x = logits.data();
    size_t at = 0;
    // What leaves the range of a float becomes -inf, and then the lowest float.
    for (; at + kWidth <= logits.size(); at += kWidth) {
        const Floats scaled = __builtin_convertvector(wide(load(x + at)) * factor, Floats);
        store(x + at, scaled > -kLargest ? scaled : all(-kLargest));
    }
    for (; at < logits.size(); ++at)
        x[at] = std::max(static_cast<float>(static_cast<double>(x[at]) * factor), -kLargest);
}

void bucket_of(
    std::span<const float> keys, double high, double per_bucket, uint32_t last, uint32_t* out) {
    const float* x = keys.data();
    const size_t n = keys.size();
    for (size_t i = 0; i < n; ++i) {
        const double at = (high - static_cast<double>(x[i])) * per_bucket;
        out[i] = static_cast<uint32_t>(static_cast<int32_t>(at < last ? at : last));
    }
}

}  // namespace nib
