// SPDX-License-Identifier: MIT
// The sliding window of the penalties and the lookup of DRY breakers.
#include "src/sample/chain.h"

#include <algorithm>

namespace nib {

TokenCounts::TokenCounts(int32_t n_vocab, int32_t window)
    : window_(window),
      counts_(static_cast<size_t>(n_vocab)),
      listed_(static_cast<size_t>(n_vocab)) {}

void TokenCounts::add(std::span<const Token> history) {
    const auto token = static_cast<size_t>(history.back());
    ++counts_[token];
    if (!listed_[token]) {
        listed_[token] = true;
        tokens_.push_back(history.back());
        sorted_ = false;
    }
    if (window_ >= 0 && history.size() > static_cast<size_t>(window_)) {
        const Token old = history[history.size() - 1 - static_cast<size_t>(window_)];
        --counts_[static_cast<size_t>(old)];
    }
}

void TokenCounts::clear() {
    std::fill(counts_.begin(), counts_.end(), 0);
    std::fill(listed_.begin(), listed_.end(), false);
    tokens_.clear();
    sorted_ = true;
}

std::span<const Token> TokenCounts::tokens() {
    const auto gone = [this](Token token) {
        const auto id = static_cast<size_t>(token);
        if (counts_[id] > 0) return false;
        listed_[id] = false;
        return true;
    };
    tokens_.erase(std::remove_if(tokens_.begin(), tokens_.end(), gone), tokens_.end());
    if (!sorted_) std::sort(tokens_.begin(), tokens_.end());
    sorted_ = true;
    return tokens_;
}

bool DryBreakers::is_single(Token token) const {
    return std::binary_search(single.begin(), single.end(), token);
}

}  // namespace nib
