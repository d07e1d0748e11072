// SPDX-License-Identifier: MIT
// Top-n-sigma (Tang et al., 2024): keeps logits within n standard deviations of the best. Works on
// logits, so temperature does not change the set.
#include "src/sample/chain.h"

#include <cmath>

namespace nib {
namespace {

constexpr std::string_view kAliases[] = {"topnsigma", "nsigma"};

bool active(const SamplingParams& params) {
    return params.top_n_sigma >= 0;
}

void apply(CandidateSet& set, const ChainContext& context) {
    const std::span<const Candidate> items = set.items();
    const auto n = static_cast<double>(items.size());
    double mean = 0, variance = 0;
    for (const Candidate& item : items)
        mean += static_cast<double>(item.logit) / n;
    for (const Candidate& item : items) {
        const double away = static_cast<double>(item.logit) - mean;
        variance += away * away / n;
    }
    const double bar = static_cast<double>(set.best().logit) -
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
