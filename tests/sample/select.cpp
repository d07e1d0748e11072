// SPDX-License-Identifier: MIT
// Selection against a full sort, and the loops over lanes against plain ones. Weights are multiples
// of 1/1024, so sums are exact in any order and the results must be equal, not near.
#include "src/sample/select.h"

#include "src/sample/lanes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace nib::test {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kInf = std::numeric_limits<float>::infinity();

using Columns = std::pair<std::vector<float>, std::vector<float>>;  // keys, weights

// Shapes that lead to every path: spread, ties, one value, clusters, far outliers, both zeros.
Columns make_columns(std::mt19937& random, size_t n, int shape) {
    std::normal_distribution<float> normal(0, 3);
    Columns out;
    for (size_t i = 0; i < n; ++i) {
        float key = normal(random);
        if (shape == 1) key = std::round(key * 2) / 2;
        if (shape == 2) key = 1;
        if (shape == 3) key = key > 4 ? key : 1 + key * 1e-6f;
        if (shape == 4) key = random() % 100 == 0 ? -kLargest : key * 1e30f;
        if (shape == 5) key = key > 0 ? 0.0f : -0.0f;
        if (shape == 6) key = random() % 64 == 0 ? 80 + key : key - 80;
        out.first.push_back(key);
        out.second.push_back(static_cast<float>(random() % 1025) / 1024);
    }
    return out;
}

std::vector<uint32_t> sorted_places(const std::vector<float>& keys) {
    std::vector<uint32_t> order(keys.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return keys[a] > keys[b]; });
    return order;
}

TEST(Selector, FindsWhatASortFinds) {
    std::mt19937 random(1);
    Selector selector;
    for (const size_t n : {1u, 2u, 17u, 300u, 2048u, 2049u, 5003u, 30011u}) {
        for (int shape = 0; shape <= 6; ++shape) {
            const auto [keys, weights] = make_columns(random, n, shape);
            const std::vector<uint32_t> order = sorted_places(keys);
            const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
            for (const double share : {0.0, 0.001, 0.2, 0.7, 0.999, 1.0, 1.1}) {
                const Goal goal{share * total, share < 0.5 ? 1 : random() % n + 1};
                double sum = 0;
                size_t at = 0;
                while (at < n) {
                    sum += static_cast<double>(weights[order[at++]]);
                    if (goal.reached(sum, at)) break;
                }
                const auto cut = selector.find(keys, weights, goal);
                ASSERT_EQ(cut.has_value(), goal.reached(sum, at)) << n << " " << shape;
                if (cut) {
                    ASSERT_EQ(cut->place, order[at - 1]) << n << " " << shape << " " << share;
                    ASSERT_EQ(cut->key, keys[cut->place]);
                }
            }
            for (const size_t count : {size_t{1}, n / 100 + 1, n / 3 + 1, n}) {
                const auto cut = selector.find(keys, {}, {.count = count});
                ASSERT_TRUE(cut.has_value());
                ASSERT_EQ(cut->place, order[count - 1]) << n << " " << shape << " " << count;
            }
            EXPECT_FALSE(selector.find(keys, {}, {.count = n + 1}).has_value());
        }
    }
}

TEST(Lanes, WeightsAreExponentials) {
    std::vector<float> logits;
    for (float x = 3; x > -120; x -= 0.0173f)
        logits.push_back(x);
    logits.insert(logits.end(), {-1e30f, -kLargest});
    std::vector<float> weights(logits.size());
    const double total = weigh(logits, 3, weights);
    double sum = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
        const double want = std::exp(static_cast<double>(logits[i] - 3));
        sum += want;
        if (logits[i] < -84) {
            ASSERT_EQ(weights[i], 0) << logits[i];
        } else {
            ASSERT_NEAR(static_cast<double>(weights[i]) / want, 1, 2.5e-7) << logits[i];
        }
    }
    EXPECT_EQ(weights[0], 1);
    EXPECT_NEAR(total / sum, 1, 2.5e-7);
    // From the largest to the lowest float the distance is infinite.
    const std::vector<float> far = {kLargest, -kLargest};
    EXPECT_EQ(weigh(far, kLargest, std::span(weights).first(2)), 1);
}

TEST(Lanes, EveryLengthAndPlaceIsSeen) {
    for (size_t n = 1; n < 40; ++n) {
        for (size_t place = 0; place < n; ++place) {
            std::vector<float> x(n, -1.0f), copy(n);
            x[place] = 2;
            EXPECT_EQ(range_of(x).high, 2);
            EXPECT_EQ(range_of(x).low, n > 1 ? -1 : 2);
            EXPECT_EQ(find_first_at_least(x, 2), place);
            EXPECT_EQ(find_first_at_least(x, 3), n);
            EXPECT_EQ(count_at_least(x, 0), 1u);
            const Moments moments = moments_below(x, 2);
            EXPECT_EQ(moments.sum, 3.0 * static_cast<double>(n - 1));
            EXPECT_EQ(moments.squares, 9.0 * static_cast<double>(n - 1));
            EXPECT_EQ(weighted_depth(x, std::vector<float>(n, 0.5f), 2), moments.sum / 2);
            EXPECT_FALSE(scan(x).banned);
            x[place] = -kInf;
            const LogitScan found = scan(x, copy.data());
            EXPECT_TRUE(found.banned);
            EXPECT_FALSE(found.bad);
            EXPECT_EQ(found.top, n > 1 ? -1 : -kInf);
            EXPECT_EQ(copy, x);
            x[place] = kInf;
            EXPECT_TRUE(scan(x).bad);
        }
    }
}

}  // namespace
}  // namespace nib::test
