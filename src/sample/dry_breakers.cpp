// SPDX-License-Identifier: MIT
#include "src/sample/dry_breakers.h"

namespace nib {

std::vector<std::vector<Token>> make_dry_breakers(const Tokenizer& tokenizer,
                                                  std::span<const std::string> breakers) {
    std::vector<bool> held(breakers.size());
    std::vector<std::vector<Token>> out;
    for (Token token = 0; token < tokenizer.n_vocab(); ++token) {
        const std::string text = tokenizer.piece(token);
        bool breaks = false;
        for (size_t i = 0; i < breakers.size(); ++i) {
            if (breakers[i].empty() || text.find(breakers[i]) == std::string::npos) continue;
            held[i] = true;
            breaks = true;
        }
        if (breaks) out.push_back({token});
    }
    for (size_t i = 0; i < breakers.size(); ++i) {
        if (held[i] || breakers[i].empty()) continue;
        std::vector<Token> sequence = tokenizer.encode(breakers[i], false, false);
        if (!sequence.empty()) out.push_back(std::move(sequence));
    }
    return out;
}

}  // namespace nib
