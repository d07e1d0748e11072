// SPDX-License-Identifier: MIT
// The arithmetic of the penalties and of DRY.
#include "tests/sample/helpers.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

namespace nib::test {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

const std::vector<float> kLogits = {2.0f, 1.0f, 0.5f, 0.0f, -1.0f, -3.0f};
const std::vector<Token> kHistory = {0, 0, 0, 4};

std::vector<float> after(const SamplingParams& p, const std::vector<Token>& history) {
    std::vector<float> logits = kLogits;
    apply_penalties(logits, history, p);
    return logits;
}

// The same through a sampler: logits of the candidates by id.
std::vector<float> through_chain(SamplingParams p, const std::vector<Token>& history) {
    p.temperature = 1;
    p.samplers = {"penalties"};
    std::vector<float> out(kLogits.size());
    for (const Candidate& c : survivors(p, kLogits, history)) {
        out[static_cast<size_t>(c.id)] = c.logit;
    }
    return out;
}

void expect_both(const SamplingParams& p,
                 const std::vector<Token>& history,
                 const std::vector<float>& want) {
    EXPECT_THAT(after(p, history), Pointwise(FloatNear(1e-4f), want));
    EXPECT_EQ(through_chain(p, history), after(p, history));
}

TEST(Penalties, RepeatActsOncePerDistinctToken) {
    SamplingParams p;
    p.repeat_penalty = 1.5f;
    expect_both(p, kHistory, {1.3333f, 1.0f, 0.5f, 0.0f, -1.5f, -3.0f});
}

TEST(Penalties, PresenceOnceFrequencyByCount) {
    SamplingParams p;
    p.presence_penalty = 0.5f;
    p.frequency_penalty = 0.2f;
    expect_both(p, kHistory, {0.9f, 1.0f, 0.5f, 0.0f, -1.7f, -3.0f});
}

TEST(Penalties, WindowOfLastTokens) {
    SamplingParams p;
    p.repeat_penalty = 1.5f;
    p.repeat_last_n = 0;
    expect_both(p, kHistory, kLogits);
    p.repeat_last_n = 1;
    expect_both(p, kHistory, {2.0f, 1.0f, 0.5f, 0.0f, -1.5f, -3.0f});
    p.repeat_last_n = -1;
    std::vector<Token> longer(100, 5);
    longer.insert(longer.begin(), 1);
    expect_both(p, longer, {2.0f, 1 / 1.5f, 0.5f, 0.0f, -1.0f, -4.5f});
    p.repeat_last_n = 64;  // the first token has left the window
    expect_both(p, longer, {2.0f, 1.0f, 0.5f, 0.0f, -1.0f, -4.5f});
}

TEST(Penalties, SlidingWindowMatchesRecounting) {
    SamplingParams p = plain({"penalties"});
    p.repeat_last_n = 7;
    p.frequency_penalty = 0.25f;
    p.presence_penalty = 0.125f;
    auto sampler = make_sampler(p, kLogits.size());
    std::vector<Token> history;
    uint32_t state = 5;
    for (int step = 0; step < 200; ++step) {
        state = state * 1664525u + 1013904223u;
        history.push_back(static_cast<Token>((state >> 16) % kLogits.size()));
        sampler->accept(history.back());
        ASSERT_TRUE(sampler->sample(kLogits, history.size()).ok());
        const std::vector<float> want = after(p, history);
        for (const Candidate& c : sampler->candidates()) {
            ASSERT_EQ(c.logit, want[static_cast<size_t>(c.id)]) << step;
        }
    }
    sampler->reset();
    ASSERT_TRUE(sampler->sample(kLogits, 0).ok());
    for (const Candidate& c : sampler->candidates()) {
        EXPECT_EQ(c.logit, kLogits[static_cast<size_t>(c.id)]);
    }
}

TEST(Penalties, ExtremesStayFiniteAndBansStay) {
    SamplingParams p;
    p.repeat_penalty = 0;
    const float banned = -std::numeric_limits<float>::infinity();
    std::vector<float> logits = {2, 0, -1, banned};
    const std::vector<Token> history = {0, 1, 2, 3, 9, -4};  // ids out of range are ignored
    apply_penalties(logits, history, p);
    EXPECT_THAT(logits, ElementsAre(std::numeric_limits<float>::max(), 0, 0, banned));
}

TEST(Penalties, AfterTruncationOnlyTheSurvivorsChange) {
    SamplingParams p = plain({"top_k", "penalties"});
    p.top_k = 2;
    p.presence_penalty = 2;
    const auto left = survivors(p, {5, 4, 3, 2}, {0, 2});
    ASSERT_EQ(left.size(), 2u);
    EXPECT_EQ(left[0].id, 1);
    EXPECT_FLOAT_EQ(left[1].logit, 3);
}

TEST(Penalties, WorkAtTemperatureZero) {
    SamplingParams p;
    p.temperature = 0;
    p.presence_penalty = 2;
    EXPECT_THAT(ids(survivors(p, {5, 4, 3}, {0})), ElementsAre(1));
}

// What DRY subtracts from each token for a history.
std::vector<double> dry_loss(const SamplingParams& params, const std::vector<Token>& history) {
    const std::vector<float> logits(10, 0.0f);
    std::vector<double> loss(10, 0);
    for (const Candidate& c : survivors(params, logits, history)) {
        loss[static_cast<size_t>(c.id)] = -static_cast<double>(c.logit);
    }
    return loss;
}

SamplingParams dry() {
    SamplingParams p = plain({"dry"});
    p.dry_multiplier = 0.5f;
    p.dry_base = 2;
    p.dry_allowed_length = 2;
    p.dry_penalty_last_n = -1;
    return p;
}

TEST(Dry, PenalizesWhatWouldLengthenARepetition) {
    // "1 2 3 4 . 1 2 3": 4 would make the repetition longer; its length is 3, one more than
    // allowed.
    auto loss = dry_loss(dry(), {1, 2, 3, 4, 9, 1, 2, 3});
    EXPECT_NEAR(loss[4], 0.5 * 2, 1e-6);
    for (const size_t other : {0, 1, 2, 3, 5, 9})
        EXPECT_EQ(loss[other], 0) << other;
    // Length 2 = allowed: multiplier * base^0.
    loss = dry_loss(dry(), {2, 3, 4, 9, 2, 3});
    EXPECT_NEAR(loss[4], 0.5, 1e-6);
    // Length 1: nothing.
    loss = dry_loss(dry(), {3, 4, 9, 3});
    EXPECT_EQ(loss[4], 0);
}

TEST(Dry, TheLongestRepetitionCounts) {
    // "2 3" is followed by 4 once after a repetition of 3 and once after one of 2; 5 after 2.
    const auto loss = dry_loss(dry(), {2, 3, 5, 1, 2, 3, 4, 8, 2, 3, 4, 7, 1, 2, 3});
    EXPECT_NEAR(loss[4], 0.5 * 2, 1e-6);
    EXPECT_NEAR(loss[5], 0.5, 1e-6);
}

TEST(Dry, OverlappingRepetition) {
    // 1 1 1 1: the suffix 1 1 1 occurred one place earlier and was followed by 1.
    EXPECT_NEAR(dry_loss(dry(), {1, 1, 1, 1})[1], 0.5 * 2, 1e-6);
}

TEST(Dry, BreakersEndARepetition) {
    SamplingParams p = dry();
    p.dry_breakers = {{2}};
    // Without the breaker the length is 3, with it only "3" follows the breaker.
    EXPECT_EQ(dry_loss(p, {1, 2, 3, 4, 9, 1, 2, 3})[4], 0);
    // A breaker itself is never penalized.
    p.dry_breakers = {{4}};
    EXPECT_EQ(dry_loss(p, {1, 2, 3, 4, 9, 1, 2, 3})[4], 0);
    // A breaker of two tokens: 3 5 6 follows it, so 3 tokens may repeat at most.
    p.dry_breakers = {{1, 2}};
    EXPECT_NEAR(dry_loss(p, {1, 2, 3, 5, 6, 7, 9, 1, 2, 3, 5, 6})[7], 0.5 * 2, 1e-6);
    p.dry_breakers = {};
    EXPECT_NEAR(dry_loss(p, {1, 2, 3, 5, 6, 7, 9, 1, 2, 3, 5, 6})[7], 0.5 * 8, 1e-6);
    // The end of the text is the breaker.
    p.dry_breakers = {{5, 6}};
    EXPECT_EQ(dry_loss(p, {1, 2, 3, 5, 6, 7, 9, 1, 2, 3, 5, 6})[7], 0);
}

TEST(Dry, WindowLimitsTheLookBack) {
    SamplingParams p = dry();
    const std::vector<Token> history = {1, 2, 3, 4, 9, 1, 2, 3};
    p.dry_penalty_last_n = 7;  // the earlier 1 is out of sight: length 2
    EXPECT_NEAR(dry_loss(p, history)[4], 0.5, 1e-6);
    p.dry_penalty_last_n = 6;
    EXPECT_EQ(dry_loss(p, history)[4], 0);
    p.dry_penalty_last_n = 0;
    EXPECT_EQ(dry_loss(p, history)[4], 0);
}

TEST(Dry, LengthsMatchAPlainSearch) {
    SamplingParams p = dry();
    p.dry_base = 1.5f;
    uint32_t state = 17;
    for (int round = 0; round < 300; ++round) {
        std::vector<Token> history(1 + round % 40);
        for (Token& t : history) {
            state = state * 1664525u + 1013904223u;
            t = static_cast<Token>((state >> 20) % 3);
        }
        std::vector<double> want(10, 0);
        const size_t n = history.size();
        for (size_t end = 1; end < n; ++end) {  // an earlier place that ends before `end`
            size_t length = 0;
            while (length < end && history[end - 1 - length] == history[n - 1 - length])
                ++length;
            if (length < 2) continue;
            const double loss = 0.5 * std::pow(1.5, static_cast<double>(length) - 2);
            double& slot = want[static_cast<size_t>(history[end])];
            slot = std::max(slot, loss);
        }
        const auto got = dry_loss(p, history);
        for (size_t i = 0; i < want.size(); ++i) {
            ASSERT_NEAR(got[i], want[i], 1e-4 * (1 + want[i])) << round << " token " << i;
        }
    }
}

TEST(Dry, EndlessRepetitionStaysFiniteAndQuick) {
    SamplingParams p = dry();
    p.dry_base = 100;
    const std::vector<float> logits(10, 0.0f);
    const auto left = survivors(p, logits, std::vector<Token>(200000, 1));
    EXPECT_EQ(left.back().id, 1);
    EXPECT_EQ(left.back().logit, -std::numeric_limits<float>::max());
}

}  // namespace
}  // namespace nib::test
