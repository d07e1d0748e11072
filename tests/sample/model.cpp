// SPDX-License-Identifier: MIT
// Random chains against a plain model of them: double precision, everything sorted, each sampler as
// its definition says. Where the definition comes down to less than float precision (a mass that
// equals the share, a logit at the bar) both answers are right; the model says so and the case is
// left out, which the test allows for a few of them only.
#include "src/sample/chain.h"
#include "src/sample/random.h"
#include "src/sample/sampler.h"
#include "tests/sample/helpers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

namespace nib::test {
namespace {

constexpr double kClose = 3e-6;

struct Item {
    Token id;
    double x, p = 0, distance = 0;
};

class Model {
  public:
    Model(const SamplingParams& params, const std::vector<float>& logits) : p_(params) {
        for (size_t i = 0; i < logits.size(); ++i) {
            if (std::isfinite(logits[i])) items.push_back({static_cast<Token>(i), logits[i]});
        }
        sort();
    }

    void apply(const std::string& name, const std::vector<Token>& history, uint64_t position) {
        softmax();
        if (name == "penalties") penalties(history);
        if (name == "top_k" && p_.top_k > 0) keep(static_cast<size_t>(p_.top_k));
        if (name == "top_p") nucleus(static_cast<double>(p_.top_p));
        if (name == "typ_p" && p_.typical_p < 1) typical();
        if (name == "min_p" && p_.min_p > 0) {
            keep_above(items[0].x + std::log(static_cast<double>(p_.min_p)));
        }
        if (name == "top_n_sigma" && p_.top_n_sigma >= 0) sigma();
        if (name == "xtc") xtc(position);
        if (name == "temperature") temperature();
        softmax();
    }

    std::vector<Item> items;  // best first
    bool close = false;       // an answer may differ

  private:
    void sort() {
        std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
            return a.x != b.x ? a.x > b.x : a.id < b.id;
        });
    }
    void softmax() {
        double sum = 0;
        for (const Item& item : items)
            sum += std::exp(item.x - items[0].x);
        for (Item& item : items)
            item.p = std::exp(item.x - items[0].x) / sum;
    }
    double entropy() const {
        double sum = 0;
        for (const Item& item : items)
            sum -= item.p > 0 ? item.p * std::log(item.p) : 0;
        return sum;
    }
    void near(double a, double b) {
        close |= std::fabs(a - b) < kClose * std::max(1.0, std::fabs(a));
    }
    void keep(size_t n) {
        n = std::max({n, static_cast<size_t>(p_.min_keep), size_t{1}});
        if (n >= items.size()) return;
        if (items[n - 1].x != items[n].x) near(items[n - 1].x, items[n].x);
        items.resize(n);
    }
    // The length of the prefix that reaches the mass.
    size_t prefix(double share) {
        double mass = 0;
        size_t n = 0;
        while (n < items.size()) {
            mass += items[n++].p;
            if (n < static_cast<size_t>(std::max(1, p_.min_keep))) continue;
            close |= std::fabs(mass - share) < kClose;
            if (mass >= share) break;
        }
        return n;
    }
    void nucleus(double share) {
        if (share < 1) keep(prefix(share));
    }
    void typical() {
        const double h = entropy();
        for (Item& item : items)
            item.distance = std::fabs(-std::log(item.p) - h);
        std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
            return a.distance != b.distance ? a.distance < b.distance : a.id < b.id;
        });
        const size_t n = prefix(static_cast<double>(p_.typical_p));
        if (n < items.size()) {
            const Item &last = items[n - 1], &next = items[n];
            if (last.x != next.x) near(last.distance, next.distance);
            items.resize(n);
        }
        sort();
    }
    void keep_above(double bar) {
        size_t n = 0;
        for (const Item& item : items) {
            near(item.x, bar);
            n += item.x >= bar ? 1 : 0;
        }
        keep(n);
    }
    void sigma() {
        const auto n = static_cast<double>(items.size());
        double mean = 0, variance = 0;
        for (const Item& item : items)
            mean += item.x / n;
        for (const Item& item : items)
            variance += (item.x - mean) * (item.x - mean) / n;
        keep_above(items[0].x - static_cast<double>(p_.top_n_sigma) * std::sqrt(variance));
    }
    void xtc(uint64_t position) {
        if (p_.xtc_threshold > 0.5f) return;
        const double chance = uniform_random(p_.seed, 0, position, kXtcStream);
        if (chance >= static_cast<double>(p_.xtc_probability)) return;
        const auto threshold = static_cast<double>(p_.xtc_threshold);
        size_t above = 0;
        for (const Item& item : items) {
            close |= std::fabs(item.p - threshold) < kClose * threshold;
            above += item.p >= threshold ? 1 : 0;
        }
        if (above < 2 || items.size() - above + 1 < static_cast<size_t>(p_.min_keep)) return;
        items.erase(items.begin(), items.begin() + static_cast<ptrdiff_t>(above - 1));
    }
    void penalties(const std::vector<Token>& history) {
        std::map<Token, int32_t> counts;
        for (const Token token : history)
            ++counts[token];
        for (Item& item : items) {
            const auto found = counts.find(item.id);
            if (found == counts.end()) continue;
            item.x = static_cast<double>(penalized(static_cast<float>(item.x), found->second, p_));
        }
        sort();
    }
    void temperature() {
        auto t = static_cast<double>(p_.temperature);
        if (p_.dynatemp_range > 0 && items.size() > 1) {
            const double low = std::max(0.0, t - static_cast<double>(p_.dynatemp_range));
            const double high = t + static_cast<double>(p_.dynatemp_range);
            const double share = entropy() / std::log(static_cast<double>(items.size()));
            t = low + (high - low) * std::pow(share, static_cast<double>(p_.dynatemp_exponent));
        }
        for (Item& item : items)
            item.x = static_cast<double>(static_cast<float>(item.x / t));
        sort();
    }

    const SamplingParams& p_;
};

