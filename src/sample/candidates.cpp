// SPDX-License-Identifier: MIT
// Passes over the columns. Dropping candidates moves the others together, in place.
#include "src/sample/candidates.h"

#include <cmath>
#include <limits>
#include <numeric>

namespace nib {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The least float that is not below `bar`: comparing floats with it is comparing them with `bar`.
float at_least(double bar) {
    if (bar <= -static_cast<double>(kLargest)) return -kLargest;
    if (bar > static_cast<double>(kLargest)) return kInfinity;
    const auto rounded = static_cast<float>(bar);
    return static_cast<double>(rounded) >= bar ? rounded : std::nextafter(rounded, kInfinity);
}

template <class T>
void grow(std::vector<T>& column, size_t n) {
    if (column.size() < n) column.resize(n);
}

}  // namespace

LogitScan CandidateSet::assign(std::span<const float> logits) {
    grow(logits_, logits.size());
    n_ = logits.size();
    whole_ = true;
    const LogitScan found = scan(logits, logits_.data());
    top_ = found.top;
    touch();
    return found;
}

void CandidateSet::assign_one(Token id, float logit) {
    grow(ids_, 1);
    grow(logits_, 1);
    n_ = 1;
    ids_[0] = id;
    logits_[0] = logit;
    whole_ = false;
    top_ = logit;
    touch();
}

bool CandidateSet::drop_banned() {
    if (top() < -kLargest) return false;
    keep_between(logits(), size(), {-kLargest, kLargest}, {});
    return true;
}

float CandidateSet::top() {
    if (!top_) top_ = range_of(logits()).high;
    return *top_;
}

std::span<const float> CandidateSet::weights() {
    if (!total_) {
        grow(weights_, n_);
        total_ = weigh(logits(), top(), {weights_.data(), n_});
    }
    return {weights_.data(), n_};
}

double CandidateSet::total() {
    weights();
    return *total_;
}

double CandidateSet::entropy() {
    // The sum of p * -log p, with log p = logit - top - log total.
    return std::log(total()) + weighted_depth(logits(), weights(), top()) / total();
}

size_t CandidateSet::place_of(Token id, size_t from) const {
    if (whole_) return static_cast<size_t>(id);
    const auto end = ids_.begin() + static_cast<ptrdiff_t>(n_);
    const auto found = std::lower_bound(ids_.begin() + static_cast<ptrdiff_t>(from), end, id);
    return found != end && *found == id ? static_cast<size_t>(found - ids_.begin()) : kNowhere;
}

// Keeps the top if one changed logit leaves it known.
void CandidateSet::changed(float before, float after) {
    touch();
    if (!top_) return;
    if (after >= *top_) {
        top_ = after;
    } else if (before == *top_) {
        top_.reset();
    }
}

void CandidateSet::scale(double factor) {
    if (top_) nib::scale({&*top_, 1}, factor);
    nib::scale({logits_.data(), n_}, factor);
    touch();
}

// Moves the places of [from, to) with keys in [low, high] to `kept` and behind, and returns where
// they end. There are no branches on single keys: they would be mispredicted.
size_t CandidateSet::gather(const float* keys, Span places, Bars bars, size_t kept) {
    Token* const ids = ids_.data();
    float* const logits = logits_.data();
    for (size_t at = places.from; at < places.to;) {
        const size_t end = std::min(places.to, at + kLanes);
        if (end - at == kLanes && !any_at_least(keys + at, bars.low)) {
            at = end;
            continue;
        }
        for (; at < end; ++at) {
            // Both reads come before the writes, so that nothing waits for a write.
            const float key = keys[at], logit = logits[at];
            ids[kept] = whole_ ? static_cast<Token>(at) : ids[at];
            logits[kept] = logit;
            kept += static_cast<size_t>(key >= bars.low) & static_cast<size_t>(key <= bars.high);
        }
    }
    return kept;
}

// Keeps the places before `split` with keys in one interval, and the others with keys in another.
void CandidateSet::keep_between(std::span<const float> keys,
                                size_t split,
                                Bars before,
                                Bars after) {
    const size_t n = size();
    grow(ids_, n);
    // Moved logits may be the keys themselves; they only move to places that are behind `at`.
    size_t kept = gather(keys.data(), {0, split}, before, 0);
    kept = gather(keys.data(), {split, n}, after, kept);
    n_ = kept;
    whole_ = false;
    touch();
}

void CandidateSet::keep_until(std::span<const float> keys, const std::optional<Cut>& cut) {
    if (!cut) return;
    // Equal keys belong to the prefix up to the place of the cut and not beyond it.
    const float above = std::nextafter(cut->key, kInfinity);
    keep_between(keys, cut->place + size_t{1}, {cut->key, kLargest}, {above, kLargest});
}

void CandidateSet::keep_top(size_t n) {
    if (n >= size()) return;
    keep_until(logits(), selector_.find(logits(), {}, {.count = n}));
}

void CandidateSet::keep_nucleus(double share, size_t count) {
    const double mass = share * total();
    keep_until(logits(), selector_.find(logits(), weights(), {mass, count}));
}

void CandidateSet::keep_nearest(double center, double share, size_t count) {
    const double mass = share * total();
    grow(keys_, n_);
    const std::span<float> keys(keys_.data(), n_);
    nearness(logits(), center, keys);
    keep_until(keys, selector_.find(keys, weights(), {mass, count}));
    top_.reset();  // the best may be far from the center
}

void CandidateSet::keep_at_least(double bar, size_t min_keep) {
    const float lowest = std::min(at_least(bar), top());
    if (min_keep > 1 && count_at_least(logits(), lowest) < min_keep) {
        keep_top(min_keep);
        return;
    }
    keep_between(logits(), size(), {lowest, kLargest}, {});
}

void CandidateSet::drop_top(size_t n) {
    if (n == 0) return;
    const std::optional<Cut> cut = selector_.find(logits(), {}, {.count = n});
    if (!cut) return;
    const float below = std::nextafter(cut->key, -kInfinity);
    keep_between(logits(), cut->place + size_t{1}, {-kLargest, below}, {-kLargest, cut->key});
    top_.reset();
}

Token CandidateSet::draw(double u) {
    // "More than" is "at least the next number".
    const double mass = std::nextafter(u * total(), std::numeric_limits<double>::infinity());
    const std::optional<Cut> cut = selector_.find(logits(), weights(), {.mass = mass});
    if (cut && weights_[cut->place] > 0) return id_at(cut->place);
    // Rounding left a sliver at the end: the last one that can be chosen.
    size_t last = kNowhere;
    for (size_t i = 0; i < size(); ++i) {
        if (!(weights_[i] > 0)) continue;
        if (last == kNowhere || logits_[i] <= logits_[last]) last = i;
    }
    return id_at(last);
}

std::span<const Candidate> CandidateSet::best_first() {
    if (!sorted_.empty()) return sorted_;
    const double sum = total();
    sorted_.clear();
    for (size_t i = 0; i < size(); ++i) {
        const auto p = static_cast<float>(static_cast<double>(weights_[i]) / sum);
        sorted_.push_back({id_at(i), logits_[i], p});
    }
    std::sort(sorted_.begin(), sorted_.end(), [](const Candidate& a, const Candidate& b) {
        return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
    });
    return sorted_;
}

}  // namespace nib
