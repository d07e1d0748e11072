// SPDX-License-Identifier: MIT
// Saved states as files of one folder: what a sequence had in the KV cache, its tokens in front.
//
//   header   magic, version, model, owner, build, KV types, tokens of a block, counts (fixed size)
//   groups   window and bytes of a block, for each group of layers
//   tokens   int32 each
//   blocks   KvState::bytes, as the device holds them
//   hash     XXH3 of everything before it
//
// A state is only of use to the same model, KV types and build of the program; any other is named
// and refused. Always true: a file is whole under its name or not there; no link is followed and
// no name leads out of the folder; every size is compared with the file and with what the cache
// can hold before memory is taken for it. Threads: any.
#pragma once
#include "ggml-like/result.h"
#include "src/kv/kv_cache.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace nib {

// What a state must have been made with.
struct StateIdentity {
    uint64_t model = 0;  // of metadata, tensors and samples of the weights
    std::string build;   // of the program, at most 63 bytes
    std::string type_k, type_v;
    struct Group {
        int32_t window = 0;
        uint64_t block_bytes = 0;
    };
    std::vector<Group> groups;
    int64_t context = 0;  // more tokens than this do not fit

    // Bytes of the blocks of n tokens.
    uint64_t state_bytes(int64_t n_tokens) const;
};
StateIdentity identity_of(const KvCache& kv);  // without model and build

class StateFolder {
  public:
    // Errors: BadRequest, if it is no folder that can be opened.
    static Result<std::unique_ptr<StateFolder>> open(const std::string& path);
    ~StateFolder();
    StateFolder(const StateFolder&) = delete;
    StateFolder& operator=(const StateFolder&) = delete;

    // Letters, digits, '.', '_' and '-'; the first and the last of them no '.'; no device's name of
    // another system. Errors: BadRequest.
    static Result<void> check_name(const std::string& name);

    // Both say how many bytes the file has. owner: whoever may restore it; for others it is not
    // there. Errors: BadRequest (name, no such file, not a regular file), Io.
    Result<uint64_t> write(const std::string& name,
                           const StateIdentity& identity,
                           uint64_t owner,
                           const KvState& state) const;
    // Errors besides: BadFile (no state, or damaged), Unsupported (made with something else),
    // TooLong, OutOfMemory.
    Result<uint64_t> read(const std::string& name,
                          const StateIdentity& identity,
                          uint64_t owner,
                          KvState& state) const;

  private:
    explicit StateFolder(int fd) : fd_(fd) {}
    int fd_;
};

}  // namespace nib