using Random = std::mt19937;

float between(Random& random, double low, double high) {
    return static_cast<float>(low + (high - low) * (random() / 4294967296.0));
}

bool one_in(Random& random, uint32_t n) {
    return random() % n == 0;
}

std::vector<float> random_logits(Random& random, size_t n) {
    std::normal_distribution<float> normal(0, 1);
    const float sd = one_in(random, 3) ? between(random, 0, 0.5) : between(random, 0.5, 4);
    const bool ties = one_in(random, 4), bans = one_in(random, 4), peaks = !one_in(random, 3);
    std::vector<float> out(n);
    for (float& x : out) {
        x = normal(random) * sd;
        if (ties) x = std::round(x * 4) / 4;
        if (bans && one_in(random, 3)) x = -std::numeric_limits<float>::infinity();
    }
    for (int i = 0; peaks && i < 6; ++i)
        out[random() % n] = between(random, 5, 20);
    if (!std::any_of(out.begin(), out.end(), [](float x) { return std::isfinite(x); })) out[0] = 1;
    return out;
}

SamplingParams random_params(Random& random, size_t n) {
    SamplingParams p = plain(
        {"penalties", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"});
    std::shuffle(p.samplers.begin(), p.samplers.end(), random);
    p.seed = random();
    p.temperature = one_in(random, 3) ? 1 : between(random, 0.3, 2);
    if (one_in(random, 3)) p.top_k = static_cast<int32_t>(random() % n + 1);
    if (one_in(random, 2))
        p.top_p = one_in(random, 2) ? between(random, 0.9, 1) : between(random, 0, 1);
    if (one_in(random, 3)) p.min_p = std::pow(10.0f, between(random, -6, 0));
    if (one_in(random, 3)) p.typical_p = between(random, 0.05, 0.99);
    if (one_in(random, 4)) p.top_n_sigma = between(random, 0, 8);
    if (one_in(random, 3)) p.xtc_probability = between(random, 0.3, 1);
    p.xtc_threshold = one_in(random, 2) ? between(random, 0.02, 0.5) : between(random, 1e-5, 0.01);
    if (one_in(random, 4)) p.dynatemp_range = between(random, 0, 0.3);
    if (one_in(random, 4)) p.repeat_penalty = between(random, 0.9, 1.5);
    if (one_in(random, 4)) p.frequency_penalty = between(random, -0.3, 0.3);
    if (one_in(random, 6)) p.min_keep = static_cast<int32_t>(random() % std::min<size_t>(n, 300));
    p.repeat_last_n = -1;
    return p;
}

void expect_same(const Model& model, std::span<const Candidate> got) {
    ASSERT_EQ(got.size(), model.items.size());
    std::map<Token, double> want;
    for (const Item& item : model.items)
        want[item.id] = item.p;
    for (const Candidate& candidate : got) {
        ASSERT_TRUE(want.count(candidate.id)) << candidate.id;
        const double p = want[candidate.id];
        ASSERT_NEAR(static_cast<double>(candidate.p), p, 1e-5 * p + 1e-12) << candidate.id;
    }
}

// The chosen token covers the random number in the best-first sum of probabilities.
void expect_drawn(const Model& model, Token token, double u) {
    double before = 0;
    for (const Item& item : model.items) {
        if (item.id == token) {
            EXPECT_LE(before, u + 1e-6);
            EXPECT_GE(before + item.p, u - 1e-6);
            return;
        }
        before += item.p;
    }
    FAIL() << token << " is not among the candidates";
}

TEST(Model, RandomChainsKeepTheSameCandidatesAndDrawTheSameToken) {
    Random random(20);
    const size_t sizes[] = {1, 2, 5, 40, 300, 2500, 7001};
    constexpr int kCases = 700;
    int left_out = 0;
    for (int i = 0; i < kCases; ++i) {
        const size_t n = sizes[random() % std::size(sizes)];
        const std::vector<float> logits = random_logits(random, n);
        const SamplingParams p = random_params(random, n);
        std::vector<Token> history(random() % 50);
        for (Token& token : history)
            token = static_cast<Token>(random() % n);
        auto sampler = make_sampler(p, n);
        sampler->accept(history);
        const auto token = sampler->sample(logits, history.size());
        ASSERT_TRUE(token.ok()) << token.error().message;
        Model model(p, logits);
        for (const std::string& name : p.samplers)
            model.apply(name, history, history.size());
        if (model.close) {
            ++left_out;
            continue;
        }
        SCOPED_TRACE("case " + std::to_string(i));
        expect_same(model, sampler->candidates());
        expect_drawn(model, token.value(), uniform_random(p.seed, 0, history.size(), kDrawStream));
        if (HasFatalFailure()) return;
    }
    EXPECT_LT(left_out, kCases / 4);
}

}  // namespace
}  // namespace nib::test
