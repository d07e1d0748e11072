// SPDX-License-Identifier: MIT
// Where a step spends its time: the trace of an executor, added up by op and shape, beside what
// each must take at least.
#pragma once
#include "src/bench/limits.h"
#include "src/bench/model.h"

#include <string>
#include <vector>

namespace nib::bench {

// One step again and again: `sequences` sequences of `depth` tokens get `rows` tokens each.
struct PhaseRequest {
    std::string name;  // "decode, 8 rows"
    int32_t sequences = 1, rows = 1, depth = 0;
    int32_t steps = 8;
};

// The instructions of one op with one shape, in one step. Seconds are medians of the steps.
struct ProfileRow {
    std::string op, shape;  // "matmul", "q4_1 576x1536"
    int32_t calls = 0;
    Cost cost;
    double seconds = 0, limit_seconds = 0;
};

struct Profile {
    PhaseRequest phase;
    double step_seconds = 0;       // a step as it is, median
    double traced_seconds = 0;     // the same while it is traced
    double outside_seconds = 0;    // of it, before the first instruction and after the last
    double limit_seconds = 0;      // sum of the rows
    std::vector<ProfileRow> rows;  // the longest first
};

// The runner must have room for the sequences of the phase, and none open.
Result<Profile> profile_phase(Runner& runner, const PhaseRequest& phase, const Roofline& limits);

}  // namespace nib::bench
