// SPDX-License-Identifier: MIT
// What the commands that use a model have in common: finding and loading it, the prompt, numbers
// for people.
#pragma once
#include "ggml-like/result.h"
#include "src/engine.h"
#include "src/options.h"

#include <memory>
#include <string>

namespace nib {

// BadRequest with the path and what to do if the model is not there.
Result<void> check_model_exists(const Options& options);

// Loads the model: a progress bar on stderr if that is a terminal, warnings as lines on stderr.
Result<std::unique_ptr<Engine>> open_engine(const Options& options);

// The prompt: -p, -f or standard input; with -e its escapes are characters.
Result<std::string> prompt_text(const Options& options);

// The request that the flags describe, without a prompt.
Request base_request(const Options& options, const Engine& engine);

// "prompt: 12 tokens in 34 ms (352.9 tokens/s), ..." in one line.
std::string statistics(const Completion& completion, uint64_t seed);

}  // namespace nib
