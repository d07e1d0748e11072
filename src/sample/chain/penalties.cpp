// SPDX-License-Identifier: MIT
// The repeat, presence and frequency penalties over the last repeat_last_n tokens. Repeat and
// presence act once per distinct token, frequency once per occurrence.
#include "src/sample/chain.h"

#include <algorithm>
#include <limits>

namespace nib {

float penalized(float logit, int32_t count, const SamplingParams& params) {
    constexpr double kLargest = std::numeric_limits<float>::max();
    if (logit < -std::numeric_limits<float>::max()) return logit;  // a ban stays a ban
    const auto repeat = static_cast<double>(params.repeat_penalty);
    auto value = static_cast<double>(logit);
    value = value > 0 ? value / repeat : value * repeat;
    value -= static_cast<double>(params.presence_penalty);
    value -= static_cast<double>(params.frequency_penalty) * count;
    return static_cast<float>(std::clamp(value, -kLargest, kLargest));
}

void apply_penalties(std::span<float> logits,
                     std::span<const Token> history,
                     const SamplingParams& params) {
    if (params.repeat_last_n >= 0) {
        history = history.last(
            std::min<size_t>(history.size(), static_cast<size_t>(params.repeat_last_n)));
    }
    std::vector<Token> tokens(history.begin(), history.end());
    std::sort(tokens.begin(), tokens.end());
    for (size_t i = 0; i < tokens.size();) {
        size_t end = i + 1;
        while (end < tokens.size() && tokens[end] == tokens[i])
            ++end;
        if (tokens[i] >= 0 && static_cast<size_t>(tokens[i]) < logits.size()) {
            float& logit = logits[static_cast<size_t>(tokens[i])];
            logit = penalized(logit, static_cast<int32_t>(end - i), params);
        }
        i = end;
    }
}

namespace {

constexpr std::string_view kAliases[] = {"penalties", "penalty"};

bool active(const SamplingParams& params) {
    return params.repeat_last_n != 0 &&
           (params.repeat_penalty != 1 || params.presence_penalty != 0 ||
            params.frequency_penalty != 0);
}

void apply(CandidateSet& set, const ChainContext& context) {
    const std::span<const Token> tokens = context.counts->tokens();
    set.update(tokens, [&](size_t i, float logit) {
        return penalized(logit, context.counts->count(tokens[i]), context.params);
    });
}

}  // namespace

extern const SamplerDef sampler_penalties = {.name = "penalties",
                                             .letter = 'e',
                                             .aliases = kAliases,
                                             .shapes = true,
                                             .active = active,
                                             .apply = apply};

}  // namespace nib
