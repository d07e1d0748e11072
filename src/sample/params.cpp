// SPDX-License-Identifier: MIT
// What may be asked of the sampler: every field has a range, and an error names the field, the
// range and what was given. The same checks serve the command line and requests.
#include "src/sample/chain.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <limits>

namespace nib {
namespace {

constexpr size_t kBiasesMax = 4096;
constexpr size_t kSamplersMax = 64;

std::string text_of(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}

Error out_of_range(const char* field, const std::string& expected, const std::string& got) {
    return {Status::BadRequest, std::string(field) + ": expected " + expected + ", got " + got};
}

struct Check {
    const char* field;
    double value, low, high;
};

Result<void> check(const Check& c) {
    if (c.value >= c.low && c.value <= c.high) return {};  // a NaN fails both
    return out_of_range(c.field, "a number from " + text_of(c.low) + " to " + text_of(c.high),
                        text_of(c.value));
}

struct CountCheck {
    const char* field;
    int64_t value, low, high;
};

Result<void> check(const CountCheck& c) {
    if (c.value >= c.low && c.value <= c.high) return {};
    return out_of_range(
        c.field, "an integer from " + std::to_string(c.low) + " to " + std::to_string(c.high),
        std::to_string(c.value));
}

Result<void> check_bias(const SamplingParams& params, int32_t n_vocab) {
    if (params.logit_bias.size() > kBiasesMax) {
        return out_of_range("logit_bias", "at most " + std::to_string(kBiasesMax) + " entries",
                            std::to_string(params.logit_bias.size()));
    }
    for (const auto& [token, bias] : params.logit_bias) {
        if (token < 0 || token >= n_vocab) {
            return out_of_range("logit_bias", "token ids from 0 to " + std::to_string(n_vocab - 1),
                                std::to_string(token));
        }
        if (bias == -std::numeric_limits<float>::infinity()) continue;
        if (!(bias >= -100 && bias <= 100)) {
            return out_of_range("logit_bias", "values from -100 to 100 or a ban",
                                text_of(static_cast<double>(bias)));
        }
    }
    return {};
}

std::string known_names() {
    std::string names;
    for (const SamplerDef* def : all_samplers()) {
        if (!names.empty()) names += ' ';
        names += def->name;
    }
    return names;
}

Error unknown_sampler(std::string_view name) {
    return {Status::BadRequest,
            "samplers: expected names of " + known_names() + ", got \"" + std::string(name) + "\""};
}

// Lower case without separators: "Top-K" is "topk".
std::string bare(std::string_view name) {
    std::string out;
    for (const char c : name) {
        if (c == '-' || c == '_' || c == ' ') continue;
        out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return out;
}

const SamplerDef* by_name(std::string_view text) {
    const std::string name = bare(text);
    for (const SamplerDef* def : all_samplers()) {
        const auto& aliases = def->aliases;
        if (std::find(aliases.begin(), aliases.end(), name) != aliases.end()) return def;
    }
    return nullptr;
}

const SamplerDef* by_letter(char letter) {
    for (const SamplerDef* def : all_samplers()) {
        if (def->letter == letter) return def;
    }
    return nullptr;
}

}  // namespace

Result<void> check_params(const SamplingParams& p, int32_t n_vocab) {
    // The default must fit a vocabulary of any size, so a small one does not lower the bound below
    // it.
    const int64_t top_k_max = std::max<int64_t>(n_vocab, SamplingParams().top_k);
    constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();
    const Check numbers[] = {
        {"temperature", p.temperature, 0, 100},
        {"dynatemp_range", p.dynatemp_range, 0, 100},
        {"dynatemp_exponent", p.dynatemp_exponent, 0, 100},
        {"top_p", p.top_p, 0, 1},
        {"min_p", p.min_p, 0, 1},
        {"typical_p", p.typical_p, 0, 1},
        {"top_n_sigma", p.top_n_sigma, -1, 1000},
        {"xtc_probability", p.xtc_probability, 0, 1},
        {"xtc_threshold", p.xtc_threshold, 0, 1},
        {"repeat_penalty", p.repeat_penalty, 0, 10},
        {"presence_penalty", p.presence_penalty, -2, 2},
        {"frequency_penalty", p.frequency_penalty, -2, 2},
        {"dry_multiplier", p.dry_multiplier, 0, 100},
        {"dry_base", p.dry_base, 1, 100},
    };
    const CountCheck counts[] = {
        {"top_k", p.top_k, -1, top_k_max},
        {"repeat_last_n", p.repeat_last_n, -1, kIntMax},
        {"dry_allowed_length", p.dry_allowed_length, 0, kIntMax},
        {"dry_penalty_last_n", p.dry_penalty_last_n, -1, kIntMax},
        {"min_keep", p.min_keep, 0, n_vocab},
    };
    for (const Check& c : numbers)
        NIB_TRY(check(c));
    for (const CountCheck& c : counts)
        NIB_TRY(check(c));
    NIB_TRY(check_bias(p, n_vocab));
    if (p.samplers.size() > kSamplersMax) {
        return out_of_range("samplers", "at most " + std::to_string(kSamplersMax) + " names",
                            std::to_string(p.samplers.size()));
    }
    for (const std::string& name : p.samplers) {
        const SamplerDef* def = by_name(name);
        if (!def || name != def->name) return unknown_sampler(name);
    }
    return {};
}

Result<std::vector<std::string>> parse_sampler_list(std::string_view text) {
    std::vector<std::string> names;
    const auto add = [&](const SamplerDef* def) { names.emplace_back(def->name); };
    if (text.empty()) return names;
    if (text.find_first_of(";,") == std::string_view::npos && !by_name(text)) {
        for (const char letter : text) {
            const SamplerDef* def = by_letter(letter);
            if (!def) return unknown_sampler(text);
            add(def);
        }
        return names;
    }
    while (!text.empty()) {
        const size_t end = std::min(text.find_first_of(";,"), text.size());
        const std::string_view name = text.substr(0, end);
        const SamplerDef* def = by_name(name);
        if (!def) return unknown_sampler(name);
        add(def);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return names;
}

}  // namespace nib
