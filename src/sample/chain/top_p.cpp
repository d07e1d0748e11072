// SPDX-License-Identifier: MIT
// Nucleus sampling (Holtzman et al., 2019): the smallest set of best candidates with mass >= p.
#include "src/sample/chain.h"

namespace nib {
namespace {

constexpr std::string_view kAliases[] = {"topp", "nucleus"};

bool active(const SamplingParams& params) {
    return params.top_p < 1;
}

void apply(CandidateSet& set, const ChainContext& context) {
    set.keep_nucleus(static_cast<double>(context.params.top_p), context.min_keep);
}

}  // namespace

extern const SamplerDef sampler_top_p = {.name = "top_p",
                                         .letter = 'p',
                                         .aliases = kAliases,
                                         .shapes = false,
                                         .active = active,
                                         .apply = apply};

}  // namespace nib
