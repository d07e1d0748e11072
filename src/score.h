// SPDX-License-Identifier: MIT
// How a model sees a text: log-probabilities at chosen positions, the negative log-likelihood of
// the whole, and its greedy continuation. The numbers that accuracy is judged by.
#pragma once
#include "src/engine.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace nib {

struct ScoreOptions {
    int32_t top = 20;     // likeliest tokens at each position
    int32_t greedy = 48;  // tokens of the continuation
    bool special = true;  // add BOS as the model wants and parse marks in the text
};

struct Score {
    struct Position {
        int32_t pos;
        std::vector<std::pair<Token, double>> top;  // log-probabilities, best first
    };
    std::vector<Token> tokens;
    double nll_sum = 0;  // of tokens 1 .. n-1, each given those before it
    int32_t scored = 0;  // n - 1
    std::vector<Position>
        positions;              // all of up to 24 tokens, else every ceil(n / 16)-th and the last
    std::vector<Token> greedy;  // ends after an end token
    std::string greedy_text;
    double greedy_min_margin = 0;  // smallest distance of the two best log-probabilities on the way
};

Result<Score> score_text(Engine& engine, std::string_view text, const ScoreOptions& options);

}  // namespace nib
