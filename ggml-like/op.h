// SPDX-License-Identifier: MIT
// What an op is: a name, a rule for its shape, and a plain reference in double that says what it means. One
// file of ops/ each. Backends have their own ways; tests compare them with these.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ggml-like/graph.h"

namespace nib {

struct StepInputs;

// One value during a reference run: rows * width floats, rows contiguous.
struct ReferenceValue {
    Shape shape;
    std::vector<float> data;
    const float* row(int32_t r) const { return data.data() + size_t(r) * size_t(shape.width()); }
    float* row(int32_t r) { return data.data() + size_t(r) * size_t(shape.width()); }
};

class ReferenceKv;  // reference.h

struct ReferenceContext {
    const Graph& graph;
    const Node& node;
    const StepInputs& step;
    std::vector<const ReferenceValue*> inputs;
    int32_t n_rows;       // of the result
    ReferenceValue& out;  // shaped, zero

    // Keys and values of a layer; table: the blocks of the sequence.
    ReferenceKv& kv_of(int32_t layer, const int32_t*& table, int32_t sequence) const;
};

struct OpDef {
    const char* name;
    // Fills node.shape from its inputs, weights and params, or says what does not fit.
    Result<Shape> (*shape)(const Graph& graph, const Node& node);
    void (*reference)(ReferenceContext& c);
    bool in_place = false;  // the result may lie where input 0 lay
    bool alias = false;     // the result is part of input 0; nothing is run
};

std::span<const OpDef* const> all_ops();
const OpDef* find_op(const char* name);  // nullptr if there is none

// A weight as floats, whatever its type.
std::vector<float> decode_weight(const Weight& w);

}  // namespace nib
