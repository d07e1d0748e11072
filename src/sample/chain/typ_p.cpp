// SPDX-License-Identifier: MIT
// Locally typical sampling (Meister et al., 2022): candidates whose surprise is nearest to the
// entropy, until their mass reaches p. The best candidate may well be dropped.
#include "src/sample/chain.h"

#include <algorithm>
#include <cmath>

namespace nib {
namespace {

constexpr std::string_view kAliases[] = {"typp", "typ", "typical", "typicalp"};
constexpr size_t kFirstSorted = 256;

bool active(const SamplingParams& params) {
    return params.typical_p < 1;
}

double surprise(float p) {
    return -std::log(static_cast<double>(p));
}

void apply(CandidateSet& set, const ChainContext& context) {
    set.softmax();
    const std::span<const Candidate> items = set.items();
    double entropy = 0;
    for (const Candidate& item : items) {
        if (item.p > 0) entropy += static_cast<double>(item.p) * surprise(item.p);
    }
    auto& keys = context.scratch.keys;  // distance from the entropy, index
    keys.clear();
    for (size_t i = 0; i < items.size(); ++i) {
        const double distance = std::fabs(surprise(items[i].p) - entropy);
        keys.emplace_back(static_cast<float>(distance), static_cast<uint32_t>(i));
    }
    const auto nearer = [&](const auto& a, const auto& b) {
        return a.first != b.first ? a.first < b.first : items[a.second].id < items[b.second].id;
    };
    auto& kept = context.scratch.indices;
    kept.clear();
    double mass = 0;
    for (size_t sorted = 0; sorted < keys.size();) {
        const size_t next = std::min(keys.size(), std::max(kFirstSorted, sorted * 4));
        const auto begin = keys.begin() + static_cast<ptrdiff_t>(sorted);
        const auto end = keys.begin() + static_cast<ptrdiff_t>(next);
        if (end != keys.end()) std::nth_element(begin, end, keys.end(), nearer);
        std::sort(begin, end, nearer);
        for (; sorted < next; ++sorted) {
            if (sorted > 0 && mass >= static_cast<double>(context.params.typical_p) &&
                sorted >= context.min_keep) {
                set.keep_indices(kept);
                return;
            }
            mass += static_cast<double>(items[keys[sorted].second].p);
            kept.push_back(keys[sorted].second);
        }
    }
}

}  // namespace

extern const SamplerDef sampler_typ_p = {.name = "typ_p",
                                         .letter = 'y',
                                         .aliases = kAliases,
                                         .shapes = false,
                                         .active = active,
                                         .apply = apply};

}  // namespace nib
