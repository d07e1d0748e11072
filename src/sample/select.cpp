// SPDX-License-Identifier: MIT
// The ranges of by_ranges() are linear in the key, from the best key down to the worst or to
// kDeepest below the best, where weights no longer count; the last range takes all the rest. A
// range that holds most of the column only makes the quickselect longer.
#include "src/sample/select.h"

#include "ggml-like/result.h"
#include "src/sample/lanes.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace nib {
namespace {

constexpr size_t kSmall = 2048;     // columns up to this are selected from as they are
constexpr size_t kFirst = 64;       // a usual prefix is shorter
constexpr size_t kFirstMax = 1024;  // a count up to this is found by a rising bar
constexpr uint32_t kRanges = 2048;
constexpr size_t kCopies = 2;
constexpr double kDeepest = 32;  // e^-32 times any vocabulary is nothing
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kStretch = 1024;  // keys whose ranges are computed at once

uint64_t pack(float key, size_t place) {
    const auto bits = std::bit_cast<uint32_t>(key + 0.0f);  // -0 and 0 are the same key
    const uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return uint64_t{~ascending} << 32 | static_cast<uint32_t>(place);
}

size_t place_of(uint64_t packed) {
    return static_cast<uint32_t>(packed);
}

double weight_at(std::span<const float> weights, size_t place) {
    return weights.empty() ? 0.0 : static_cast<double>(weights[place]);
}

}  // namespace

std::optional<Cut> Selector::find(std::span<const float> keys,
                                  std::span<const float> weights,
                                  Goal goal) {
    if (goal.count > keys.size()) return std::nullopt;
    if (std::isinf(goal.mass)) {
        weights = {};
    } else {
        NIB_ASSERT(weights.size() == keys.size());
    }
    goal.count = std::max<size_t>(goal.count, 1);
    if (keys.size() <= kSmall) {
        packed_.resize(keys.size());
        for (size_t i = 0; i < keys.size(); ++i)
            packed_[i] = pack(keys[i], i);
        return within(keys, weights, goal, 0, 0);
    }
    // No weight is above one, so a larger mass needs more places than that.
    const size_t first = std::max(goal.count, kFirst);
    if (first <= kFirstMax && goal.mass <= static_cast<double>(first)) {
        gather_best(keys, first);
        const std::optional<Cut> cut = within(keys, weights, goal, 0, 0);
        if (cut) return cut;
    }
    return by_ranges(keys, weights, goal);
}

// Nearly all of a large column costs one comparison for each kLanes of keys.
void Selector::gather_best(std::span<const float> keys, size_t n) {
    packed_.clear();
    const size_t room = 2 * n + 256;
    // Places come in ascending order, so one that only equals the bar always loses the tie.
    float bar = -kInfinity;
    const auto shrink = [&] {
        const auto last = packed_.begin() + static_cast<ptrdiff_t>(n - 1);
        std::nth_element(packed_.begin(), last, packed_.end());
        packed_.resize(n);
        bar =
            std::nextafter(keys[place_of(packed_.back())], std::numeric_limits<float>::infinity());
    };
    for (size_t at = 0; at < keys.size();) {
        const size_t end = std::min(keys.size(), at + kLanes);
        if (end - at == kLanes && !any_at_least(keys.data() + at, bar)) {
            at = end;
            continue;
        }
        for (; at < end; ++at) {
            if (keys[at] >= bar) packed_.push_back(pack(keys[at], at));
        }
        if (packed_.size() >= room) shrink();
    }
    if (packed_.size() > n) shrink();
}

