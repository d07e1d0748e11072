// SPDX-License-Identifier: MIT
// What an op is: a name, a rule for its shape, and a plain reference in double that says what it
// means. One file of ops/ each. Backends have their own ways; tests compare them with these.
#pragma once
#include "ggml-like/graph.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

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

    // By Weight::id: the bytes of every weight.
    std::span<const std::vector<uint8_t>> store;

    // A weight of the node as floats, whatever its type; as the bytes of its rows.
    std::vector<float> weight(size_t i) const;
    const uint8_t* weight_bytes(size_t i) const {
        return store[static_cast<size_t>(node.weights[i]->id)].data();
    }
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

}  // namespace nib
