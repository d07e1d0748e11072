// SPDX-License-Identifier: MIT
// Which rows go into the next step: a pure function of what is known. It knows no model, no cache,
// no clock and no thread; the engine does what the plan says. Tests drive it with made-up engines.
//
// Order: sequences that generate come first, each with its one row; then prompts that are partly
// done; then requests that wait, while there is room for them in the cache. Rows of prompts share a
// budget per step, so that a stream that is running never waits for its next token much longer
// than it would alone.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace nib {

enum class Phase {
    Waiting,  // has no sequence: new, or put back by a preemption
    Prompt,   // has a sequence; rows of its prompt are missing
    Decode,   // its next row is the token that was chosen last
    Paused,   // its reader is behind: keeps its sequence, gets no rows
};

// One request as the scheduler sees it.
struct ScheduleItem {
    uint64_t id = 0;  // grows with arrival
    Phase phase = Phase::Waiting;
    int32_t priority = 0;   // higher goes first
    uint64_t client = 0;    // requests of one client share its turn
    int32_t rows_left = 0;  // of the prompt, without what the cache would give; 1 in Decode
    // KV blocks (of the scarcest group) that it would take to compute rows_left and one more token,
    // and those that it would give back if it were preempted.
    int64_t blocks_needed = 0, blocks_held = 0;
    // Another running prompt is about to compute what this one could take over: better to wait.
    bool waits_for_prefix = false;
    int32_t preemptions = 0;  // how often it was put back already
};

// What a step costs, learned from the steps that were made.
struct StepCost {
    double base_ms = 0;    // a step with no rows
    double decode_ms = 0;  // one more sequence that generates
    double prompt_ms = 0;  // one more row of a prompt
};

struct ScheduleLimits {
    int32_t max_rows = 512;        // of a step
    int32_t max_running = 1;       // sequences at the same time
    int64_t blocks_available = 0;  // free or cached
    int64_t reserve_blocks = 0;    // kept for sequences that grow: not given to newcomers
    double max_stall_ms = 0;       // 0: a step with prompts may take twice one without
    StepCost cost;
};

struct SchedulePlan {
    struct Rows {
        uint64_t id = 0;
        int32_t n = 0;
    };
    std::vector<uint64_t> preempt;  // put back first, in this order: their blocks are needed
    std::vector<uint64_t> admit;    // then these get a sequence
    std::vector<Rows> rows;         // then the step: decode rows first
};

// `served`: for clients that have waiting or running requests, rows that they had so far (see
// FairShare); less served clients go first within a priority.
struct ClientShare {
    uint64_t client = 0;
    uint64_t rows = 0;
};

SchedulePlan plan_step(std::span<const ScheduleItem> items,
                       std::span<const ClientShare> served,
                       const ScheduleLimits& limits);

}  // namespace nib
