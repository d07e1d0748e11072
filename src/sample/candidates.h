// SPDX-License-Identifier: MIT
// The tokens that may still be chosen. A set starts dense (one logit per id, nothing sorted) and
// becomes a list when a sampler drops tokens. Sorting is on demand and partial: a large vocabulary
// is never sorted as a whole for a token that lies near the top. Banned tokens (-inf) never enter
// the list.
//
// Order, everywhere: larger logit first, then the lower id. Storage is kept between tokens.
#pragma once
#include "src/sample/sampler.h"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace nib {

inline bool better(const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// The largest logit (-inf if there is none), and whether any is NaN or +inf.
struct LogitScan {
    float top;
    bool bad;
};
LogitScan scan(std::span<const float> logits);

class CandidateSet {
  public:
    // Starts again with a dense copy of the logits.
    void assign(std::span<const float> logits);

    bool dense() const { return dense_; }
    // While dense: one logit per id, to be changed in place.
    std::span<float> logits() { return logits_; }
    // The list (made now if the set is dense). Logits may be changed through update() only.
    std::span<const Candidate> items();
    size_t size() { return items().size(); }

    // Calls change(i, logit) for each ids[i] that is still in the set and stores what it returns.
    // ids: ascending, each once.
    template <class Change>
    void update(std::span<const Token> ids, Change change);
    // Replaces every logit; `change` must not alter the order.
    template <class Change>
    void rescale(Change change);

    // The best candidate of a set that is not empty.
    Candidate best();
    // Puts the best n (or all) first and in order; the rest stays unsorted behind them.
    std::span<const Candidate> sort_prefix(size_t n);
    // Keeps the best n, sorted.
    void keep_top(size_t n);
    // Keeps the first n in the current order; they must be sorted (sort_prefix).
    void keep_prefix(size_t n);
    // Drops the first n; the set must be sorted beyond them.
    void drop_prefix(size_t n);
    // Keeps logits >= bar, but at least the best `min_keep`, and never fewer than one.
    void keep_at_least(double bar, size_t min_keep);
    // Keeps exactly the candidates at these indices of items().
    void keep_indices(std::span<uint32_t> indices);

    // Sets every p; they sum to one.
    void softmax();

  private:
    void list_all();
    void keep_top_of_dense(size_t n);

    std::vector<float> logits_;
    std::vector<Candidate> items_;
    bool dense_ = true;
    size_t sorted_ = 0;  // that many leading items are the best ones, in order
};

template <class Change>
void CandidateSet::update(std::span<const Token> ids, Change change) {
    if (ids.empty()) return;
    if (dense_) {
        for (size_t i = 0; i < ids.size(); ++i) {
            float& logit = logits_[static_cast<size_t>(ids[i])];
            logit = change(i, logit);
        }
        return;
    }
    for (Candidate& item : items_) {
        size_t low = 0, high = ids.size();
        while (low < high) {
            const size_t middle = (low + high) / 2;
            if (ids[middle] < item.id) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if (low < ids.size() && ids[low] == item.id) item.logit = change(low, item.logit);
    }
    sorted_ = 0;
}

template <class Change>
void CandidateSet::rescale(Change change) {
    items();
    for (Candidate& item : items_)
        item.logit = change(item.logit);
}

}  // namespace nib
