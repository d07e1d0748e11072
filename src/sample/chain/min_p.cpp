// SPDX-License-Identifier: MIT
// Min-p (Nguyen et al., 2024): keeps candidates at least min_p times as probable as the best. A
// ratio of probabilities is a difference of logits, so no softmax is needed.
#include "src/sample/chain.h"

#include <cmath>

namespace nib {
namespace {

constexpr std::string_view kAliases[] = {"minp"};

bool active(const SamplingParams& params) {
    return params.min_p > 0;
}

void apply(CandidateSet& set, const ChainContext& context) {
    const double bar =
        static_cast<double>(set.top()) + std::log(static_cast<double>(context.params.min_p));
    set.keep_at_least(bar, context.min_keep);
}

}  // namespace

extern const SamplerDef sampler_min_p = {.name = "min_p",
                                         .letter = 'm',
                                         .aliases = kAliases,
                                         .shapes = false,
                                         .active = active,
                                         .apply = apply};

}  // namespace nib
