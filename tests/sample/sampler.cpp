// SPDX-License-Identifier: MIT
// The whole: ranges of parameters, errors, determinism, the random numbers and the distribution of
// draws.
#include "src/sample/sampler.h"

#include "src/sample/random.h"
#include "tests/sample/helpers.h"

#include <cmath>
#include <limits>
#include <set>

#include <gmock/gmock.h>

namespace nib::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Philox, KnownAnswers) {
    using Words = std::array<uint32_t, 4>;
    EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
              (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    constexpr uint32_t kOnes = 0xffffffff;
    EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(
        philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
        (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformDependsOnEveryPart) {
    const double base = uniform_random(1, 2, 3, 0);
    EXPECT_GE(base, 0);
    EXPECT_LT(base, 1);
    EXPECT_EQ(base, uniform_random(1, 2, 3, 0));
    const uint64_t high = uint64_t{1} << 40;
    std::set<double> all = {base,
                            uniform_random(2, 2, 3, 0),
                            uniform_random(1 + high, 2, 3, 0),
                            uniform_random(1, 3, 3, 0),
                            uniform_random(1, 2 + high, 3, 0),
                            uniform_random(1, 2, 4, 0),
                            uniform_random(1, 2, 3 + high, 0),
                            uniform_random(1, 2, 3, 1)};
    EXPECT_EQ(all.size(), 8u);
    double sum = 0;
    for (uint64_t i = 0; i < 10000; ++i)
        sum += uniform_random(42, 0, i, 0);
    EXPECT_NEAR(sum / 10000, 0.5, 0.012);
}

struct BadField {
    const char* field;
    void (*set)(SamplingParams& p);
};

TEST(Params, NamesTheFieldThatIsOutOfRange) {
    const BadField rows[] = {
        {"temperature", [](SamplingParams& p) { p.temperature = -1; }},
        {"temperature", [](SamplingParams& p) { p.temperature = kNan; }},
        {"temperature", [](SamplingParams& p) { p.temperature = kInf; }},
        {"temperature", [](SamplingParams& p) { p.temperature = 101; }},
        {"top_p", [](SamplingParams& p) { p.top_p = 2; }},
        {"top_p", [](SamplingParams& p) { p.top_p = kNan; }},
        {"min_p", [](SamplingParams& p) { p.min_p = 7; }},
        {"typical_p", [](SamplingParams& p) { p.typical_p = -0.1f; }},
        {"top_k", [](SamplingParams& p) { p.top_k = -2; }},
        {"top_k", [](SamplingParams& p) { p.top_k = 101; }},
        {"top_n_sigma", [](SamplingParams& p) { p.top_n_sigma = kNan; }},
        {"xtc_probability", [](SamplingParams& p) { p.xtc_probability = 1.5f; }},
        {"xtc_threshold", [](SamplingParams& p) { p.xtc_threshold = kNan; }},
        {"repeat_penalty", [](SamplingParams& p) { p.repeat_penalty = 11; }},
        {"repeat_penalty", [](SamplingParams& p) { p.repeat_penalty = -1; }},
        {"repeat_last_n", [](SamplingParams& p) { p.repeat_last_n = -2; }},
        {"presence_penalty", [](SamplingParams& p) { p.presence_penalty = 2.5f; }},
        {"frequency_penalty", [](SamplingParams& p) { p.frequency_penalty = 100; }},
        {"dynatemp_range", [](SamplingParams& p) { p.dynatemp_range = -1; }},
        {"dynatemp_exponent", [](SamplingParams& p) { p.dynatemp_exponent = kNan; }},
        {"dry_multiplier", [](SamplingParams& p) { p.dry_multiplier = -1; }},
        {"dry_base", [](SamplingParams& p) { p.dry_base = 0; }},
        {"dry_allowed_length", [](SamplingParams& p) { p.dry_allowed_length = -1; }},
        {"dry_penalty_last_n", [](SamplingParams& p) { p.dry_penalty_last_n = -5; }},
        {"min_keep", [](SamplingParams& p) { p.min_keep = 101; }},
        {"logit_bias",
         [](SamplingParams& p) {
             p.logit_bias = {{5, kNan}};
         }},
        {"logit_bias",
         [](SamplingParams& p) {
             p.logit_bias = {{5, kInf}};
         }},
        {"logit_bias",
         [](SamplingParams& p) {
             p.logit_bias = {{5, 1e30f}};
         }},
        {"logit_bias",
         [](SamplingParams& p) {
             p.logit_bias = {{99999999, 1}};
         }},
        {"logit_bias",
         [](SamplingParams& p) {
             p.logit_bias = {{-7, 1}};
         }},
        {"logit_bias",
         [](SamplingParams& p) {
             p.logit_bias.assign(5000, {1, 1.0f});
         }},
        {"samplers", [](SamplingParams& p) { p.samplers = {"top_q"}; }},
        {"samplers", [](SamplingParams& p) { p.samplers.assign(65, "top_k"); }},
    };
    for (const BadField& row : rows) {
        SamplingParams p;
        row.set(p);
        const auto checked = check_params(p, 100);
        ASSERT_FALSE(checked.ok()) << row.field;
        EXPECT_EQ(checked.error().status, Status::BadRequest);
        EXPECT_EQ(checked.error().message.rfind(std::string(row.field) + ": expected", 0), 0u)
            << checked.error().message;
        EXPECT_FALSE(Sampler::create(p, 100).ok());
    }
}

TEST(Params, AcceptsTheEdges) {
    SamplingParams p;
    EXPECT_TRUE(check_params(p, 10).ok()) << "the defaults fit any vocabulary";
    p.top_k = -1;
    p.temperature = 0;
    p.top_p = 0;
    p.min_p = 1;
    p.repeat_penalty = 10;
    p.presence_penalty = -2;
    p.logit_bias = {{0, 100.0f}, {9, -kInf}};
    p.samplers = {};
    EXPECT_TRUE(check_params(p, 10).ok());
}

TEST(SamplerList, NamesLettersAndAliases) {
    const auto list = [](std::string_view text) { return parse_sampler_list(text).value(); };
    EXPECT_THAT(list("top_k;top_p"), ElementsAre("top_k", "top_p"));
    EXPECT_THAT(list("Top-K,nucleus;temp"), ElementsAre("top_k", "top_p", "temperature"));
    EXPECT_THAT(list("topk"), ElementsAre("top_k"));
    EXPECT_THAT(list("edskypmxt"), ElementsAre("penalties", "dry", "top_n_sigma", "top_k", "typ_p",
                                               "top_p", "min_p", "xtc", "temperature"));
    EXPECT_THAT(list("kt"), ElementsAre("top_k", "temperature"));
    EXPECT_THAT(list(""), ElementsAre());
    EXPECT_EQ(list("edskypmxt"), SamplingParams().samplers);
    for (const char* bad : {"top_k;nope", "kz", ";", "top_k;;top_p"}) {
        const auto result = parse_sampler_list(bad);
        ASSERT_FALSE(result.ok()) << bad;
        EXPECT_THAT(result.error().message, HasSubstr("samplers: expected names of"));
    }
}

TEST(Sample, NonFiniteLogitsAreTheModelsFault) {
    for (const float t : {0.0f, 1.0f}) {
        SamplingParams p = plain({"temperature"});
        p.temperature = t;
        auto sampler = make_sampler(p, 3);
        for (const std::vector<float>& logits :
             {std::vector<float>{1, kNan, 2}, {1, kInf, 2}, {-kInf, -kInf, -kInf}}) {
            const auto token = sampler->sample(logits, 0);
            ASSERT_FALSE(token.ok());
            EXPECT_EQ(token.error().status, Status::Internal);
            EXPECT_THAT(token.error().message, HasSubstr("model_output_invalid"));
        }
        const auto token = sampler->sample(std::vector<float>{-kInf, 2, -kInf}, 0);
        ASSERT_TRUE(token.ok());
        EXPECT_EQ(token.value(), 1);
    }
}

TEST(Sample, EveryPlaceOfTheLogitsIsSeen) {
    SamplingParams p;
    p.temperature = 0;
    for (size_t n = 1; n < 70; n += 3) {
        auto sampler = make_sampler(p, n);
        for (size_t place = 0; place < n; ++place) {
            std::vector<float> logits(n, -1.0f);
            logits[place] = kNan;
            ASSERT_FALSE(sampler->sample(logits, 0).ok()) << n << " " << place;
            logits[place] = 2;
            ASSERT_EQ(sampler->sample(logits, 0).value(), static_cast<Token>(place)) << n;
        }
    }
}

TEST(Sample, BansAreNeverChosenAndAllBannedIsAnError) {
    for (const float t : {0.0f, 5.0f}) {
        SamplingParams p = plain({"temperature"});
        p.temperature = t;
        p.logit_bias = {{1, -kInf}};
        const std::vector<float> logits = {0, 9, 0};
        auto sampler = make_sampler(p, 3);
        for (uint64_t i = 0; i < 200; ++i)
            ASSERT_NE(sampler->sample(logits, i).value(), 1);
        p.logit_bias = {{0, -kInf}, {1, -kInf}, {2, -kInf}};
        const auto token = make_sampler(p, 3)->sample(logits, 0);
        ASSERT_FALSE(token.ok());
        EXPECT_EQ(token.error().status, Status::BadRequest);
        EXPECT_THAT(token.error().message, HasSubstr("no_token_allowed"));
    }
}

TEST(Sample, BiasMovesTheChoice) {
    SamplingParams p;
    p.temperature = 0;
    p.logit_bias = {{2, 100.0f}};
    EXPECT_THAT(ids(survivors(p, {5, 4, 3})), ElementsAre(2));
}

TEST(Sample, GreedyTakesTheLowestOfEquals) {
    SamplingParams p;
    p.temperature = 0;
    p.xtc_probability = 1;  // what drops the best does not touch greedy decoding
    EXPECT_THAT(ids(survivors(p, {1, 3, 3, 2})), ElementsAre(1));
}

// Every token of a short text, drawn with the given parameters.
std::vector<Token> text_of(const SamplingParams& p, uint64_t sequence = 0, int n = 20) {
    auto sampler = make_sampler(p, 500, sequence);
    std::vector<Token> out;
    for (int i = 0; i < n; ++i) {
        const auto logits = wavy_logits(500, static_cast<uint32_t>(i));
        out.push_back(sampler->sample(logits, static_cast<uint64_t>(i)).value());
        sampler->accept(out.back());
    }
    return out;
}

TEST(Seeds, TopKOffIsNotTopKOne) {
    std::set<std::vector<Token>> off, one;
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        SamplingParams p;
        p.temperature = 1.5f;
        p.top_p = 1;
        p.min_p = 0;
        p.seed = seed;
        p.top_k = 0;
        const auto text = text_of(p);
        off.insert(text);
        p.top_k = -1;
        EXPECT_EQ(text_of(p), text);
        p.top_k = 500;
        EXPECT_EQ(text_of(p), text);
        p.top_k = 1;
        one.insert(text_of(p));
    }
    EXPECT_GE(off.size(), 8u);
    EXPECT_EQ(one.size(), 1u);
}

TEST(Seeds, SameSeedSameTextInEveryInstance) {
    SamplingParams p;
    p.temperature = 1.2f;
    p.seed = 42;
    EXPECT_EQ(text_of(p), text_of(p));
    EXPECT_NE(text_of(p, 0), text_of(p, 1)) << "the sequence is part of the key";
    std::set<std::vector<Token>> texts;
    for (const uint64_t seed : {uint64_t{4294967295}, uint64_t{1} << 53, uint64_t{7}, uint64_t{0},
                                std::numeric_limits<uint64_t>::max()}) {
        p.seed = seed;
        texts.insert(text_of(p));
    }
    EXPECT_EQ(texts.size(), 5u);
}

TEST(Seeds, DrawsDoNotDependOnEarlierDraws) {
    SamplingParams p = plain({});
    p.seed = 3;
    const auto logits = wavy_logits(500, 1);
    auto a = make_sampler(p, 500), b = make_sampler(p, 500);
    for (uint64_t i = 0; i < 50; ++i)
        (void)a->sample(logits, i);
    EXPECT_EQ(a->sample(logits, 77).value(), b->sample(logits, 77).value());
}

TEST(Draw, ChiSquare) {
    const std::vector<double> want = {0.30, 0.25, 0.15, 0.12, 0.08, 0.05, 0.03, 0.02};
    const auto logits = logits_of(want);
    SamplingParams p = plain({});
    p.seed = 2024;
    auto sampler = make_sampler(p, want.size());
    constexpr int kDraws = 40000;
    std::vector<int> seen(want.size());
    for (int i = 0; i < kDraws; ++i) {
        ++seen[static_cast<size_t>(sampler->sample(logits, static_cast<uint64_t>(i)).value())];
    }
    double chi = 0;
    for (size_t i = 0; i < want.size(); ++i) {
        const double expected = want[i] * kDraws;
        chi += (seen[i] - expected) * (seen[i] - expected) / expected;
    }
    EXPECT_LT(chi, 24.3);  // 7 degrees of freedom, one in a thousand
}

TEST(Draw, ChiSquareBeyondTheSortedPrefix) {
    // 400 equal candidates: the draw has to walk past what it sorts first.
    SamplingParams p = plain({});
    p.seed = 5;
    const std::vector<float> logits(400, 1.0f);
    auto sampler = make_sampler(p, 400);
    constexpr int kDraws = 40000;
    std::vector<int> seen(400);
    for (int i = 0; i < kDraws; ++i) {
        ++seen[static_cast<size_t>(sampler->sample(logits, static_cast<uint64_t>(i)).value())];
    }
    double chi = 0;
    for (const int n : seen)
        chi += (n - 100.0) * (n - 100.0) / 100;
    EXPECT_GT(chi, 399 - 4 * 28.3);  // 399 degrees of freedom, four deviations
    EXPECT_LT(chi, 399 + 4 * 28.3);
}

TEST(Candidates, SortedWithProbabilitiesThatSumToOne) {
    SamplingParams p = plain({"top_k"});
    const auto logits = wavy_logits(3000, 9);
    p.top_k = 0;
    const auto all = survivors(p, logits);
    ASSERT_EQ(all.size(), 3000u);
    double sum = 0;
    for (size_t i = 0; i < all.size(); ++i) {
        sum += static_cast<double>(all[i].p);
        if (i > 0) {
            ASSERT_GE(all[i - 1].logit, all[i].logit);
        }
    }
    EXPECT_NEAR(sum, 1, 1e-4);
    p.top_k = 3;
    const auto three = survivors(p, logits);
    ASSERT_EQ(three.size(), 3u);
    EXPECT_NEAR(three[0].p + three[1].p + three[2].p, 1, 1e-6);
    p.temperature = 0;
    const auto greedy = survivors(p, logits);
    ASSERT_EQ(greedy.size(), 1u);
    EXPECT_EQ(greedy[0].id, all[0].id);
    EXPECT_EQ(greedy[0].p, 1);
}

TEST(LogSoftmax, MatchesTheFormula) {
    std::vector<float> logits = {1, 2, 3, -kInf, 1000};
    log_softmax(logits, logits);
    EXPECT_NEAR(logits[4], 0, 1e-6);
    EXPECT_NEAR(logits[0], -999, 1e-3);
    EXPECT_EQ(logits[3], -kInf);
    std::vector<float> out(3);
    log_softmax(std::vector<float>{0, 0, std::log(2.0f)}, out);
    EXPECT_NEAR(out[2], std::log(0.5), 1e-6);
    EXPECT_NEAR(out[0], std::log(0.25), 1e-6);
}

}  // namespace
}  // namespace nib::test
