// SPDX-License-Identifier: MIT
// Nucleus sampling (Holtzman et al., 2019): the smallest set of best candidates with mass >= p.
#include "src/sample/chain.h"

namespace nib {
namespace {

constexpr std::string_view kAliases[] = {"topp", "nucleus"};
// Most nuclei are this small; each further round sorts four times as many.
constexpr size_t kFirstSorted = 128;

bool active(const SamplingParams& params) {
    return params.top_p < 1;
}

void apply(CandidateSet& set, const ChainContext& context) {
    set.softmax();
    const auto p = static_cast<double>(context.params.top_p);
    double mass = 0;
    size_t n = 0;
    for (size_t sorted = kFirstSorted; n < set.size(); sorted *= 4) {
        const std::span<const Candidate> items = set.sort_prefix(sorted);
        for (; n < items.size() && n < sorted; ++n) {
            if (n > 0 && mass >= p && n >= context.min_keep) {
                set.keep_prefix(n);
                return;
            }
            mass += static_cast<double>(items[n].p);
        }
    }
}

}  // namespace

extern const SamplerDef sampler_top_p = {.name = "top_p",
                                         .letter = 'p',
                                         .aliases = kAliases,
                                         .shapes = false,
                                         .active = active,
                                         .apply = apply};

}  // namespace nib
