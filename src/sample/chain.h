// SPDX-License-Identifier: MIT
// What one sampler of the chain is, and what it sees. A sampler changes logits or drops candidates;
// it keeps at least max(1, min_keep) of them, draws nothing but numbers of its own stream, and
// remembers nothing.
#pragma once
#include "src/sample/candidates.h"
#include "src/sample/sampler.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace nib {

// How often each token occurs in a sliding window of the history. Constant work per accepted token.
class TokenCounts {
  public:
    TokenCounts(int32_t n_vocab, int32_t window);  // window: -1 is everything
    void add(std::span<const Token> history);      // the last element is new
    void clear();
    std::span<const Token> tokens();  // the distinct ones, ascending
    int32_t count(Token token) const { return counts_[static_cast<size_t>(token)]; }

  private:
    int32_t window_;
    bool sorted_ = true;
    std::vector<int32_t> counts_;  // [n_vocab]
    std::vector<Token> tokens_;    // every token with a count, and some that have lost theirs
    std::vector<bool> listed_;     // [n_vocab]: is in tokens_
};

// The sequences at which DRY starts again: single tokens apart, because nearly all are.
struct DryBreakers {
    std::vector<Token> single;  // ascending
    std::vector<std::vector<Token>> longer;
    bool is_single(Token token) const;
};

// Storage that samplers use while they run, kept between tokens.
struct ChainScratch {
    std::vector<uint32_t> lengths;
    std::vector<std::pair<Token, uint32_t>> matches;
    std::vector<Token> ids;
};

struct ChainContext {
    const SamplingParams& params;
    std::span<const Token> history;  // oldest first
    TokenCounts* counts;             // of the penalty window; null if no penalty is on
    const DryBreakers& breakers;
    ChainScratch& scratch;
    uint64_t sequence, position;
    size_t min_keep;
};

struct SamplerDef {
    const char* name;
    char letter;                                // in --sampler-seq
    std::span<const std::string_view> aliases;  // without separators: "topk"
    bool shapes;  // changes logits before a choice, so greedy decoding uses it too
    bool (*active)(const SamplingParams& params);
    void (*apply)(CandidateSet& set, const ChainContext& context);
};

// All samplers, in name order; written by CMake from the files of chain/.
std::span<const SamplerDef* const> all_samplers();

// One token's logit after the repeat, presence and frequency penalties; count >= 1. Never infinite.
float penalized(float logit, int32_t count, const SamplingParams& params);

}  // namespace nib
