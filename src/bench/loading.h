// SPDX-License-Identifier: MIT
// From the start of the program to the first token, phase by phase.
#pragma once
#include "src/bench/model.h"

#include <string>
#include <utility>
#include <vector>

namespace nib::bench {

struct LoadReport {
    std::string backend;
    // In order; the last one is their sum. The first run reads what the system has not cached yet.
    std::vector<std::pair<std::string, Spread>> phases_ms;
    std::vector<double> total_ms;  // of each run
};

// Loads the model `repetitions` times and reads a prompt of `prompt` tokens. startup_ms: what the
// program took before, counted into every run.
Result<LoadReport> measure_loading(const ModelRequest& request,
                                   int32_t prompt,
                                   int32_t repetitions,
                                   double startup_ms);

}  // namespace nib::bench
