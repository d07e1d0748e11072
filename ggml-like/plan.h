// SPDX-License-Identifier: MIT
// From a graph to a plan: fusions are applied, values get places in one arena (a place is used
// again as soon as nothing needs what lies there), and the nodes are split into the trunk (every
// row of the step) and the tail (only rows whose logits are wanted, run in slices so that logits
// never fill the memory).
#pragma once
#include "ggml-like/graph.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nib {

// A rewrite of the graph that a plan applies while it matches. It never changes a bit of the
// result.
struct FusionDef {
    const char* name;
    // Tries to fuse `node` (an index) with what it uses; true if the graph changed. use_count[i] is
    // the number of nodes that read node i.
    bool (*apply)(Graph& graph, int32_t node, const std::vector<int32_t>& use_count);
};
std::span<const FusionDef* const> all_fusions();

// Where a value lies: float `offset` + row * `stride` + i of the arena of its rows class.
struct Place {
    size_t offset = 0;  // in floats, for max_rows rows; 64-byte aligned
    int32_t stride = 0;
};

struct PlanOptions {
    int32_t max_rows = 512;    // rows of a step
    int32_t max_outputs = 16;  // rows of one slice of the tail
    bool fuse = true;
};

struct Plan {
    Graph graph;                 // after fusion; dead nodes keep op == nullptr
    std::vector<int32_t> trunk;  // nodes to run, in order, on all rows
    std::vector<int32_t> tail;   // nodes to run on a slice of output rows
    std::vector<Place> places;   // of each node's value
    size_t arena_floats = 0;
    int32_t max_rows = 0, max_outputs = 0;
    std::vector<std::string> fused;  // what the fusions did, for people
};

Result<std::shared_ptr<const Plan>> make_plan(Graph graph, const PlanOptions& options);

}  // namespace nib
