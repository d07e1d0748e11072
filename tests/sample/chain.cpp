// SPDX-License-Identifier: MIT
// Exact small cases for each sampler of the chain.
#include "tests/sample/helpers.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

namespace nib::test {
namespace {

using testing::ElementsAre;

TEST(TopK, KeepsTheBestAndTiesGoToTheLowerId) {
    SamplingParams p = plain({"top_k"});
    p.top_k = 3;
    EXPECT_THAT(ids(survivors(p, {1, 5, 2, 5, 2, 2})), ElementsAre(1, 3, 2));
    p.top_k = 1;
    EXPECT_THAT(ids(survivors(p, {7, 7, 7})), ElementsAre(0));
}

TEST(TopK, LargeVocabulariesGiveTheSameAsSorting) {
    const std::vector<float> logits = wavy_logits(262141, 7);  // not a multiple of a vector
    for (const int32_t k : {1, 2, 40, 1000, 40000}) {
        SamplingParams p = plain({"top_k"});
        p.top_k = k;
        const auto left = survivors(p, logits);
        std::vector<Token> all(logits.size());
        for (size_t i = 0; i < all.size(); ++i)
            all[i] = static_cast<Token>(i);
        std::sort(all.begin(), all.end(), [&](Token a, Token b) {
            const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
            return x != y ? x > y : a < b;
        });
        all.resize(static_cast<size_t>(k));
        EXPECT_EQ(ids(left), all) << "k = " << k;
    }
}

TEST(TopK, EqualLogitsOnALargeVocabularyKeepTheLowestIds) {
    SamplingParams p = plain({"top_k"});
    p.top_k = 5;
    EXPECT_THAT(ids(survivors(p, std::vector<float>(10000, 1.5f))), ElementsAre(0, 1, 2, 3, 4));
}

TEST(TopP, SmallestSetThatReachesTheMass) {
    SamplingParams p = plain({"top_p"});
    const auto logits = logits_of({0.1, 0.4, 0.2, 0.3});
    p.top_p = 0.65f;
    EXPECT_THAT(ids(survivors(p, logits)), ElementsAre(1, 3));
    p.top_p = 0.75f;
    EXPECT_THAT(ids(survivors(p, logits)), ElementsAre(1, 3, 2));
    p.top_p = 0;
    EXPECT_THAT(ids(survivors(p, logits)), ElementsAre(1));
    p.top_p = 1;
    EXPECT_EQ(survivors(p, logits).size(), 4u);
}

TEST(TopP, FlatLargeDistributionNeedsManyRounds) {
    SamplingParams p = plain({"top_p"});
    p.top_p = 0.5f;
    const auto left = survivors(p, std::vector<float>(20000, 0.0f));
    EXPECT_NEAR(static_cast<double>(left.size()), 10000, 2);
    EXPECT_EQ(left.front().id, 0);
    EXPECT_EQ(left.back().id, static_cast<Token>(left.size()) - 1);
}

TEST(MinP, RatioToTheBest) {
    SamplingParams p = plain({"min_p"});
    const auto logits = logits_of({0.5, 0.04, 0.3, 0.16});
    p.min_p = 0.3f;
    EXPECT_THAT(ids(survivors(p, logits)), ElementsAre(0, 2, 3));
    p.min_p = 0.5f;
    EXPECT_THAT(ids(survivors(p, logits)), ElementsAre(0, 2));
    p.min_p = 1;
    EXPECT_THAT(ids(survivors(p, logits)), ElementsAre(0));
}

TEST(TypP, NearestToTheEntropyFirst) {
    SamplingParams p = plain({"typ_p"});
    // Entropy 0.7305; surprises 0.2877, 1.9661, 2.3026. Distances 0.4429, 1.2356, 1.5720.
    const auto logits = logits_of({0.75, 0.14, 0.11});
    p.typical_p = 0.5f;
    EXPECT_THAT(ids(survivors(p, logits)), ElementsAre(0));
    p.typical_p = 0.8f;
    EXPECT_THAT(ids(survivors(p, logits)), ElementsAre(0, 1));
    // Here the most probable token is the least typical one: entropy 1.9062, distances
    // 0.9899, 0.3964 (six times).
    const auto flat = logits_of({0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1});
    p.typical_p = 0.25f;
    EXPECT_THAT(ids(survivors(p, flat)), ElementsAre(1, 2, 3));
}

TEST(TopNSigma, WithinDeviationsOfTheBest) {
    SamplingParams p = plain({"top_n_sigma"});
    // Mean 2, deviation 2 (population).
    const std::vector<float> logits = {0, 4, 0, 4, 2 + 2 * 1.0f, 0};
    p.top_n_sigma = 1;
    EXPECT_THAT(ids(survivors(p, logits)), ElementsAre(1, 3, 4));
    p.top_n_sigma = 2.5f;
    EXPECT_EQ(survivors(p, logits).size(), 6u);
    p.top_n_sigma = 0;
    EXPECT_THAT(ids(survivors(p, {1, 2, 3})), ElementsAre(2));
    p.top_n_sigma = -1;
    EXPECT_EQ(survivors(p, logits).size(), 6u);
}

TEST(TopNSigma, BannedTokensDoNotCount) {
    SamplingParams p = plain({"top_n_sigma"});
    p.top_n_sigma = 1;
    const float banned = -std::numeric_limits<float>::infinity();
    EXPECT_THAT(ids(survivors(p, {0, 4, banned, 4, 0, banned})), ElementsAre(1, 3));
}

TEST(Xtc, DropsAllButTheLeastOfTheProbable) {
    SamplingParams p = plain({"xtc"});
    p.xtc_probability = 1;
    p.xtc_threshold = 0.15f;
    const auto logits = logits_of({0.1, 0.4, 0.2, 0.3});
    EXPECT_THAT(ids(survivors(p, logits)), ElementsAre(2, 0));
    p.xtc_threshold = 0.35f;  // one candidate is above: nothing to do
    EXPECT_EQ(survivors(p, logits).size(), 4u);
    p.xtc_threshold = 0.51f;
    EXPECT_EQ(survivors(p, logits).size(), 4u);
    p.xtc_threshold = 0.15f;
    p.xtc_probability = 0;
    EXPECT_EQ(survivors(p, logits).size(), 4u);
    p.xtc_probability = 1;
    p.min_keep = 3;
    EXPECT_EQ(survivors(p, logits).size(), 4u);
}

TEST(Xtc, ActsAsOftenAsItsProbability) {
    SamplingParams p = plain({"xtc"});
    p.xtc_probability = 0.25f;
    p.xtc_threshold = 0.1f;
    p.seed = 11;
    const auto logits = logits_of({0.5, 0.5});
    auto sampler = make_sampler(p, 2);
    int acted = 0;
    for (uint64_t i = 0; i < 4000; ++i) {
        ASSERT_TRUE(sampler->sample(logits, i).ok());
        acted += sampler->candidates().size() == 1 ? 1 : 0;
    }
    EXPECT_NEAR(acted, 1000, 110);  // four deviations
}

TEST(Temperature, DividesLogits) {
    SamplingParams p = plain({"temperature"});
    p.temperature = 0.5f;
    const auto left = survivors(p, logits_of({0.5, 0.25, 0.25}));
    EXPECT_NEAR(left[0].p, 2.0 / 3, 1e-6);  // squares: 4 : 1 : 1
    EXPECT_NEAR(left[1].p, 1.0 / 6, 1e-6);
}

TEST(Temperature, TinyValuesLeaveTheBest) {
    SamplingParams p = plain({"temperature"});
    for (const float t : {1e-45f, 1e-30f, 1e-6f}) {
        p.temperature = t;
        const auto left = survivors(p, {3.0f, 3.5f, -2.0f});
        EXPECT_EQ(left[0].id, 1) << t;
        EXPECT_NEAR(left[0].p, 1, 1e-6) << t;
    }
}

TEST(Temperature, DynamicFollowsTheEntropy) {
    SamplingParams p = plain({"temperature"});
    p.temperature = 1;
    p.dynatemp_range = 0.5f;
    // Uniform: the entropy is the largest, so the temperature is 1.5 and nothing changes.
    const auto flat = survivors(p, {2, 2, 2, 2});
    for (const Candidate& c : flat)
        EXPECT_NEAR(c.p, 0.25, 1e-6);
    EXPECT_NEAR(flat[0].logit, 2 / 1.5, 1e-5);
    // 0.9, 0.1: entropy 0.325083 of 0.693147, share 0.468996, so the temperature is 0.968996.
    const auto steep = survivors(p, logits_of({0.9, 0.1}));
    EXPECT_NEAR(std::log(static_cast<double>(steep[0].p / steep[1].p)), std::log(9.0) / 0.968996,
                1e-4);
}

TEST(MinKeep, HoldsForEveryTruncation) {
    SamplingParams p = plain({});
    const auto logits = logits_of({0.9, 0.05, 0.03, 0.02});
    p.top_k = 1;
    p.top_p = 0.1f;
    p.min_p = 0.9f;
    p.typical_p = 0.1f;
    p.top_n_sigma = 0.1f;
    p.min_keep = 3;
    for (const char* name : {"top_k", "top_p", "min_p", "typ_p", "top_n_sigma"}) {
        p.samplers = {name};
        EXPECT_THAT(ids(survivors(p, logits)), ElementsAre(0, 1, 2)) << name;
    }
}

TEST(Order, ChangesTheOutcome) {
    SamplingParams p = plain({"top_k", "top_p"});
    p.top_k = 2;
    p.top_p = 0.55f;
    // Among two of 0.4 and 0.3 the first has 0.571 and is enough; among four it is not.
    const auto logits = logits_of({0.4, 0.3, 0.2, 0.1});
    EXPECT_THAT(ids(survivors(p, logits)), ElementsAre(0));
    p.samplers = {"top_p", "top_k"};
    EXPECT_THAT(ids(survivors(p, logits)), ElementsAre(0, 1));
}

TEST(Order, ANameNotGivenIsNotUsed) {
    SamplingParams p = plain({"min_p"});
    p.top_k = 1;
    EXPECT_EQ(survivors(p, logits_of({0.4, 0.3, 0.3})).size(), 3u);
    p.samplers = {};  // temperature alone
    p.temperature = 0.5f;
    const auto left = survivors(p, logits_of({0.5, 0.25, 0.25}));
    ASSERT_EQ(left.size(), 3u);
    EXPECT_NEAR(left[0].p, 2.0 / 3, 1e-6);
}

TEST(Order, TruncationAfterTemperatureKeepsTheSetConsistent) {
    SamplingParams p = plain({"temperature", "top_k", "typ_p", "top_p", "min_p", "xtc"});
    p.temperature = 1.3f;
    p.top_k = 100;
    p.typical_p = 0.9f;
    p.top_p = 0.9f;
    p.min_p = 0.01f;
    const auto left = survivors(p, wavy_logits(5000, 3));
    ASSERT_GT(left.size(), 1u);
    double sum = 0;
    for (size_t i = 0; i < left.size(); ++i) {
        sum += static_cast<double>(left[i].p);
        if (i > 0) {
            EXPECT_GE(left[i - 1].logit, left[i].logit);
        }
    }
    EXPECT_NEAR(sum, 1, 1e-5);
}

}  // namespace
}  // namespace nib::test
