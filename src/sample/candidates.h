// SPDX-License-Identifier: MIT
// The tokens that may still be chosen, as columns: ids (none while every token is there), logits
// and, on demand, weights e^(logit - top). Ids always ascend and nothing is ever sorted for a draw:
// samplers ask the Selector where the order reaches a mass or a count and keep what is before it,
// so a sampler costs a few passes over the columns, whatever the distribution. Only
// best_first(), for those who want to see the candidates, sorts.
//
// Order, everywhere: larger logit first, then the lower id. Banned tokens (-inf) leave the set
// before the chain runs. The set is never empty then. Storage is kept between tokens.
#pragma once
#include "src/sample/lanes.h"
#include "src/sample/sampler.h"
#include "src/sample/select.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace nib {

class CandidateSet {
  public:
    // Starts again with a copy of the logits; what it returns says whether they can be used.
    LogitScan assign(std::span<const float> logits);
    // One token is left: what greedy decoding chose.
    void assign_one(Token id, float logit);
    // Removes tokens at -inf; false if no other is there.
    bool drop_banned();

    size_t size() const { return n_; }
    // Whether no token has been dropped.
    bool whole() const { return whole_; }
    std::span<const float> logits() const { return {logits_.data(), n_}; }
    // The largest logit.
    float top();
    // e^(logit - top) of each candidate, and their sum.
    std::span<const float> weights();
    double total();
    // In nats.
    double entropy();

    // Calls change(i, logit) for each ids[i] that is still in the set and stores what it returns.
    // ids: ascending, each once.
    template <class Change>
    void update(std::span<const Token> ids, Change change);
    // Multiplies every logit; the order stays, and nothing falls below the lowest finite float.
    void scale(double factor);

    // Keeps the best n (or all).
    void keep_top(size_t n);
    // Keeps the shortest best-first prefix of at least `count` candidates with a share of all the
    // probability.
    void keep_nucleus(double share, size_t count);
    // The same in the order of the distance from a logit, the nearest first.
    void keep_nearest(double center, double share, size_t count);
    // Keeps logits >= bar, but at least the best `min_keep`, and never fewer than one.
    void keep_at_least(double bar, size_t min_keep);
    // Drops the best n of more than n.
    void drop_top(size_t n);

    // The candidate at which the best-first sum of probabilities passes u, of [0, 1).
    Token draw(double u);
    // All candidates in order, with probabilities that sum to one.
    std::span<const Candidate> best_first();

  private:
    static constexpr size_t kNowhere = static_cast<size_t>(-1);
    struct Span {
        size_t from, to;
    };
    struct Bars {
        float low, high;
    };

    Token id_at(size_t place) const { return whole_ ? static_cast<Token>(place) : ids_[place]; }
    size_t place_of(Token id, size_t from) const;
    void touch() {
        total_.reset();
        sorted_.clear();
    }
    void changed(float before, float after);
    size_t gather(const float* keys, Span places, Bars bars, size_t kept);
    void keep_between(std::span<const float> keys, size_t split, Bars before, Bars after);
    void keep_until(std::span<const float> keys, const std::optional<Cut>& cut);

    size_t n_ = 0;
    // Columns are as long as they ever had to be; the first n_ places count.
    std::vector<Token> ids_;
    std::vector<float> logits_, weights_, keys_;
    std::vector<Candidate> sorted_;  // empty until asked for
    Selector selector_;
    bool whole_ = true;
    std::optional<float> top_;
    std::optional<double> total_;  // set while weights_ are those of logits_
};

template <class Change>
void CandidateSet::update(std::span<const Token> ids, Change change) {
    size_t from = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
        const size_t place = place_of(ids[i], from);
        if (place == kNowhere) continue;
        from = place;
        const float before = logits_[place];
        logits_[place] = change(i, before);
        changed(before, logits_[place]);
    }
}

}  // namespace nib
