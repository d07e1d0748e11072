// SPDX-License-Identifier: MIT
// A model file read and checked: config, weights (still in the mapping of the file), graph. Nothing
// here knows a device.
#pragma once
#include "ggml-like/files/gguf.h"
#include "src/arch.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nib {

struct Model {
    const ArchDef* arch = nullptr;
    ModelConfig config;
    std::vector<Weight> weights;
    ModelWeights fields;  // point into `weights`
    std::string name, type_name;
    uint64_t n_params = 0;

    Model() = default;
    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;
};

struct ModelOptions {
    int32_t context = 0;         // chooses the rope factors of long context models; 0: as trained
    bool check_tensors = false;  // look for non-finite weights
    std::function<void(const std::string&)> warn;
};

// Errors: BadFile or Unsupported naming the file and the key or tensor.
Result<std::unique_ptr<Model>> read_model(const GgufFile& file, const ModelOptions& options);
// The graph of the model. Errors: BadFile if shapes do not fit.
Result<Graph> build_graph(const Model& model);
// The same without the head: its result are the hidden states after the last norm, [n_embd].
Result<Graph> build_hidden_graph(const Model& model);

}  // namespace nib
