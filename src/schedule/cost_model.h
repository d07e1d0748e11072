// SPDX-License-Identifier: MIT
// What steps cost on this machine with this model, learned while it runs: the time of a step by the
// number of sequences that generate in it, and what one more row adds. It forgets old steps, since
// contexts grow and machines get busy. Pure: times come from the caller.
//
// A server that always has prompts to read would never see a step without them, and guess more and
// more wrongly: so it asks for one now and then (StepCost::measure).
#pragma once
#include "src/schedule/scheduler.h"

#include <cstdint>
#include <vector>

namespace nib {

class CostModel {
  public:
    // A step took `ms` with so many rows of each kind.
    void observe(int32_t decode_rows, int32_t prompt_rows, double ms);
    // What is expected with so many sequences that generate, of so many that are here; zeros while
    // nothing is known.
    StepCost expect(int32_t decode_rows, int32_t all) const;

  private:
    struct Decode {
        double ms = 0;      // average of late steps; 0: none yet
        int32_t mixed = 0;  // steps with prompts beside so many sequences since then
    };
    Decode& decode(int32_t rows);
    double decode_time(int32_t rows) const;
    std::vector<Decode> decode_;  // [rows]
    double row_ms_ = 0;
};

}  // namespace nib
