// SPDX-License-Identifier: MIT
// DRY, "don't repeat yourself": a token that would lengthen a repetition of what the text ends with
// loses multiplier * base^(length of the repetition - allowed length). Linear in the window: with
// the window reversed, the Z array holds the length of the repetition at every earlier place.
//
//   window reversed:  r[0] is the newest token; z[i] = length of the common prefix of r and r[i..]
//   r[i - 1] is the token that followed that earlier occurrence, so it is the one to penalize.
#include "src/sample/chain.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nib {
namespace {

constexpr std::string_view kAliases[] = {"dry"};

bool active(const SamplingParams& params) {
    return params.dry_multiplier > 0 && params.dry_penalty_last_n != 0;
}

// Tokens at the end of the window that come after the newest breaker: no repetition reaches
// further.
size_t reach(std::span<const Token> window, const DryBreakers& breakers) {
    size_t after = 0;
    while (after < window.size() && !breakers.is_single(window[window.size() - 1 - after]))
        ++after;
    for (const std::vector<Token>& breaker : breakers.longer) {
        const size_t n = breaker.size();
        for (size_t end = window.size(); end >= n && window.size() - end < after; --end) {
            if (std::equal(breaker.begin(), breaker.end(), window.begin() + (end - n))) {
                after = window.size() - end;
                break;
            }
        }
    }
    return after;
}

// z[i] for the reversed window; z[0] stays 0.
void repetition_lengths(std::span<const Token> window, std::vector<uint32_t>& z) {
    const size_t n = window.size();
    const auto r = [&](size_t i) { return window[n - 1 - i]; };
    z.assign(n, 0);
    size_t left = 0, right = 0;  // the match that reaches furthest covers [left, right)
    for (size_t i = 1; i < n; ++i) {
        size_t length = i < right ? std::min<size_t>(right - i, z[i - left]) : 0;
        while (i + length < n && r(length) == r(i + length))
            ++length;
        z[i] = static_cast<uint32_t>(length);
        if (i + length > right) {
            left = i;
            right = i + length;
        }
    }
}

float penalty(uint32_t length, const SamplingParams& params) {
    const double extra = static_cast<double>(length) - params.dry_allowed_length;
    const double value = static_cast<double>(params.dry_multiplier) *
                         std::pow(static_cast<double>(params.dry_base), extra);
    return static_cast<float>(
        std::min(value, static_cast<double>(std::numeric_limits<float>::max())));
}

void apply(CandidateSet& set, const ChainContext& context) {
    const SamplingParams& params = context.params;
    std::span<const Token> window = context.history;
    if (params.dry_penalty_last_n > 0) {
        window =
            window.last(std::min(window.size(), static_cast<size_t>(params.dry_penalty_last_n)));
    }
    const size_t most = reach(window, context.breakers);
    const auto allowed = static_cast<size_t>(std::max(1, params.dry_allowed_length));
    if (most < allowed) return;

    std::vector<uint32_t>& z = context.scratch.lengths;
    repetition_lengths(window, z);
    auto& matches = context.scratch.matches;  // next token, length
    matches.clear();
    for (size_t i = 1; i < window.size(); ++i) {
        const size_t length = std::min<size_t>(z[i], most);
        const Token next = window[window.size() - i];
        if (length >= allowed && !context.breakers.is_single(next)) {
            matches.emplace_back(next, static_cast<uint32_t>(length));
        }
    }
    // Longest first for each token, then only that one.
    std::sort(matches.begin(), matches.end(), [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    matches.erase(std::unique(matches.begin(), matches.end(),
                              [](const auto& a, const auto& b) { return a.first == b.first; }),
                  matches.end());
    std::vector<Token>& ids = context.scratch.ids;
    ids.clear();
    for (const auto& match : matches)
        ids.push_back(match.first);
    set.update(ids, [&](size_t i, float logit) {
        if (logit < -std::numeric_limits<float>::max()) return logit;  // a ban stays a ban
        return std::max(logit - penalty(matches[i].second, params),
                        -std::numeric_limits<float>::max());
    });
}

}  // namespace

extern const SamplerDef sampler_dry = {.name = "dry",
                                       .letter = 'd',
                                       .aliases = kAliases,
                                       .shapes = true,
                                       .active = active,
                                       .apply = apply};

}  // namespace nib
