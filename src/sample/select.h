// SPDX-License-Identifier: MIT
// Selection by order and weight without sorting. Places of a column are ordered by key, the larger
// first, and equal keys by place; the question is where that order reaches a mass or a count.
//
//   keys, weights -> the best 64, if they are enough
//                 -> or the mass of 2048 ranges of keys, then a quickselect within one range
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace nib {

// The last place that belongs to a prefix of the order.
struct Cut {
    float key;
    uint32_t place;
    bool covers(float other, size_t at) const {
        return other > key || (other == key && at <= place);
    }
};

// A prefix is long enough when both hold.
struct Goal {
    double mass = -std::numeric_limits<double>::infinity();  // sum of weights >= mass
    size_t count = 1;                                        // at least so many
    bool reached(double sum, size_t n) const { return sum >= mass && n >= count; }
};

class Selector {
  public:
    // The shortest prefix that reaches the goal, or nothing if all of the column does not. No key
    // is NaN. Weights: from 0 to 1, one for each key; without a mass in the goal they are not
    // looked at and may be empty.
    std::optional<Cut> find(std::span<const float> keys, std::span<const float> weights, Goal goal);

  private:
    using Packed = uint64_t;  // ascending is best first: inverted order of the key, then the place

    void gather_best(std::span<const float> keys, size_t n);
    void fill_ranges(std::span<const float> keys, std::span<const float> weights, bool counts);
    std::optional<Cut> by_ranges(std::span<const float> keys,
                                 std::span<const float> weights,
                                 Goal goal);
    std::optional<Cut> walk(std::span<const float> keys,
                            std::span<const float> weights,
                            Goal goal,
                            double mass,
                            size_t count);
    std::optional<Cut> within(std::span<const float> keys,
                              std::span<const float> weights,
                              Goal goal,
                              double mass,
                              size_t count);

    std::vector<Packed> packed_;
    std::vector<uint32_t> buckets_;
    std::vector<double> masses_;
    std::vector<uint32_t> counts_;
};

}  // namespace nib
