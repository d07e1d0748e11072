// SPDX-License-Identifier: MIT
// Which rows go into the next step: a pure function of what is known. It knows no model, no cache,
// no clock and no thread; the engine does what the plan says. Tests drive it with a made-up engine.
//
// Order: sequences that generate come first, each with its one row; then prompts that are partly
// done; then requests that wait, while there is room for them. Rows of prompts share a budget per
// step, so that a running stream waits for its next token little longer than it would alone.
// Within a priority the client that was served least goes first, then who came first.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace nib {

enum class Phase : uint8_t {
    Waiting,  // has no sequence: new, or put back by a preemption
    Prompt,   // has a sequence; rows of its prompt are missing
    Decode,   // its next row is the token that was chosen last
    Paused,   // its reader is behind: keeps its sequence, gets no rows
};

// One request as the scheduler sees it. Blocks are those of the layers that see everything; layers
// with a window always have enough.
struct ScheduleItem {
    uint64_t id = 0;  // grows with arrival
    Phase phase = Phase::Waiting;
    int32_t priority = 0;     // higher goes first
    uint64_t served = 0;      // rows that its client had so far: clients take turns by it
    int32_t rows_left = 0;    // Prompt: rows of the prompt that are missing; Decode: 1
    int32_t tail_room = 0;    // rows that fit into its last block
    int64_t blocks_held = 0;  // that nobody else would miss: what a preemption gives back
    int32_t preemptions = 0;  // how often it was put back already
};

// What admitting a waiting request takes, after what the cache gives it.
struct WaitingNeeds {
    int32_t rows = 0;    // of its prompt
    int64_t blocks = 0;  // for these rows and the first token
    bool wait = false;   // a prompt that is being computed will soon give it more: not now
};

// What steps cost, learned from those that were made (cost_model.h). 0: not known yet.
struct StepCost {
    double decode_ms = 0;      // a step of all sequences that generate now, nothing else
    double crowd_ms = 0;       // the same once the prompts that are here generate too
    double prompt_row_ms = 0;  // one more row of a prompt in it
    bool measure = false;      // the first is a guess or old: this step should have no other rows
};

struct ScheduleLimits {
    int32_t max_rows = 512;        // of a step
    int32_t max_running = 1;       // sequences at the same time
    int32_t block_tokens = 64;     // positions of a block
    int64_t blocks_available = 0;  // free or cached
    double max_stall_ms = 0;       // what a step with rows of prompts may take while others
                                   // generate; 0: kStallFactor times what it will take when all
                                   // that are here generate
    StepCost cost;
};

struct SchedulePlan {
    struct Rows {
        uint64_t id = 0;
        int32_t n = 0;
        bool operator==(const Rows&) const = default;
    };
    std::vector<uint64_t> preempt;  // put back first, in this order
    std::vector<uint64_t> admit;    // then these get a sequence
    std::vector<Rows> rows;         // then the step: decode rows first
};

// Of the time of a step without prompts, so that the wait stays below twice that time. A stream
// that is alone gets, while others arrive, the pace that it will have among them: at its own pace
// they would take longer to arrive than to be answered.
inline constexpr double kStallFactor = 1.6;
// Rows of prompts beside running streams before costs are known.
inline constexpr int32_t kFirstBudget = 16;
// Blocks that stay free for each running sequence when another one is admitted.
inline constexpr int64_t kGrowthBlocks = 2;
// A request that was put back so often stays.
inline constexpr int32_t kMostPreemptions = 3;

// `probe` is asked about a waiting request, in the order in which they would be admitted, only
// when it could be admitted now.
using WaitingProbe = std::function<WaitingNeeds(uint64_t id)>;
SchedulePlan plan_step(std::span<const ScheduleItem> items,
                       const ScheduleLimits& limits,
                       const WaitingProbe& probe);

}  // namespace nib
