// SPDX-License-Identifier: MIT
// Temperature, fixed or moving with the entropy of the candidates. Zero never comes here: greedy
// decoding takes the best candidate without a chain.
#include "src/sample/chain.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nib {
namespace {

constexpr std::string_view kAliases[] = {"temperature", "temp"};

bool active(const SamplingParams& params) {
    return params.temperature != 1 || params.dynatemp_range > 0;
}

// Entropy over its maximum, in [0, 1].
double relative_entropy(CandidateSet& set) {
    return std::clamp(set.entropy() / std::log(static_cast<double>(set.size())), 0.0, 1.0);
}

double temperature_now(CandidateSet& set, const SamplingParams& params) {
    const auto middle = static_cast<double>(params.temperature);
    const auto range = static_cast<double>(params.dynatemp_range);
    if (range <= 0 || set.size() < 2) return middle;
    const double low = std::max(0.0, middle - range), high = middle + range;
    const double share =
        std::pow(relative_entropy(set), static_cast<double>(params.dynatemp_exponent));
    return low + (high - low) * share;
}

void apply(CandidateSet& set, const ChainContext& context) {
    const double temperature = temperature_now(set, context.params);
    constexpr double kLargest = std::numeric_limits<float>::max();
    // So cold that the best logit would leave the range of a float: only the best is left.
    if (std::fabs(static_cast<double>(set.top())) >= kLargest * temperature) {
        set.keep_top(1);
        return;
    }
    set.scale(1 / temperature);
}

}  // namespace

extern const SamplerDef sampler_temperature = {.name = "temperature",
                                               .letter = 't',
                                               .aliases = kAliases,
                                               .shapes = false,
                                               .active = active,
                                               .apply = apply};

}  // namespace nib
