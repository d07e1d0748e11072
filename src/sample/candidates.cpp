// SPDX-License-Identifier: MIT
// Selection and partial sorting of candidates. The one trick: the best n of a dense set are found
// with a rising bar in one pass, so nearly all of a large vocabulary costs one comparison per
// token.
#include "src/sample/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nib {

namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
// Loops over a vocabulary work on lanes that the compiler turns into vectors; a plain running
// maximum stays scalar without -ffast-math (4x slower).
constexpr size_t kLanes = 16;

bool any_above(const float* block, float bar) {
    int any = 0;
    for (size_t i = 0; i < kLanes; ++i)
        any |= block[i] > bar ? 1 : 0;
    return any != 0;
}

}  // namespace

LogitScan scan(std::span<const float> logits) {
    float top[kLanes];
    int bad[kLanes] = {};
    std::fill(top, top + kLanes, kBanned);
    size_t at = 0;
    for (; at + kLanes <= logits.size(); at += kLanes) {
        for (size_t i = 0; i < kLanes; ++i) {
            const float x = logits.data()[at + i];
            bad[i] |= x <= kLargest ? 0 : 1;
            top[i] = x > top[i] ? x : top[i];
        }
    }
    LogitScan result{kBanned, false};
    for (; at < logits.size(); ++at) {
        result.bad |= !(logits[at] <= kLargest);
        result.top = std::max(result.top, logits[at]);
    }
    for (size_t i = 0; i < kLanes; ++i) {
        result.bad |= bad[i] != 0;
        result.top = std::max(result.top, top[i]);
    }
    return result;
}

void CandidateSet::assign(std::span<const float> logits) {
    logits_.assign(logits.begin(), logits.end());
    items_.clear();
    dense_ = true;
    sorted_ = 0;
}

void CandidateSet::list_all() {
    items_.clear();
    for (size_t id = 0; id < logits_.size(); ++id) {
        if (logits_[id] > kBanned) items_.push_back({static_cast<Token>(id), logits_[id], 0});
    }
    dense_ = false;
    sorted_ = 0;
}

std::span<const Candidate> CandidateSet::items() {
    if (dense_) list_all();
    return items_;
}

Candidate CandidateSet::best() {
    if (sorted_ > 0) return items_.front();
    if (!dense_) return *std::min_element(items_.begin(), items_.end(), better);
    // The first of equals has the lowest id.
    const auto top = std::find(logits_.begin(), logits_.end(), scan(logits_).top);
    return {static_cast<Token>(top - logits_.begin()), *top, 1};
}

std::span<const Candidate> CandidateSet::sort_prefix(size_t n) {
    items();
    n = std::min(n, items_.size());
    if (n > sorted_) {
        const auto begin = items_.begin() + static_cast<ptrdiff_t>(sorted_);
        const auto end = items_.begin() + static_cast<ptrdiff_t>(n);
        if (end != items_.end()) std::nth_element(begin, end, items_.end(), better);
        std::sort(begin, end, better);
        sorted_ = n;
    }
    return items_;
}

void CandidateSet::keep_top_of_dense(size_t n) {
    items_.clear();
    const size_t room = 2 * n + 256;
    // Ids come in ascending order, so one that only equals the bar always loses the tie.
    float bar = kBanned;
    for (size_t id = 0; id < logits_.size();) {
        if (id % kLanes == 0 && id + kLanes <= logits_.size() &&
            !any_above(logits_.data() + id, bar)) {
            id += kLanes;
            continue;
        }
        const size_t end = std::min(logits_.size(), id + kLanes);
        for (; id < end; ++id) {
            if (logits_[id] > bar) items_.push_back({static_cast<Token>(id), logits_[id], 0});
        }
        if (items_.size() < room) continue;
        std::nth_element(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(n - 1),
                         items_.end(), better);
        items_.resize(n);
        bar = items_.back().logit;
    }
    dense_ = false;
    sorted_ = 0;
}

void CandidateSet::keep_top(size_t n) {
    n = std::max<size_t>(n, 1);
    if (dense_ && n == 1) {
        items_.assign(1, best());
        dense_ = false;
        sorted_ = 1;
        return;
    }
    if (dense_ && n < logits_.size() / 8) keep_top_of_dense(n);
    sort_prefix(n);
    keep_prefix(n);
}

void CandidateSet::keep_prefix(size_t n) {
    items_.resize(std::min(n, items_.size()));
    sorted_ = std::min(sorted_, items_.size());
}

void CandidateSet::drop_prefix(size_t n) {
    items_.erase(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(n));
    sorted_ -= n;
}

void CandidateSet::keep_at_least(double bar, size_t min_keep) {
    items();
    const auto passes = [bar](const Candidate& item) { return double{item.logit} >= bar; };
    const auto count = static_cast<size_t>(std::count_if(items_.begin(), items_.end(), passes));
    if (count < std::max<size_t>(min_keep, 1)) {
        keep_top(min_keep);
        return;
    }
    // remove_if keeps the order of what stays, so a sorted prefix stays sorted.
    items_.erase(std::remove_if(items_.begin(), items_.end(),
                                [&](const Candidate& item) { return !passes(item); }),
                 items_.end());
    sorted_ = std::min(sorted_, items_.size());
}

void CandidateSet::keep_indices(std::span<uint32_t> indices) {
    std::sort(indices.begin(), indices.end());
    size_t sorted = 0;
    for (size_t i = 0; i < indices.size(); ++i) {
        sorted += indices[i] < sorted_ ? 1 : 0;
        items_[i] = items_[indices[i]];
    }
    items_.resize(indices.size());
    sorted_ = sorted;
}

void CandidateSet::softmax() {
    items();
    if (items_.empty()) return;
    const float top = best().logit;
    double sum = 0;
    for (Candidate& item : items_) {
        item.p = std::exp(item.logit - top);
        sum += static_cast<double>(item.p);
    }
    for (Candidate& item : items_) {
        item.p = static_cast<float>(static_cast<double>(item.p) / sum);
    }
}

}  // namespace nib
