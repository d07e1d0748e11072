// SPDX-License-Identifier: MIT
// The speed tests: reading a prompt (pp), writing (tg), writing for several sequences at once
// (tg@b), each with nothing or much in the cache before it (@d), and one step with several rows of
// a sequence beside a step with one (verify).
//
// Tests take turns: every round runs each of them once, the first round warms up and does not
// count. What is in the cache before a test is written outside the measured time, once if it can be
// kept.
#pragma once
#include "src/bench/limits.h"
#include "src/bench/model.h"

#include <optional>
#include <string>
#include <vector>

namespace nib::bench {

inline constexpr int32_t kBatchTokens = 64;  // that each sequence of a batch test writes

struct SpeedRequest {
    std::vector<int32_t> prompts, generates;  // pp, tg: numbers of tokens
    std::vector<int32_t> depths = {0};        // before each of these
    std::vector<int32_t> batches;             // numbers of sequences
    std::vector<int32_t> verifies;            // numbers of rows
    int32_t batch_prompt = 128;               // what a sequence of batch and verify tests holds
    int32_t repetitions = 5;

    // What a runner must have room for.
    int32_t context() const;
    int32_t rows() const;
    int32_t sequences() const;
};

struct SpeedRow {
    std::string test;  // "pp512", "tg128@d7000", "tg64@b8", "verify8"
    Spread tokens_per_s;
    std::optional<Spread> first_token_ms;  // pp: from the prompt to the first token
    std::optional<Spread> step_ratio;      // verify: time of the step / time of one row
    double tokens = 0;                     // of a repetition
    std::vector<Cost> costs;               // of a repetition
    double bytes_per_token() const { return tokens > 0 ? total_bytes(costs) / tokens : 0; }
    // Measured speed / the speed that the limits allow.
    double limit_share(const Roofline& limits) const;
};

// No sequence may be open. Rows: pp, tg, batches, verify, each in the order of its list.
Result<std::vector<SpeedRow>> measure_speed(Runner& runner, const SpeedRequest& request);

}  // namespace nib::bench
