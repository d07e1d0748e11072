// SPDX-License-Identifier: MIT
#include "src/engine/states.h"

#include "ggml-like/files/gguf_parser.h"
#include "src/kv/hash.h"

#include <algorithm>

namespace nib {
namespace {

constexpr uint64_t kSampleBytes = 4096;  // of each end of a tensor

// Who may restore a state: those whose requests have this salt. The salt itself stays here.
uint64_t owner_of(uint64_t salt) {
    return xxh3(&salt, sizeof salt, 0x6e69622d6f776e65);
}

uint64_t add(std::string_view text, uint64_t hash) {
    return xxh3(text.data(), text.size(), hash + text.size());
}

uint64_t add(const GgufFile::Entry& entry, uint64_t hash) {
    const GgufValue& v = entry.value;
    hash = add(v.text, add(entry.key, hash));
    const uint64_t numbers[] = {static_cast<uint64_t>(v.type), static_cast<uint64_t>(v.element),
                                v.count, v.bits};
    hash = xxh3(numbers, sizeof numbers, hash);
    for (const std::string_view text : v.strings)
        hash = add(text, hash);
    if (v.data && v.strings.empty())
        hash = xxh3(v.data, v.count * gguf_number_bytes(v.element), hash);
    return hash;
}

uint64_t add(const GgufTensor& t, uint64_t hash) {
    hash = xxh3(t.ne, sizeof t.ne, add(t.def->name, add(t.name, hash)));
    const uint64_t n = std::min(t.bytes, kSampleBytes);
    return xxh3(t.data + t.bytes - n, n, xxh3(t.data, n, hash));
}

}  // namespace

uint64_t hash_of(const GgufFile& file) {
    uint64_t hash = 0;
    for (const GgufFile::Entry& entry : file.entries())
        hash = add(entry, hash);
    for (const GgufTensor& tensor : file.tensors())
        hash = add(tensor, hash);
    return hash;
}

Result<std::unique_ptr<EngineStates>> EngineStates::create(const EngineOptions& options,
                                                           const Runner& runner,
                                                           uint64_t model_hash) {
    auto states = std::make_unique<EngineStates>();
    NIB_ASSIGN(states->folder_, StateFolder::open(options.state_folder));
    states->identity_ = identity_of(runner.kv());
    states->identity_.model = model_hash;
    states->identity_.build = options.build;
    states->n_vocab_ = runner.model().config.n_vocab;
    return states;
}

Result<StateSize> EngineStates::save(EngineLoop& loop,
                                     int32_t slot,
                                     const std::string& name,
                                     uint64_t salt) const {
    NIB_TRY(StateFolder::check_name(name));
    NIB_ASSIGN(const KvState state, loop.save_slot(slot, salt));
    NIB_ASSIGN(const uint64_t bytes, folder_->write(name, identity_, owner_of(salt), state));
    return StateSize{static_cast<int64_t>(state.tokens.size()), bytes};
}

Result<StateSize> EngineStates::restore(EngineLoop& loop,
                                        int32_t slot,
                                        const std::string& name,
                                        uint64_t salt) const {
    KvState state;
    NIB_ASSIGN(const uint64_t bytes, folder_->read(name, identity_, owner_of(salt), state));
    for (const Token token : state.tokens) {
        if (token >= 0 && token < n_vocab_) continue;
        return Error{Status::BadFile, "filename: " + name + ": token " + std::to_string(token) +
                                          " is not one of " + std::to_string(n_vocab_)};
    }
    const auto n = static_cast<int64_t>(state.tokens.size());
    NIB_TRY(loop.restore_slot(slot, salt, std::move(state)));
    return StateSize{n, bytes};
}

Result<void> check_slot(const EngineStates* states, int32_t n_slots, int32_t slot) {
    if (!states) return Error{Status::Unsupported, "there is no folder for saved states"};
    if (slot >= 0 && slot < n_slots) return {};
    return Error{Status::BadRequest,
                 "slot " + std::to_string(slot) + ": expected 0 to " + std::to_string(n_slots - 1)};
}

}  // namespace nib
