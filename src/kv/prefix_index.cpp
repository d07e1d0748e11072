// SPDX-License-Identifier: MIT
// The tree itself: nodes, references, and the order in which what is idle goes. Looking for
// prefixes is in prefix_search.cpp.
//
// Two kinds of queues hold what can go: leaves_ for whole nodes, and for each window group the
// nodes whose block of that group nobody holds. A queue is ordered by rank, then by last use; a
// node's place in it is renewed whenever something that it depends on changes.
#include "src/kv/prefix_index.h"

#include "ggml-like/result.h"
#include "src/kv/hash.h"

namespace nib {

uint64_t PrefixIndex::xxh3(std::span<const int32_t> tokens, uint64_t before) {
    return nib::xxh3(tokens.data(), tokens.size_bytes(), before);
}

PrefixIndex::PrefixIndex(std::span<const int32_t> windows, CachePolicy policy, BlockHash hash)
    : windows_(windows.begin(), windows.end()),
      policy_(policy),
      hash_(hash),
      has_full_(std::find(windows.begin(), windows.end(), 0) != windows.end()),
      window_queues_(windows.size()),
      idle_(windows.size()) {}

int32_t PrefixIndex::make_node() {
    if (free_.empty()) {
        free_.push_back(static_cast<int32_t>(nodes_.size()));
        nodes_.emplace_back();
        slots_.resize(slots_.size() + n_groups());
    }
    const int32_t node = free_.back();
    free_.pop_back();
    at(node).alive = true;
    return node;
}

int32_t PrefixIndex::enter(uint64_t salt) {
    int32_t root = find_root(salt);
    if (root == kNone) {
        root = make_node();
        at(root).salt = salt;
        const auto halves = std::bit_cast<std::array<int32_t, 2>>(salt);
        at(root).hash = hash_(halves, 0);
        roots_.emplace(salt, root);
    }
    at(root).users++;
    return root;
}

void PrefixIndex::move_user(int32_t from, int32_t to) {
    at(to).users++;
    refresh(to);
    leave(from);
}

void PrefixIndex::leave(int32_t node) {
    NIB_ASSERT(at(node).users > 0);
    at(node).users--;
    refresh(node);
    prune(node);
}

int64_t PrefixIndex::forget(int32_t node, GivenUp& given_up, bool used_again) {
    int64_t n_tokens = 0;
    while (at(node).users == 1 && at(node).children.empty() && (used_again || !at(node).again) &&
           !held(node) && depth(node) >= 0) {
        const int32_t parent = at(node).parent;
        n_tokens += at(node).n_tokens;
        at(parent).users++;
        at(node).users = 0;
        for (size_t g = 0; g < n_groups(); g++)
            drop_slot(node, g, given_up);
        unlink(node);
        node = parent;
    }
    leave(node);
    return n_tokens;
}

int64_t PrefixIndex::erase(int32_t node, GivenUp& given_up) {
    at(node).users++;
    return forget(node, given_up, true);
}

int32_t PrefixIndex::add(int32_t parent, std::span<const int32_t> tokens, GivenUp& given_up) {
    NIB_ASSERT(!tokens.empty() && tokens.size() <= kBlockTokens);
    const int32_t node = make_node();
    Node& n = at(node);
    n.parent = parent;
    n.depth = at(parent).depth + 1;
    n.n_tokens = static_cast<int32_t>(tokens.size());
    n.last_use = clock_;
    std::copy(tokens.begin(), tokens.end(), n.tokens.begin());
    if (n.n_tokens == kBlockTokens) {
        n.hash = hash_(tokens, at(parent).hash);
        by_hash_.emplace(n.hash, node);
    }
    std::vector<int32_t>& children = at(parent).children;
    const auto where = place(parent, tokens) - children.cbegin();
    // What is a beginning of the new node stands right before it.
    const int32_t before = where > 0 ? children[static_cast<size_t>(where - 1)] : kNone;
    children.insert(children.begin() + where, node);
    refresh(parent);
    if (before != kNone && at(before).n_tokens < n.n_tokens && removable(before) &&
        std::ranges::equal(this->tokens(before), tokens.first(this->tokens(before).size()))) {
        touch(node, true);  // its beginning was there before
        if (at(before).end) mark_end(node);
        remove(before, given_up);
    }
    return node;
}

void PrefixIndex::set_block(int32_t node, size_t group, int32_t block) {
    Slot& s = slot(node, group);
    NIB_ASSERT(s.block == kNone && s.holders == 0 && block >= 0);
    s.block = block;
    s.last_use = clock_;
    idle_[group]++;
    refresh(node);
}

void PrefixIndex::hold(int32_t node, size_t group) {
    Slot& s = slot(node, group);
    NIB_ASSERT(s.block != kNone);
    if (s.holders++ > 0) return;
    idle_[group]--;
    refresh(node);
}

void PrefixIndex::release(int32_t node, size_t group) {
    Slot& s = slot(node, group);
    NIB_ASSERT(s.holders > 0);
    if (--s.holders > 0) return;
    idle_[group]++;
    s.last_use = clock_;
    refresh(node);
}

void PrefixIndex::touch(int32_t node, bool again) {
    at(node).last_use = clock_;
    at(node).again |= again;
    refresh(node);
}

void PrefixIndex::mark_end(int32_t node) {
    if (at(node).end) return;
    at(node).end = true;
    need(node, 1);
}

// The windows of all positions inside the node's block, and of its beginning and end.
void PrefixIndex::need(int32_t node, int32_t by) {
    for (size_t g = 0; g < n_groups(); g++) {
        if (windows_[g] == 0) continue;
        const int64_t depth = at(node).depth;
        const int64_t first = first_block_seen(windows_[g], depth * kBlockTokens);
        int32_t n = node;
        for (int64_t d = depth; d >= first; d--, n = at(n).parent) {
            slot(n, g).needed += by;
            refresh(n);
        }
    }
}

bool PrefixIndex::held(int32_t node) const {
    for (size_t g = 0; g < n_groups(); g++) {
        if (slot(node, g).holders > 0) return true;
    }
    return false;
}

bool PrefixIndex::removable(int32_t node) const {
    const Node& n = at(node);
    return n.parent != kNone && n.children.empty() && n.users == 0 && !held(node);
}

void PrefixIndex::drop_slot(int32_t node, size_t group, GivenUp& given_up) {
    Slot& s = slot(node, group);
    if (s.block == kNone) return;
    NIB_ASSERT(s.holders == 0);
    given_up.push_back({.group = group, .block = s.block});
    s.block = kNone;
    idle_[group]--;
    refresh(node);
}

void PrefixIndex::remove(int32_t node, GivenUp& given_up) {
    NIB_ASSERT(removable(node));
    for (size_t g = 0; g < n_groups(); g++)
        drop_slot(node, g, given_up);
    const int32_t parent = at(node).parent;
    unlink(node);
    prune(parent);
}

// Takes a node without blocks out of the tree.
void PrefixIndex::unlink(int32_t node) {
    if (at(node).end) need(node, -1);
    Node& n = at(node);
    if (n.parent == kNone) {
        roots_.erase(n.salt);
    } else {
        std::vector<int32_t>& siblings = at(n.parent).children;
        siblings.erase(std::find(place(n.parent, tokens(node)), siblings.cend(), node));
        if (n.n_tokens == kBlockTokens) {
            const auto [first, last] = by_hash_.equal_range(n.hash);
            by_hash_.erase(std::find_if(first, last, [&](auto& e) { return e.second == node; }));
        }
        refresh(n.parent);
    }
    refresh(n.queued, leaves_, std::nullopt);
    n = Node{};
    free_.push_back(node);
}

void PrefixIndex::prune(int32_t node) {
    while (node != kNone) {
        if (at(node).users > 0 || !at(node).children.empty()) return;
        for (size_t g = 0; g < n_groups(); g++) {
            if (slot(node, g).block != kNone) return;
        }
        const int32_t parent = at(node).parent;
        unlink(node);
        node = parent;
    }
}

bool PrefixIndex::evict(size_t group, GivenUp& given_up) {
    Queue& queue = windows_[group] ? window_queues_[group] : leaves_;
    if (queue.empty()) return false;
    const int32_t node = queue.begin()->node;
    if (windows_[group]) {
        drop_slot(node, group, given_up);
        prune(node);
    } else {
        remove(node, given_up);
    }
    return true;
}

bool PrefixIndex::evictable_leaf(int32_t node) const {
    if (!has_full_ || !removable(node)) return false;
    for (size_t g = 0; g < n_groups(); g++) {
        if (windows_[g] == 0 && slot(node, g).block == kNone) return false;
    }
    return true;
}

// Puts the node where it belongs in all queues.
void PrefixIndex::refresh(int32_t node) {
    Node& n = at(node);
    const int32_t again = policy_ == CachePolicy::Slru && n.again ? 1 : 0;
    std::optional<Key> key;
    if (evictable_leaf(node)) key = Key{.rank = again, .last_use = n.last_use, .node = node};
    refresh(n.queued, leaves_, key);
    for (size_t g = 0; g < n_groups(); g++) {
        if (windows_[g] == 0) continue;
        Slot& s = slot(node, g);
        key.reset();
        if (s.block != kNone && s.holders == 0) {
            const int32_t rank = (s.needed > 0 ? 2 : 0) + again;
            key = Key{.rank = rank, .last_use = s.last_use, .node = node};
        }
        refresh(s.queued, window_queues_[g], key);
    }
}

void PrefixIndex::refresh(std::optional<Key>& queued, Queue& queue, const std::optional<Key>& key) {
    if (queued == key) return;
    if (queued) queue.erase(*queued);
    if (key) queue.insert(*key);
    queued = key;
}

std::string PrefixIndex::check_node(int32_t node) const {
    const Node& n = at(node);
    const std::string name = "node " + std::to_string(node) + ": ";
    if (n.parent != kNone) {
        const Node& p = at(n.parent);
        if (!p.alive || p.depth + 1 != n.depth) return name + "its parent is not above it";
        if (std::ranges::count(p.children, node) != 1) return name + "its parent does not know it";
        if (n.parent != kNone && p.n_tokens != 0 && p.n_tokens != kBlockTokens)
            return name + "is behind the end of a sequence";
    }
    if (!std::ranges::is_sorted(n.children, [&](int32_t a, int32_t b) {
            return std::ranges::lexicographical_compare(tokens(a), tokens(b));
        }))
        return name + "its children are not in order";
    if (n.users == 0 && n.children.empty()) {
        bool any = false;
        for (size_t g = 0; g < n_groups(); g++)
            any |= slot(node, g).block != kNone;
        if (!any) return name + "is there for nothing";
    }
    if (n.queued.has_value() != evictable_leaf(node)) return name + "its place as a leaf is wrong";
    for (size_t g = 0; g < n_groups(); g++) {
        const Slot& s = slot(node, g);
        if (n.parent == kNone && s.block != kNone) return name + "a root has a block";
        if (n.parent != kNone && windows_[g] == 0 && s.block == kNone)
            return name + "has no block in a full group";
        if (windows_[g] && s.queued.has_value() != (s.block != kNone && s.holders == 0))
            return name + "its place in the queue of a window is wrong";
    }
    return {};
}

std::string PrefixIndex::check() const {
    std::vector<int32_t> idle(n_groups());
    size_t alive = 0, full = 0, leaves = 0;
    std::vector<size_t> queued(n_groups());
    for (int32_t i = 0; i < static_cast<int32_t>(nodes_.size()); i++) {
        if (!at(i).alive) continue;
        if (std::string wrong = check_node(i); !wrong.empty()) return wrong;
        alive++;
        full += at(i).n_tokens == kBlockTokens;
        leaves += at(i).queued.has_value();
        for (size_t g = 0; g < n_groups(); g++) {
            idle[g] += slot(i, g).block != kNone && slot(i, g).holders == 0;
            queued[g] += slot(i, g).queued.has_value();
        }
    }
    if (alive != n_nodes()) return "index: nodes are lost";
    if (full != by_hash_.size()) return "index: the hashes do not match the nodes";
    if (leaves != leaves_.size()) return "index: the leaves do not match the nodes";
    for (size_t g = 0; g < n_groups(); g++) {
        if (idle[g] != idle_[g]) return "index: idle blocks are miscounted";
        if (queued[g] != window_queues_[g].size()) return "index: a queue does not match the nodes";
    }
    return {};
}

}  // namespace nib
