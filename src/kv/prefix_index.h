// SPDX-License-Identifier: MIT
// What is known of token prefixes: a tree whose nodes are blocks of 64 tokens, with one KV block id
// for each group of layers. Knows ids, never memory; KvCache moves references as it is told.
//
// A node is published once and never changes its tokens. Children are found by a hash of all tokens
// before them (and of the salt), and always verified. A node with fewer than 64 tokens is the end
// of a sequence that is gone: it has no children and is only ever copied from.
//
// Always true: a node has a block in every full group, while a window group may have given its
// own up. A sequence that holds a node's block of a full group holds those of all nodes above.
// What no sequence holds is idle: it can be evicted, leaves first. Threads: one at a time.
#pragma once
#include "ggml-like/backend.h"

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace nib {

enum class CachePolicy {
    Lru,   // what was used longest ago goes first
    Slru,  // what was used only once goes before what was used again
};

constexpr int64_t blocks_for(int64_t tokens) {
    return (tokens + kBlockTokens - 1) / kBlockTokens;
}

// The first block that a token at `position` sees; window 0 sees everything.
constexpr int64_t first_block_seen(int32_t window, int64_t position) {
    return window ? std::max<int64_t>(0, position - window + 1) / kBlockTokens : 0;
}

class PrefixIndex {
  public:
    static constexpr int32_t kNone = -1;
    // The hash of a block from its tokens and the hash of what is before it.
    using BlockHash = uint64_t (*)(std::span<const int32_t> tokens, uint64_t before);
    static uint64_t xxh3(std::span<const int32_t> tokens, uint64_t before);

    struct GroupBlock {
        size_t group = 0;
        int32_t block = kNone;
    };
    using GivenUp = std::vector<GroupBlock>;  // blocks that the index has no more use for

    // The last block of a running sequence, which is not full: behind `node`.
    struct Tail {
        int32_t node = kNone;
        std::span<const int32_t> tokens;
    };
    // The longest prefix: all full blocks down to `node`, then the first n_copied tokens of the
    // block of `source` or else of the tail.
    struct Match {
        int64_t n = 0;
        int32_t node = kNone;
        int32_t n_copied = 0;
        int32_t source = kNone;
        int32_t tail = kNone;
        uint64_t visits = 0;  // nodes that were looked at
    };

    // windows: of each group, 0 for a full one.
    PrefixIndex(std::span<const int32_t> windows, CachePolicy policy, BlockHash hash = xxh3);

    // The root of a salt, kNone if nothing is known of it.
    int32_t find_root(uint64_t salt) const;
    int32_t find_child(int32_t parent, std::span<const int32_t> tokens) const;
    // root may be kNone. copies: whether the result may end inside a block.
    Match find(int32_t root,
               std::span<const int32_t> tokens,
               std::span<const Tail> tails,
               bool copies) const;
    // The most of the first n tokens of a sequence of which all windows that the next token needs
    // are there. `node` is its last full block.
    int64_t usable(int32_t node, int64_t n) const;
    // Whether a child of `node` holds the tokens, with the blocks of all groups: that child.
    int32_t find_covering(int32_t node, std::span<const int32_t> tokens) const;

    // A user is a sequence whose last full block (or root) it is; a node with users stays.
    int32_t enter(uint64_t salt);  // the salt's root, made if need be, with one more user
    void move_user(int32_t from, int32_t to);
    void leave(int32_t node);
    // leave(), and what nobody else has used is gone; used_again: or only in the past. Says how
    // many tokens are.
    int64_t forget(int32_t node, GivenUp& given_up, bool used_again = false);
    // The node is gone, and those above it that lead to nothing else, if nobody uses them now.
    int64_t erase(int32_t node, GivenUp& given_up);

    // A new node without blocks. A shorter child with the same beginning gives way to it.
    int32_t add(int32_t parent, std::span<const int32_t> tokens, GivenUp& given_up);
    void set_block(int32_t node, size_t group, int32_t block);
    // One more sequence, or one less, uses the node's block.
    void hold(int32_t node, size_t group);
    void release(int32_t node, size_t group);
    // The node was used now; again: not by the sequence that computed it.
    void touch(int32_t node, bool again);
    // A sequence ended or branched here: what a window needs at it goes later than the rest.
    void mark_end(int32_t node);
    // Time goes on: what is touched or released from now on is newer than what was before.
    void tick() { clock_++; }

    // Gives up the idle block of a group that is worth least, and with a node of a full group all
    // its blocks; false if there is none.
    bool evict(size_t group, GivenUp& given_up);

    int32_t parent(int32_t node) const { return at(node).parent; }
    int64_t depth(int32_t node) const { return at(node).depth; }  // its place in a sequence, from 0
    std::span<const int32_t> tokens(int32_t node) const {
        return {at(node).tokens.data(), static_cast<size_t>(at(node).n_tokens)};
    }
    int32_t block(int32_t node, size_t group) const { return slot(node, group).block; }
    int32_t holders(int32_t node, size_t group) const { return slot(node, group).holders; }
    int32_t n_idle(size_t group) const { return idle_[group]; }
    size_t n_nodes() const { return nodes_.size() - free_.size(); }
    // Empty, or what is wrong: looks at everything.
    std::string check() const;

  private:
    // Less goes first.
    struct Key {
        int32_t rank = 0;
        uint64_t last_use = 0;
        int32_t node = kNone;
        auto operator<=>(const Key&) const = default;
    };
    using Queue = std::set<Key>;
    struct Node {
        bool alive = false;
        bool again = false;
        bool end = false;
        int32_t parent = kNone;
        int32_t depth = -1;  // -1: a root
        int32_t n_tokens = 0;
        int32_t users = 0;
        uint64_t hash = 0;
        uint64_t salt = 0;  // of a root
        uint64_t last_use = 0;
        std::optional<Key> queued;      // in leaves_
        std::vector<int32_t> children;  // in the order of their tokens
        std::array<int32_t, kBlockTokens> tokens = {};
    };
    struct Slot {
        int32_t block = kNone;
        int32_t holders = 0;
        int32_t needed = 0;  // ends whose window reaches it
        uint64_t last_use = 0;
        std::optional<Key> queued;  // in windows of its group
    };

    Node& at(int32_t node) { return nodes_[static_cast<size_t>(node)]; }
    const Node& at(int32_t node) const { return nodes_[static_cast<size_t>(node)]; }
    size_t n_groups() const { return windows_.size(); }
    Slot& slot(int32_t node, size_t g) {
        return slots_[static_cast<size_t>(node) * n_groups() + g];
    }
    const Slot& slot(int32_t node, size_t g) const {
        return slots_[static_cast<size_t>(node) * n_groups() + g];
    }
    int32_t make_node();
    bool held(int32_t node) const;  // any of its blocks
    // A leaf without users whose blocks nobody holds.
    bool removable(int32_t node) const;
    void remove(int32_t node, GivenUp& given_up);
    void drop_slot(int32_t node, size_t group, GivenUp& given_up);
    void unlink(int32_t node);
    // Removes nodes without blocks, children and users, from this one upwards.
    void prune(int32_t node);
    void need(int32_t node, int32_t by);
    std::vector<int32_t>::const_iterator place(int32_t parent,
                                               std::span<const int32_t> tokens) const;
    void refresh(int32_t node);
    void refresh(std::optional<Key>& queued, Queue& queue, const std::optional<Key>& key);
    bool evictable_leaf(int32_t node) const;
    bool has_all_blocks(int32_t node) const;
    int64_t needs_after(int32_t node, int64_t needs) const;
    void best_copy(int32_t node,
                   std::span<const int32_t> tokens,
                   std::span<const Tail> tails,
                   Match& match) const;
    std::string check_node(int32_t node) const;

    std::vector<int32_t> windows_;
    CachePolicy policy_;
    BlockHash hash_;
    bool has_full_ = false;
    uint64_t clock_ = 0;
    std::vector<Node> nodes_;
    std::vector<int32_t> free_;                           // of nodes_
    std::vector<Slot> slots_;                             // [node][group]
    std::unordered_map<uint64_t, int32_t> roots_;         // by salt
    std::unordered_multimap<uint64_t, int32_t> by_hash_;  // full nodes
    Queue leaves_;  // nodes that can go as a whole; models with full groups only
    std::vector<Queue> window_queues_;  // [group]: nodes whose window block can go
    std::vector<int32_t> idle_;         // [group]: blocks that no sequence holds
};

}  // namespace nib
