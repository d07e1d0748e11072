// SPDX-License-Identifier: MIT
// The KV cache: sequences as tables of blocks, one table for each group of layers that see the same
// positions. Full groups grow with the sequence; window groups keep only the blocks that the next
// token can still see. Memory of a block is real from its first token on; a block that was given
// back keeps it for the next sequence. Threads: one at a time.
#pragma once
#include "ggml-like/backend.h"
#include "src/kv/block_pool.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace nib {

// Layers with the same window, in the order in which the windows first appear.
std::vector<KvGroupSpec> make_kv_groups(std::span<const AttentionSpec> layers);
// Bytes of KV that one token of a growing sequence needs, full groups only.
uint64_t kv_bytes_per_token(std::span<const KvGroupSpec> groups);

struct KvOptions {
    int64_t context = 0;   // tokens of a sequence
    int32_t max_rows = 0;  // rows that one step adds to a sequence
    int32_t max_sequences = 1;
};

class KvCache {
  public:
    // Errors: OutOfMemory.
    static Result<std::unique_ptr<KvCache>> create(Backend& backend,
                                                   std::vector<KvGroupSpec> groups,
                                                   const KvOptions& options);

    int32_t open_sequence();  // -1 if there are max_sequences already
    void close_sequence(int32_t sequence);
    int64_t length(int32_t sequence) const {
        return sequences_[static_cast<size_t>(sequence)].length;
    }

    // Blocks for n more tokens. Errors: OutOfMemory (nothing is changed), TooLong.
    Result<void> reserve(int32_t sequence, int32_t n);
    // n reserved tokens are written: the sequence is longer; blocks that no window sees go back.
    void commit(int32_t sequence, int32_t n);
    // Cuts the sequence to its first n tokens and says how many are left: n, or 0 if a window group
    // has already given back what a token at position n would see.
    int64_t keep_prefix(int32_t sequence, int64_t n);

    // The tables and memories for a step.
    void fill(StepInputs& step) const;
    std::span<const KvGroupSpec> groups() const { return groups_; }

    struct Stats {
        int32_t blocks_used = 0, blocks_free = 0;
        uint64_t bytes_used = 0;
    };
    Stats stats() const;

  private:
    struct Sequence {
        bool open = false;
        int64_t length = 0;
        std::vector<std::vector<int32_t>>
            tables;                  // [group][position / kBlockTokens], -1: given back
        std::vector<int64_t> first;  // [group]: the first block that is still there
    };
    void release(Sequence& s, size_t group, int64_t from, int64_t to);

    std::vector<KvGroupSpec> groups_;
    std::vector<std::unique_ptr<KvMemory>> memories_;
    std::vector<BlockPool> pools_;
    std::vector<Sequence> sequences_;
    int64_t context_ = 0;
};

}  // namespace nib
