// SPDX-License-Identifier: MIT
// The KV cache: sequences as tables of blocks, one table for each group of layers that see the same
// positions. Full groups grow with the sequence; window groups keep only the blocks that the next
// token can still see.
//
// Blocks are shared: an index of token prefixes (prefix_index.h) finds what another sequence,
// running or gone, has already computed, and a new sequence takes it over instead of computing it
// again. A block that the index or another sequence holds is never written: who goes on inside
// one gets a copy. Blocks that only the index holds are cached: they go when blocks are needed,
// leaves first.
//
// Which blocks hold which tokens is known by the index (PrefixIndex), who uses a block by the
// pools.
//
// Always true: used + cached + free == total, for each group. The same tokens give the same bits
// whether they were computed or taken over. Threads: one at a time.
#pragma once
#include "ggml-like/backend.h"
#include "src/kv/block_pool.h"
#include "src/kv/prefix_index.h"

#include <algorithm>
#include <array>
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
    // Of all blocks of all groups; 0: max_sequences contexts. At least one context is always there.
    uint64_t bytes = 0;
    CachePolicy policy = CachePolicy::Lru;
};

// What the cache holds of a sequence, out of the device: its tokens and the bytes of its blocks,
// group by group, from the first block that a token behind it sees.
struct KvState {
    std::vector<int32_t> tokens;
    std::vector<uint8_t> bytes;
};
// How many blocks of a group that is.
constexpr int64_t state_blocks(int32_t window, int64_t n_tokens) {
    return std::max<int64_t>(0, blocks_for(n_tokens) - first_block_seen(window, n_tokens));
}

class KvCache {
  public:
    // Errors: OutOfMemory.
    static Result<std::unique_ptr<KvCache>> create(Backend& backend,
                                                   std::vector<KvGroupSpec> groups,
                                                   const KvOptions& options);
    ~KvCache();

    // -1 if there are max_sequences already. Prefixes are shared between sequences of one salt. It
    // gets the number `wanted` if that is free, else the least that is.
    int32_t open_sequence(uint64_t salt = 0, int32_t wanted = -1);
    // keep: what it computed stays cached, also its last block that is not full; else only what
    // others share stays.
    void close_sequence(int32_t sequence, bool keep = true);
    int64_t length(int32_t sequence) const;

    // How many of the first `limit` tokens attach() would take over, if there is a block for the
    // copy of a part of one. Changes nothing.
    int64_t match(std::span<const int32_t> tokens, int64_t limit, uint64_t salt = 0) const;
    // An empty sequence takes over the longest prefix of `tokens` that is there, at most `limit`
    // tokens: full blocks are shared, the beginning of one more is copied. Says how many tokens it
    // has now. Blocks of sequences that are still running count as well.
    int64_t attach(int32_t sequence, std::span<const int32_t> tokens, int64_t limit);

    // Blocks for n more tokens; cached ones go if none is free. Errors: OutOfMemory (nothing is
    // changed), TooLong.
    Result<void> reserve(int32_t sequence, int32_t n);
    // The reserved tokens are written: the sequence is longer; its full blocks are in the index
    // from now on; blocks that no window sees leave the sequence.
    void commit(int32_t sequence, std::span<const int32_t> tokens);
    // Cuts the sequence to its first n tokens and says how many are left: n, or less if a window
    // group has lost what a token at position n would see, or if n is inside of a shared block and
    // there is none for a copy.
    int64_t keep_prefix(int32_t sequence, int64_t n);
    // Forgets everything that only the index holds.
    void clear_cached();

    // What is there of these tokens, which may be less, or nothing. Errors: OutOfMemory.
    Result<KvState> save(std::span<const int32_t> tokens, uint64_t salt = 0) const;
    // The state is cached as if a sequence had computed it and was closed; bytes: state_bytes() of
    // its tokens. Errors: TooLong, OutOfMemory (not enough blocks are free or cached).
    Result<void> restore(const KvState& state, uint64_t salt = 0);
    uint64_t state_bytes(int64_t n_tokens) const;
    int64_t context() const { return options_.context; }
    size_t block_bytes(size_t group) const { return memories_[group].memory->block_bytes(); }
    // Forgets what is cached of these tokens and leads to nothing else; says how many tokens.
    int64_t erase(std::span<const int32_t> tokens, uint64_t salt = 0);

