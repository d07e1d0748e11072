// SPDX-License-Identifier: MIT
// Counts of observations in fixed buckets, as Prometheus histograms have them. A value: copy it to
// look at it. Threads: one at a time.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace nib {

class Histogram {
  public:
    Histogram() = default;
    // Upper bounds, ascending; a last bucket without bound is added.
    explicit Histogram(std::span<const double> bounds)
        : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {}

    void add(double value) {
        size_t b = 0;
        while (b < bounds_.size() && value > bounds_[b])
            b++;
        if (!counts_.empty()) counts_[b]++;
        sum_ += value;
        count_++;
    }

    std::span<const double> bounds() const { return bounds_; }
    // [bounds + 1]: observations in each bucket alone, not yet cumulative.
    std::span<const uint64_t> counts() const { return counts_; }
    double sum() const { return sum_; }
    uint64_t count() const { return count_; }

  private:
    std::vector<double> bounds_;
    std::vector<uint64_t> counts_;
    double sum_ = 0;
    uint64_t count_ = 0;
};

}  // namespace nib
