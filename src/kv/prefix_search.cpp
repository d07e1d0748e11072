// SPDX-License-Identifier: MIT
// Looking for the longest prefix that can be taken over. The full blocks are found one after the
// other by their hashes; behind them, one more block that begins with the right tokens.
//
// Windows make this a question of where to stop: a prefix of b tokens is of use only if each
// window group still has what a token at position b sees. Where block d is missing, positions up
// to 64 d + 63 + window - 1 still see it; so one number for each block says from which b on
// everything that is missing before it has left all windows.
#include "src/kv/prefix_index.h"

namespace nib {
namespace {

// Neighbours on each side that are tried in place of a child that has lost its window blocks.
constexpr int kMostNeighbours = 8;

int32_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
    const size_t n = std::min(a.size(), b.size());
    const auto differ = std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(n), b.begin());
    return static_cast<int32_t>(differ.first - a.begin());
}

}  // namespace

int32_t PrefixIndex::find_root(uint64_t salt) const {
    const auto found = roots_.find(salt);
    return found == roots_.end() ? kNone : found->second;
}

int32_t PrefixIndex::find_child(int32_t parent, std::span<const int32_t> tokens) const {
    const auto [first, last] = by_hash_.equal_range(hash_(tokens, at(parent).hash));
    for (auto it = first; it != last; ++it) {
        if (at(it->second).parent == parent && std::ranges::equal(this->tokens(it->second), tokens))
            return it->second;
    }
    return kNone;
}

// Before the first child that is not less than the tokens.
std::vector<int32_t>::const_iterator PrefixIndex::place(int32_t parent,
                                                        std::span<const int32_t> tokens) const {
    const std::vector<int32_t>& children = at(parent).children;
    return std::lower_bound(children.begin(), children.end(), tokens,
                            [&](int32_t child, std::span<const int32_t> wanted) {
                                return std::ranges::lexicographical_compare(this->tokens(child),
                                                                            wanted);
                            });
}

bool PrefixIndex::has_all_blocks(int32_t node) const {
    for (size_t g = 0; g < n_groups(); g++) {
        if (slot(node, g).block == kNone) return false;
    }
    return true;
}

// From which position on nothing is missing, one block further down.
int64_t PrefixIndex::needs_after(int32_t node, int64_t needs) const {
    for (size_t g = 0; g < n_groups(); g++) {
        if (slot(node, g).block == kNone)
            needs = std::max(needs, (depth(node) + 1) * kBlockTokens + windows_[g] - 1);
    }
    return needs;
}

int32_t PrefixIndex::find_covering(int32_t node, std::span<const int32_t> tokens) const {
    const auto where = place(node, tokens);
    if (where == at(node).children.end() || !has_all_blocks(*where)) return kNone;
    return common_prefix(this->tokens(*where), tokens) == int32_t(tokens.size()) ? *where : kNone;
}

// Children are in the order of their tokens, so those that share most stand around the place
// where the tokens would be; further away they share less.
void PrefixIndex::best_copy(int32_t node,
                            std::span<const int32_t> tokens,
                            std::span<const Tail> tails,
                            Match& match) const {
    const auto consider = [&](int32_t child) {
        match.visits++;
        const int32_t n = common_prefix(this->tokens(child), tokens);
        if (n <= match.n_copied) return false;
        if (!has_all_blocks(child)) return true;
        match.n_copied = n;
        match.source = child;
        return false;
    };
    const std::vector<int32_t>& children = at(node).children;
    const auto where = place(node, tokens);
    auto it = where;
    for (int i = 0; i < kMostNeighbours && it != children.end() && consider(*it); i++)
        ++it;
    it = where;
    for (int i = 0; i < kMostNeighbours && it != children.begin() && consider(*(it - 1)); i++)
        --it;
    if (at(node).users == 0) return;
    for (size_t t = 0; t < tails.size(); t++) {
        if (tails[t].node != node) continue;
        const int32_t n = common_prefix(tails[t].tokens, tokens);
        if (n <= match.n_copied) continue;
        match.n_copied = n;
        match.tail = static_cast<int32_t>(t);
        match.source = kNone;
    }
}

PrefixIndex::Match PrefixIndex::find(int32_t root,
                                     std::span<const int32_t> tokens,
                                     std::span<const Tail> tails,
                                     bool copies) const {
    if (root == kNone) return {};
    struct Level {
        int32_t node;
        int64_t needs;
    };
    std::vector<Level> levels = {{.node = root, .needs = 0}};
    levels.reserve(tokens.size() / kBlockTokens + 1);
    uint64_t visits = 1;
    for (size_t n = kBlockTokens; n <= tokens.size(); n += kBlockTokens) {
        const Level last = levels.back();
        const int32_t next = find_child(last.node, tokens.subspan(n - kBlockTokens, kBlockTokens));
        visits++;
        if (next == kNone) break;
        levels.push_back({.node = next, .needs = needs_after(next, last.needs)});
    }
    for (size_t l = levels.size(); l-- > 0;) {
        const auto start = static_cast<int64_t>(l) * kBlockTokens;
        if (levels[l].needs >= start + kBlockTokens) continue;
        const Match whole = {.n = start, .node = levels[l].node, .visits = visits};
        Match match = whole;
        const auto rest = tokens.subspan(l * kBlockTokens);
        if (copies && !rest.empty())
            best_copy(match.node, rest.first(std::min<size_t>(rest.size(), kBlockTokens)), tails,
                      match);
        visits = match.visits;
        match.n = start + match.n_copied;
        if (match.n_copied > 0 && match.n >= levels[l].needs) return match;
        if (start >= levels[l].needs) return whole;
    }
    return {.node = root, .visits = visits};
}

int64_t PrefixIndex::usable(int32_t node, int64_t n) const {
    std::vector<int32_t> path(static_cast<size_t>(depth(node) + 1));
    for (int32_t i = node; at(i).parent != kNone; i = at(i).parent)
        path[static_cast<size_t>(depth(i))] = i;
    int64_t best = 0, needs = 0;
    for (int64_t b = 0; b * kBlockTokens <= n; b++) {
        const auto known = static_cast<size_t>(b) < path.size();
        const int64_t end = std::min(n, (b + 1) * kBlockTokens - 1);
        // Behind the last full block is one that the sequence has for itself.
        const bool inside = !known || has_all_blocks(path[static_cast<size_t>(b)]);
        if (b * kBlockTokens >= needs) best = b * kBlockTokens;
        if (end == n && inside && end >= needs) best = n;
        if (known) needs = needs_after(path[static_cast<size_t>(b)], needs);
    }
    return best;
}

}  // namespace nib
