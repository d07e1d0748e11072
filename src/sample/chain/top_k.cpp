// SPDX-License-Identifier: MIT
// Keeps the k best candidates.
#include "src/sample/chain.h"

#include <algorithm>

namespace nib {
namespace {

constexpr std::string_view kAliases[] = {"topk"};

bool active(const SamplingParams& params) {
    return params.top_k > 0;
}

void apply(CandidateSet& set, const ChainContext& context) {
    set.keep_top(std::max(static_cast<size_t>(context.params.top_k), context.min_keep));
}

}  // namespace

extern const SamplerDef sampler_top_k = {.name = "top_k",
                                         .letter = 'k',
                                         .aliases = kAliases,
                                         .shapes = false,
                                         .active = active,
                                         .apply = apply};

}  // namespace nib
