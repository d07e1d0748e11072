// SPDX-License-Identifier: MIT
// Saved states of an engine: files on the caller's thread, blocks of the cache on the engine's.
// Threads: any.
#pragma once
#include "ggml-like/files/gguf.h"
#include "src/engine/loop.h"
#include "src/kv/state_file.h"

#include <memory>
#include <string>

namespace nib {

// What makes a model this one: its metadata, the names, types and shapes of its tensors, and the
// first and last bytes of each. Read before the weights are given back.
uint64_t hash_of(const GgufFile& file);

class EngineStates {
  public:
    // Errors: BadRequest (the folder).
    static Result<std::unique_ptr<EngineStates>> create(const EngineOptions& options,
                                                        const Runner& runner,
                                                        uint64_t model_hash);
    Result<StateSize> save(EngineLoop& loop,
                           int32_t slot,
                           const std::string& name,
                           uint64_t salt) const;
    Result<StateSize> restore(EngineLoop& loop,
                              int32_t slot,
                              const std::string& name,
                              uint64_t salt) const;

  private:
    std::unique_ptr<StateFolder> folder_;
    StateIdentity identity_;
    int32_t n_vocab_ = 0;
};

// Errors: Unsupported (states is null), BadRequest.
Result<void> check_slot(const EngineStates* states, int32_t n_slots, int32_t slot);

}  // namespace nib
