// SPDX-License-Identifier: MIT
// A model made ready for measuring: a runner without an engine, and tokens that mean nothing. The
// times of loading are kept by phase.
#pragma once
#include "src/runner.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace nib::bench {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// The middle of the values and their ends.
struct Spread {
    double median = 0, min = 0, max = 0;
};
Spread spread_of(std::vector<double> values);  // all 0 without values

uint64_t peak_memory();  // of this process so far, bytes

struct ModelRequest {
    std::string path;
    std::string backend = "cpu";
    int32_t threads = 0;  // as BackendOptions has them
    std::string cpu_level;
    int32_t context = 0, max_rows = 0, least_rows = 1, max_sequences = 1;
    std::string cache_type_k = "f16", cache_type_v = "f16";
    bool check_tensors = false, allow_unknown_pre = false;
    bool tokenizer = false;    // read it too, as the program does before it answers
    bool remove_file = false;  // as soon as it is open: it was made for this run only
};

// Seconds of each phase, in order.
struct LoadTimes {
    double open = 0;       // map the file, read its header
    double model = 0;      // config and tensor table
    double tokenizer = 0;  // 0 if it was not wanted
    double weights = 0;    // graph, plan, KV, weights in the device's layout
    double total() const { return open + model + tokenizer + weights; }
};

struct LoadedModel {
    std::unique_ptr<Runner> runner;
    LoadTimes times;
};

// Errors: those of GgufFile::open, read_model and Runner::create.
Result<LoadedModel> load_model(const ModelRequest& request);

// Feeds n tokens that mean nothing to a sequence in steps of the runner's size; the last one's
// logits are computed.
Result<void> feed(Runner& runner, int32_t sequence, int32_t n);
// The sequence has exactly n tokens afterwards: cut if that can be done, else written anew.
Result<void> set_length(Runner& runner, int32_t sequence, int32_t n);

}  // namespace nib::bench
