// SPDX-License-Identifier: MIT
// What a step must read and multiply at least, node by node, and how long that takes on a device
// whose limits were measured. Bytes are weights and KV, each read once in a step; activations are
// left out, since they stay in caches.
#pragma once
#include "ggml-like/backend.h"

#include <cstdint>
#include <span>
#include <vector>

namespace nib::bench {

// The rows that one sequence has in a step: positions first .. first + rows - 1.
struct SequenceRows {
    int64_t first = 0;
    int32_t rows = 1;
};

struct StepShape {
    std::vector<SequenceRows> sequences;
    int32_t outputs = 0;                          // rows whose logits are wanted
    Type type_k = Type::F16, type_v = Type::F16;  // of the KV cache
    int32_t rows() const;
};

// A step without rows over these KV groups.
StepShape empty_step(std::span<const KvGroupSpec> groups);

struct Cost {
    double bytes = 0, int8_macs = 0, float_macs = 0;
    double macs() const { return int8_macs + float_macs; }
    Cost& operator+=(const Cost& other);
};

// rows: those that the node works on (of a slice of outputs, they may be fewer than in the shape).
Cost cost_of_node(const Node& node, int32_t rows, const StepShape& step);
// All nodes of the plan.
std::vector<Cost> costs_of_step(const Plan& plan, const StepShape& step);

// The larger of the time to read and the time to multiply; 0 without limits.
double limit_seconds(const Cost& cost, const Roofline& limits);
double limit_seconds(const std::vector<Cost>& costs, const Roofline& limits);
double total_bytes(const std::vector<Cost>& costs);

}  // namespace nib::bench
