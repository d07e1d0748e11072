// SPDX-License-Identifier: MIT
// Short forms for the sampler tests: parameters with everything off, and the survivors of one
// token.
#pragma once
#include "src/sample/sampler.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace nib::test {

// Temperature 1 and every sampler off; `samplers` is the chain to test.
inline SamplingParams plain(std::vector<std::string> samplers) {
    SamplingParams p;
    p.temperature = 1;
    p.top_k = 0;
    p.top_p = 1;
    p.min_p = 0;
    p.samplers = std::move(samplers);
    return p;
}

inline std::unique_ptr<Sampler> make_sampler(const SamplingParams& params,
                                             size_t n_vocab,
                                             uint64_t sequence = 0) {
    auto made = Sampler::create(params, static_cast<int32_t>(n_vocab), sequence);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    return made.ok() ? std::move(made).value() : nullptr;
}

// The candidates after the chain, best first.
inline std::vector<Candidate> survivors(const SamplingParams& params,
                                        const std::vector<float>& logits,
                                        const std::vector<Token>& history = {}) {
    auto sampler = make_sampler(params, logits.size());
    sampler->accept(history);
    const auto token = sampler->sample(logits, history.size());
    EXPECT_TRUE(token.ok()) << (token.ok() ? "" : token.error().message);
    const auto left = sampler->candidates();
    return {left.begin(), left.end()};
}

inline std::vector<Token> ids(const std::vector<Candidate>& candidates) {
    std::vector<Token> out;
    for (const Candidate& c : candidates)
        out.push_back(c.id);
    return out;
}

// Logits whose softmax is `p`.
std::vector<float> logits_of(const std::vector<double>& p);
// Reproducible logits: no two equal in practice, shaped like a model's.
std::vector<float> wavy_logits(size_t n, uint32_t salt);

}  // namespace nib::test
