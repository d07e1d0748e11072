// SPDX-License-Identifier: MIT
// Loops over a whole vocabulary, written in lanes that the compiler turns into vectors. Plain
// running sums and maxima stay scalar without -ffast-math and are several times slower. Lanes are
// added in a fixed order, so every machine gets the same bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace nib {

// Blocks that can be skipped as a whole.
inline constexpr size_t kLanes = 16;
// Whether any of kLanes values reaches the bar.
bool any_at_least(const float* block, float bar);

// What one pass over logits says.
struct LogitScan {
    float top;    // the largest, -inf if there is none
    bool bad;     // any is NaN or +inf
    bool banned;  // any is -inf
};
// Also copies the logits unless `copy` is null.
LogitScan scan(std::span<const float> logits, float* copy = nullptr);

struct Range {
    float low, high;
};
// Of at least one value; none is NaN.
Range range_of(std::span<const float> values);

// The first place of a value >= bar, or the number of values.
size_t find_first_at_least(std::span<const float> values, float bar);

// How many are >= bar.
size_t count_at_least(std::span<const float> values, float bar);

// weights[i] = e^(logits[i] - top), within 2e-7 of itself, exactly 1 at the top and 0 below e^-87.
// Returns their sum. No logit is above top.
double weigh(std::span<const float> logits, float top, std::span<float> weights);

// Sums of d = top - x over all logits x.
struct Moments {
    double sum, squares;
};
Moments moments_below(std::span<const float> logits, float top);

// The sum of weights[i] * (top - logits[i]).
double weighted_depth(std::span<const float> logits, std::span<const float> weights, float top);

// out[i] = -|logits[i] - center|.
void nearness(std::span<const float> logits, double center, std::span<float> out);

// logits[i] *= factor, but never below the lowest finite float.
void scale(std::span<float> logits, double factor);

// out[i] = min(last, floor((high - keys[i]) * per_bucket)); no key is above high.
void bucket_of(
    std::span<const float> keys, double high, double per_bucket, uint32_t last, uint32_t* out);

}  // namespace nib
