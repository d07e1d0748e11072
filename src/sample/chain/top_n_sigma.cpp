// SPDX-License-Identifier: MIT
// Top-n-sigma (Tang et al., 2024): keeps logits within n standard deviations of the best. Works on
// logits, so temperature does not change the set.
#include "src/sample/chain.h"

#include <algorithm>
#include <cmath>

namespace nib {
namespace {

constexpr std::string_view kAliases[] = {"topnsigma", "nsigma"};

bool active(const SamplingParams& params) {
    return params.top_n_sigma >= 0;
}

void apply(CandidateSet& set, const ChainContext& context) {
    const auto n = static_cast<double>(set.size());
    // Measured from the top, where a common offset of the logits cannot cost precision.
    const Moments below = moments_below(set.logits(), set.top());
    const double mean = below.sum / n;
    const double variance = std::max(0.0, below.squares / n - mean * mean);
    const double bar = static_cast<double>(set.top()) -
                       static_cast<double>(context.params.top_n_sigma) * std::sqrt(variance);
    set.keep_at_least(bar, context.min_keep);
}

}  // namespace

extern const SamplerDef sampler_top_n_sigma = {.name = "top_n_sigma",
                                               .letter = 's',
                                               .aliases = kAliases,
                                               .shapes = false,
                                               .active = active,
                                               .apply = apply};

}  // namespace nib
