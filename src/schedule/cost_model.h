// SPDX-License-Identifier: MIT
// What steps cost on this machine with this model, learned while it runs: the time of a step by the
// number of sequences that generate in it, and what one row of a prompt adds. It forgets old
// steps, since contexts grow and machines get busy. Pure: times come from the caller.
#pragma once
#include "src/schedule/scheduler.h"

#include <cstdint>
#include <vector>

namespace nib {

class CostModel {
  public:
    // A step took `ms` with so many rows of each kind.
    void observe(int32_t decode_rows, int32_t prompt_rows, double ms);
    // What is expected with so many sequences that generate; zeros while nothing is known.
    StepCost expect(int32_t decode_rows) const;

  private:
    double decode_time(int32_t rows) const;
    std::vector<double> decode_ms_;  // [rows]: average of late steps; 0: none yet
    double prompt_row_ms_ = 0;
};

}  // namespace nib