// What the ranges hold. Neighbours go to different copies, so that a crowded range is not one long
// chain of additions.
void Selector::fill_ranges(std::span<const float> keys,
                           std::span<const float> weights,
                           bool counts) {
    const Range range = range_of(keys);
    const auto high = static_cast<double>(range.high);
    const double depth = std::min(high - static_cast<double>(range.low), kDeepest);
    const double per_range = depth > 0 ? (kRanges - 1) / depth : 0;
    if (buckets_.size() < keys.size()) buckets_.resize(keys.size());
    masses_.assign(kCopies * kRanges, 0);
    counts_.assign(kCopies * kRanges, 0);
    double* const mass = masses_.data();
    uint32_t* const count = counts_.data();
    for (size_t at = 0; at < keys.size(); at += kStretch) {
        const size_t n = std::min(kStretch, keys.size() - at);
        uint32_t* const buckets = buckets_.data() + at;
        bucket_of(keys.subspan(at, n), high, per_range, kRanges - 1, buckets);
        if (counts) {
            for (size_t i = 0; i < n; ++i)
                ++count[i % kCopies * kRanges + buckets[i]];
        }
        if (weights.empty()) continue;
        const float* const w = weights.data() + at;
        for (size_t i = 0; i < n; ++i)
            mass[i % kCopies * kRanges + buckets[i]] += static_cast<double>(w[i]);
    }
    for (size_t i = kRanges; i < kCopies * kRanges; ++i) {
        mass[i % kRanges] += mass[i];
        count[i % kRanges] += count[i];
    }
}

// Finds the range in which the goal is reached and gathers its places.
std::optional<Cut> Selector::by_ranges(std::span<const float> keys,
                                       std::span<const float> weights,
                                       Goal goal) {
    // The first range is never empty, so a count of one needs no counting.
    if (goal.count == 1) goal.count = 0;
    fill_ranges(keys, weights, goal.count > 0);
    double mass = 0;
    size_t count = 0;
    uint32_t bucket = 0;
    while (bucket < kRanges && !goal.reached(mass + masses_[bucket], count + counts_[bucket])) {
        mass += masses_[bucket];
        count += counts_[bucket];
        ++bucket;
    }
    if (bucket == kRanges) return std::nullopt;
    packed_.clear();
    bool same = true;
    for (size_t i = 0; i < keys.size(); ++i) {
        if (buckets_.data()[i] != bucket) continue;
        packed_.push_back(pack(keys[i], i));
        same = same && (packed_.back() ^ packed_.front()) >> 32 == 0;
    }
    // Equal keys are in order already.
    const std::optional<Cut> cut =
        same ? walk(keys, weights, goal, mass, count) : within(keys, weights, goal, mass, count);
    if (cut) return cut;
    // The sum in another order fell short by a rounding: it is the last of this range.
    const size_t place = place_of(*std::max_element(packed_.begin(), packed_.end()));
    return Cut{keys[place], static_cast<uint32_t>(place)};
}

// The goal within packed_, which is in order.
std::optional<Cut> Selector::walk(std::span<const float> keys,
                                  std::span<const float> weights,
                                  Goal goal,
                                  double mass,
                                  size_t count) {
    for (const Packed packed : packed_) {
        const size_t place = place_of(packed);
        mass += weight_at(weights, place);
        if (goal.reached(mass, ++count)) return Cut{keys[place], static_cast<uint32_t>(place)};
    }
    return std::nullopt;
}

// The goal within packed_, in any order, after places with `count` and `mass` that do not reach it.
std::optional<Cut> Selector::within(std::span<const float> keys,
                                    std::span<const float> weights,
                                    Goal goal,
                                    double mass,
                                    size_t count) {
    size_t begin = 0, end = packed_.size();
    bool found = false;  // whether [0, end) reaches the goal
    while (begin < end) {
        const size_t middle = begin + (end - begin - 1) / 2;
        const auto from = packed_.begin();
        std::nth_element(from + static_cast<ptrdiff_t>(begin),
                         from + static_cast<ptrdiff_t>(middle), from + static_cast<ptrdiff_t>(end));
        double sum = mass;
        for (size_t i = begin; i <= middle; ++i)
            sum += weight_at(weights, place_of(packed_[i]));
        if (goal.reached(sum, count + middle + 1 - begin)) {
            end = middle;
            found = true;
        } else {
            mass = sum;
            count += middle + 1 - begin;
            begin = middle + 1;
        }
    }
    if (!found) return std::nullopt;
    const size_t place = place_of(packed_[end]);
    return Cut{keys[place], static_cast<uint32_t>(place)};
}

}  // namespace nib
