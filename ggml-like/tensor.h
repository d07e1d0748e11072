// SPDX-License-Identifier: MIT
// Weights as a file has them, and values of a graph.
#pragma once
#include "ggml-like/quant.h"

#include <cstdint>
#include <string>

namespace nib {

// A weight: a matrix [ne0, ne1] (innermost first: ne0 inputs, ne1 outputs) or a vector [ne0, 1].
// `data` are GGUF blocks, row after row, and may go away once a backend has its own copy.
struct Weight {
    std::string name;
    const QuantDef* def = nullptr;
    int32_t ne0 = 0, ne1 = 1;
    int32_t id = -1;         // index among the weights of a model
    bool is_vector = false;  // norm, bias or factors: one dimension in the file
    const uint8_t* data = nullptr;

    size_t bytes() const {
        return row_bytes(*def, static_cast<uint64_t>(ne0)) * static_cast<size_t>(ne1);
    }
};

// How many rows a value has in a step.
enum class Rows : uint8_t {
    Step,    // one for every token of the step
    Output,  // one for every token whose logits are wanted
};

// What one row of a value is: ne0 * ne1 floats, ne0 innermost (for instance [head_dim, n_heads]).
struct Shape {
    int32_t ne0 = 0, ne1 = 1;
    Rows rows = Rows::Step;

    int32_t width() const { return ne0 * ne1; }
    bool operator==(const Shape&) const = default;
};

// A value of a graph: an index into Graph::nodes().
struct Tensor {
    int32_t node = -1;
    bool valid() const { return node >= 0; }
};

}  // namespace nib
