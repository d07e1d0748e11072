// SPDX-License-Identifier: MIT
#include "src/bench/limits.h"

#include "ggml-like/op.h"

#include <algorithm>
#include <cstring>

namespace nib::bench {
namespace {

bool multiplies_as_float(const Weight& w) {
    return w.def->type == Type::F32 || w.def->type == Type::F16 || w.def->type == Type::BF16;
}

// Keys and values that the rows of the step see: bytes once for each sequence, multiplications for
// each row.
Cost cost_of_attention(const AttentionSpec& a, const StepShape& step) {
    KvGroupSpec group;
    group.layers = {a};
    group.type_k = step.type_k, group.type_v = step.type_v;
    const auto token_bytes = double(kv_token_bytes(group));
    Cost cost;
    for (const SequenceRows& s : step.sequences) {
        const auto first = double(s.first), rows = double(s.rows);
        double seen = first + rows;                           // of the whole sequence
        double pairs = rows * first + rows * (rows + 1) / 2;  // (row, position it sees)
        if (a.window) {
            seen = std::min(seen, double(a.window) + rows - 1);
            pairs = std::min(pairs, rows * double(a.window));
        }
        cost.bytes += seen * token_bytes;
        const double macs = pairs * double(a.n_heads) * double(a.head_dim);
        (step.type_k == Type::F16 ? cost.float_macs : cost.int8_macs) += macs;
        cost.float_macs += macs;  // values are multiplied as floats
    }
    return cost;
}

}  // namespace

int32_t StepShape::rows() const {
    int32_t n = 0;
    for (const SequenceRows& s : sequences)
        n += s.rows;
    return n;
}

StepShape empty_step(std::span<const KvGroupSpec> groups) {
    StepShape step;
    if (!groups.empty()) step.type_k = groups[0].type_k, step.type_v = groups[0].type_v;
    return step;
}

Cost& Cost::operator+=(const Cost& other) {
    bytes += other.bytes;
    int8_macs += other.int8_macs;
    float_macs += other.float_macs;
    return *this;
}

Cost cost_of_node(const Node& node, int32_t rows, const StepShape& step) {
    if (!node.op || rows < 1) return {};
    if (std::strcmp(node.op->name, "attention") == 0) {
        return cost_of_attention(node.params.attention, step);
    }
    const bool looks_up = std::strcmp(node.op->name, "embed") == 0;  // a row of the table each
    Cost cost;
    for (const Weight* w : node.weights) {
        if (w->is_vector) continue;
        if (looks_up) {
            cost.bytes += double(row_bytes(*w->def, static_cast<uint64_t>(w->ne0))) * rows;
            continue;
        }
        cost.bytes += double(w->bytes());
        const double macs = double(w->ne0) * double(w->ne1) * rows * (node.params.precise ? 2 : 1);
        (multiplies_as_float(*w) ? cost.float_macs : cost.int8_macs) += macs;
    }
    return cost;
}

std::vector<Cost> costs_of_step(const Plan& plan, const StepShape& step) {
    std::vector<Cost> costs;
    const auto add = [&](const std::vector<int32_t>& list, int32_t rows) {
        for (const int32_t n : list)
            costs.push_back(cost_of_node(plan.graph.nodes()[static_cast<size_t>(n)], rows, step));
    };
    add(plan.trunk, step.rows());
    add(plan.tail, step.outputs);
    return costs;
}

double limit_seconds(const Cost& cost, const Roofline& limits) {
    if (!(limits.read_bytes_per_s > 0 && limits.int8_macs_per_s > 0 && limits.float_macs_per_s > 0))
        return 0;
    return std::max(
        cost.bytes / limits.read_bytes_per_s,
        cost.int8_macs / limits.int8_macs_per_s + cost.float_macs / limits.float_macs_per_s);
}

double limit_seconds(const std::vector<Cost>& costs, const Roofline& limits) {
    double seconds = 0;
    for (const Cost& c : costs)
        seconds += limit_seconds(c, limits);
    return seconds;
}

double total_bytes(const std::vector<Cost>& costs) {
    double bytes = 0;
    for (const Cost& c : costs)
        bytes += c.bytes;
    return bytes;
}

}  // namespace nib::bench