    // Blocks of group g that a sequence with `have` tokens needs for n more, and those that could
    // be had: free ones and cached ones.
    int64_t blocks_needed(size_t group, int64_t have, int64_t n) const;
    int64_t blocks_available(size_t group) const;

    // The tables and memories for a step.
    void fill(StepInputs& step) const;
    std::span<const KvGroupSpec> groups() const { return groups_; }

    struct Stats {
        // Of all groups: held by sequences; only by the index; by nobody.
        int32_t blocks_used = 0, blocks_cached = 0, blocks_free = 0;
        uint64_t bytes_used = 0, bytes_cached = 0, bytes_total = 0;
        uint64_t hits = 0, hit_tokens = 0, copies = 0, evicted = 0;  // since the start
    };
    Stats stats() const;
    // Empty, or what is wrong: compares everything with everything, for tests.
    std::string check() const;

  private:
    struct Sequence {
        bool open = false;
        int64_t length = 0;
        int32_t node = PrefixIndex::kNone;  // its last full block, or the root of its salt
        std::array<int32_t, kBlockTokens> tail = {};  // the tokens behind, length % kBlockTokens
        int64_t prompt = -1;  // where the prompt will be attached to again, if it comes back
        // [group][position / kBlockTokens]; -1: not held. All full blocks that it holds are those
        // of the index; the last one, if it is not full, is its own.
        std::vector<std::vector<int32_t>> tables;
        std::vector<int64_t> first;  // [group]: the first block that it holds

        std::span<const int32_t> tail_tokens() const {
            return {tail.data(), static_cast<size_t>(length % kBlockTokens)};
        }
        int32_t tail_block(size_t group) const {
            return tables[group][static_cast<size_t>(length / kBlockTokens)];
        }
    };
    struct Group {
        std::unique_ptr<KvMemory> memory;
        BlockPool pool;
        std::vector<int32_t> nodes;  // [block]: of the index, kNone if it is not there
    };

    KvCache(std::vector<KvGroupSpec> groups, std::vector<Group> memories, const KvOptions& options);
    Sequence& sequence(int32_t s) { return sequences_[static_cast<size_t>(s)]; }
    const Sequence& sequence(int32_t s) const { return sequences_[static_cast<size_t>(s)]; }
    std::vector<PrefixIndex::Tail> tails() const;
    std::span<const int32_t> matchable(std::span<const int32_t> tokens, int64_t limit) const;
    int32_t take(size_t group);  // a block that nobody has, -1 if none can be had
    void share(size_t group, int32_t block);
    void give(size_t group, int32_t block);
    void drop_given_up();
    void cut(Sequence& s, int64_t n_blocks);
    void take_over(Sequence& s, int32_t node, int64_t n);
    bool own_last_block(Sequence& s, int32_t n_tokens);
    bool attach_match(Sequence& s,
                      const PrefixIndex::Match& match,
                      std::span<const int32_t> tokens);
    void publish(Sequence& s);
    void publish_tail(Sequence& s);
    void close(Sequence& s, bool keep);
    bool take_blocks(Sequence& s, const KvState& state);
    template <class Visit>
    void visit_state(int64_t n_tokens, Visit visit) const;
    bool shorten(Sequence& s, int64_t n);
    using HeldBlocks = std::vector<std::vector<int32_t>>;  // [group][block]: by how many sequences
    std::string check_sequence(const Sequence& s, HeldBlocks& held) const;
    void verify() const;

    std::vector<KvGroupSpec> groups_;
    std::vector<Group> memories_;
    std::vector<Sequence> sequences_;
    PrefixIndex index_;
    PrefixIndex::GivenUp given_up_;  // between a call of the index and drop_given_up()
    KvOptions options_;
    Stats counts_;  // hits and so on; blocks are counted by the pools
};

}  // namespace nib
