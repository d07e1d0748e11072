// SPDX-License-Identifier: MIT
// Which type every tensor of a model gets. A recipe is a name that people know ("q4_k_m"): a base
// type for the matrices, and rows of a table that give a few sensitive tensors more bits. Planning
// reads names, shapes and a few counts of the metadata; it touches no tensor data.
#pragma once
#include "ggml-like/files/gguf.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nib {

struct Recipe {
    const char* name;    // lower case
    uint32_t file_type;  // the number of general.file_type
    Type base;
};

// nullptr if no recipe has this name (any case).
const Recipe* find_recipe(std::string_view name);
// "f32 f16 ... q6_k", for messages.
std::string recipe_names();

struct TensorPlan {
    const GgufTensor* source = nullptr;
    const QuantDef* def = nullptr;   // what is written
    const QuantDef* wish = nullptr;  // what the recipe asked for; differs if the rows do not fit
    uint64_t bytes = 0;              // of the written tensor

    bool copied() const { return def == source->def; }
};

struct QuantPlan {
    const Recipe* recipe = nullptr;
    std::vector<TensorPlan> tensors;  // in file order
    uint64_t bytes_in = 0, bytes_out = 0, parameters = 0;

    double bits_per_weight() const {
        return parameters ? 8.0 * static_cast<double>(bytes_out) / static_cast<double>(parameters)
                          : 0;
    }
};

// A type for the matrices whose names have this part; stronger than any rule of a recipe.
struct TensorChoice {
    std::string part;
    Type type;
};

struct PlanOptions {
    bool pure = false;                  // every matrix that is quantized gets the base type
    std::vector<TensorChoice> choices;  // the first that fits decides
};

QuantPlan plan_quantization(const GgufFile& file,
                            const Recipe& recipe,
                            const PlanOptions& options = {});

}  // namespace nib
