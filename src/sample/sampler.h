// SPDX-License-Identifier: MIT
// From logits to a token: bias, penalties, DRY, the truncation chain, temperature, and a draw whose
// random number depends on (seed, sequence, position) only, never on batch mates or threads. Ties
// go to the lower token id. One file per sampler in this folder; each ends with one `extern const
// SamplerDef`.
//
// Threads: a Sampler belongs to one sequence and is used by one thread at a time.
#pragma once
#include "ggml-like/result.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nib {

using Token = int32_t;

// Defaults and ranges are those of the flags and request fields of the same names.
struct SamplingParams {
    float temperature = 0.8f;  // <= 0: greedy (0..100)
    float dynatemp_range = 0;  // 0: off
    float dynatemp_exponent = 1;
    int32_t top_k = 40;          // 0 or -1: the whole vocabulary
    float top_p = 0.95f;         // 1: off
    float min_p = 0.05f;         // 0: off
    float typical_p = 1.0f;      // 1: off
    float top_n_sigma = -1;      // < 0: off
    float xtc_probability = 0;   // 0: off
    float xtc_threshold = 0.1f;  // > 0.5: off
    int32_t repeat_last_n = 64;  // 0: off, -1: everything
    float repeat_penalty = 1.0f;
    float presence_penalty = 0;
    float frequency_penalty = 0;
    float dry_multiplier = 0;  // 0: off
    float dry_base = 1.75f;
    int32_t dry_allowed_length = 2;
    int32_t dry_penalty_last_n = 64;  // 0: off, -1: everything
    // Tokens that end a repetition; made from the breaker strings with the vocabulary by
    // make_dry_breakers.
    std::vector<std::vector<Token>> dry_breakers;
    uint64_t seed = 0;                                // already drawn if the user gave -1
    std::vector<std::pair<Token, float>> logit_bias;  // -inf bans
    int32_t min_keep = 0;
    // Order of the chain. Names: penalties dry top_n_sigma top_k typ_p top_p min_p xtc temperature.
    std::vector<std::string> samplers = {"penalties", "dry",   "top_n_sigma", "top_k",      "typ_p",
                                         "top_p",     "min_p", "xtc",         "temperature"};
};

// BadRequest naming the field and its range; n_vocab bounds ids and top_k.
Result<void> check_params(const SamplingParams& params, int32_t n_vocab);
// "top_k;top_p" or the letters "edskypmxt"; names also with dashes, without separators, or
// "nucleus".
Result<std::vector<std::string>> parse_sampler_list(std::string_view text);

struct Candidate {
    Token id;
    float logit;
    float p;  // valid after softmax
};

class Sampler {
  public:
    // `sequence` keys the random numbers beside the seed. History starts empty.
    static Result<std::unique_ptr<Sampler>> create(const SamplingParams& params,
                                                   int32_t n_vocab,
                                                   uint64_t sequence = 0);

    // Tokens that penalties and DRY look back on: the prompt first, then each chosen token.
    void accept(Token token);
    void accept(std::span<const Token> tokens);
    void reset();

    // Chooses the token for `position` (of the chosen token in its sequence). logits: [n_vocab],
    // unchanged. Errors: Internal if no logit is finite or one is NaN ("model_output_invalid");
    // BadRequest if every token is banned ("no_token_allowed").
    Result<Token> sample(std::span<const float> logits, uint64_t position);

    // The candidates that survived the last sample(), best first, with their probabilities.
    std::span<const Candidate> candidates() const;
    const SamplingParams& params() const;
    ~Sampler();

  private:
    Sampler();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// The penalties alone, in place, on full logits: repeat (once per distinct token: positive divided,
// negative multiplied), presence (once), frequency (times the count). history: oldest first.
void apply_penalties(std::span<float> logits,
                     std::span<const Token> history,
                     const SamplingParams& params);
// log-softmax in double; out may be logits.
void log_softmax(std::span<const float> logits, std::span<float> out);
// Uniform in [0, 1): a counter-based generator (Philox 4x32-10), the same on every machine.
// stream 0: the token draw; samplers use their own stream numbers.
double uniform_random(uint64_t seed, uint64_t sequence, uint64_t position, uint32_t stream);

}  // namespace nib
