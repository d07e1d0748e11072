// SPDX-License-Identifier: MIT
// XTC, exclude top choices: with a probability, drops every candidate of at least the threshold
// except the least probable of them. What is left still makes sense, but is not what the model
// always says.
#include "src/sample/chain.h"
#include "src/sample/random.h"

namespace nib {
namespace {

constexpr std::string_view kAliases[] = {"xtc"};

bool active(const SamplingParams& params) {
    // Two candidates cannot both have more than a half.
    return params.xtc_probability > 0 && params.xtc_threshold <= 0.5f;
}

void apply(CandidateSet& set, const ChainContext& context) {
    const SamplingParams& params = context.params;
    const double chance =
        uniform_random(params.seed, context.sequence, context.position, kXtcStream);
    if (chance >= static_cast<double>(params.xtc_probability)) return;
    // A probability is a weight over the total.
    const double bar = static_cast<double>(params.xtc_threshold) * set.total();
    const size_t above = count_at_least(set.weights(), static_cast<float>(bar));
    if (above < 2) return;
    const size_t dropped = above - 1;
    if (set.size() - dropped < context.min_keep) return;
    set.drop_top(dropped);
}

}  // namespace

extern const SamplerDef sampler_xtc = {.name = "xtc",
                                       .letter = 'x',
                                       .aliases = kAliases,
                                       .shapes = false,
                                       .active = active,
                                       .apply = apply};

}  // namespace nib
