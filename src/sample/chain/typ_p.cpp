// SPDX-License-Identifier: MIT
// Locally typical sampling (Meister et al., 2022): candidates whose surprise is nearest to the
// entropy, until their mass reaches p. The best candidate may well be dropped.
#include "src/sample/chain.h"

#include <cmath>

namespace nib {
namespace {

constexpr std::string_view kAliases[] = {"typp", "typ", "typical", "typicalp"};

bool active(const SamplingParams& params) {
    return params.typical_p < 1;
}

void apply(CandidateSet& set, const ChainContext& context) {
    // The surprise of a candidate is log total + top - logit. It equals the entropy at one logit,
    // and its distance from the entropy is the distance from that logit.
    const double center = static_cast<double>(set.top()) + std::log(set.total()) - set.entropy();
    set.keep_nearest(center, static_cast<double>(context.params.typical_p), context.min_keep);
}

}  // namespace

extern const SamplerDef sampler_typ_p = {.name = "typ_p",
                                         .letter = 'y',
                                         .aliases = kAliases,
                                         .shapes = false,
                                         .active = active,
                                         .apply = apply};

}  // namespace nib
