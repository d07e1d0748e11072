// SPDX-License-Identifier: MIT
// What requests leave behind in their slots. A slot is a place of the KV cache that a request runs
// in; when it ends, its tokens are remembered here, and their blocks are found again through the
// prefix index, as long as they are cached.
#include "src/engine/loop.h"

namespace nib {

Result<KvState> EngineLoop::save_slot(int32_t slot, uint64_t salt) {
    KvState state;
    NIB_TRY(run_between([&](Runner& runner) -> Result<void> {
        const Held& held = held_[static_cast<size_t>(slot)];
        if (held.salt == salt) {
            NIB_ASSIGN(state, runner.kv().save(held.tokens, salt));
        }
        if (!state.tokens.empty()) return {};
        return Error{Status::BadRequest,
                     "slot " + std::to_string(slot) + " holds nothing that could be saved"};
    }));
    return state;
}

Result<void> EngineLoop::restore_slot(int32_t slot, uint64_t salt, KvState state) {
    return run_between([&](Runner& runner) -> Result<void> {
        NIB_TRY(runner.kv().restore(state, salt));
        held_[static_cast<size_t>(slot)] = {.tokens = std::move(state.tokens), .salt = salt};
        return {};
    });
}

Result<int64_t> EngineLoop::erase_slot(int32_t slot, uint64_t salt) {
    int64_t n = 0;
    NIB_TRY(run_between([&](Runner& runner) -> Result<void> {
        Held& held = held_[static_cast<size_t>(slot)];
        if (held.salt != salt) return {};
        n = runner.kv().erase(held.tokens, salt);
        held = {};
        return {};
    }));
    return n;
}

}  // namespace nib
