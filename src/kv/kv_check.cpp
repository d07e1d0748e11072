// SPDX-License-Identifier: MIT
// The invariants of the cache, looked at from all sides: pools, index and sequences count the same.
#include "src/kv/kv_cache.h"

#include <algorithm>

namespace nib {

std::string KvCache::check_sequence(const Sequence& s, HeldBlocks& held) const {
    if (!s.open) {
        const bool any = std::ranges::any_of(s.tables, [](auto& table) { return !table.empty(); });
        return any ? "a closed sequence holds blocks" : "";
    }
    if (index_.depth(s.node) + 1 != s.length / kBlockTokens) return "a sequence lost its node";
    for (size_t g = 0; g < groups_.size(); g++) {
        const std::vector<int32_t>& table = s.tables[g];
        const int64_t first = first_block_seen(groups_[g].window, s.length);
        if (s.first[g] != first) return "a window does not begin where it should";
        if (static_cast<int64_t>(table.size()) < blocks_for(s.length)) return "a table is short";
        for (size_t b = 0; b < table.size(); b++) {
            if ((table[b] >= 0) != (static_cast<int64_t>(b) >= first))
                return "a block is missing, or outside of the window";
            if (table[b] >= 0) held[g][static_cast<size_t>(table[b])]++;
        }
        int32_t node = s.node;
        for (int64_t d = index_.depth(node); d >= first; d--, node = index_.parent(node)) {
            if (index_.block(node, g) != table[static_cast<size_t>(d)])
                return "a sequence has another block than the index";
        }
        for (auto b = static_cast<size_t>(std::max(first, s.length / kBlockTokens));
             b < table.size(); b++) {
            const auto block = static_cast<size_t>(table[b]);
            if (memories_[g].nodes[block] >= 0 || memories_[g].pool.count(table[b]) != 1)
                return "a sequence would write what others use";
        }
    }
    return {};
}

std::string KvCache::check() const {
    if (std::string wrong = index_.check(); !wrong.empty()) return wrong;
    HeldBlocks held;
    for (const Group& m : memories_)
        held.emplace_back(static_cast<size_t>(m.pool.n_blocks()));
    for (const Sequence& s : sequences_) {
        if (std::string wrong = check_sequence(s, held); !wrong.empty()) return wrong;
    }
    for (size_t g = 0; g < groups_.size(); g++) {
        const Group& m = memories_[g];
        int32_t cached = 0, used = 0;
        for (int32_t b = 0; b < m.pool.n_blocks(); b++) {
            const int32_t holders = held[g][static_cast<size_t>(b)];
            const int32_t node = m.nodes[static_cast<size_t>(b)];
            const bool known = node != PrefixIndex::kNone;
            if (m.pool.count(b) != holders + (known ? 1 : 0)) return "a block is miscounted";
            if (known && (index_.block(node, g) != b || index_.holders(node, g) != holders))
                return "the index does not know who holds a block";
            used += holders > 0;
            cached += holders == 0 && known;
        }
        if (cached != index_.n_idle(g)) return "cached blocks are miscounted";
        if (used + cached + m.pool.n_free() != m.pool.n_blocks()) return "a block is lost";
    }
    return {};
}

// Builds for debugging look at everything after each operation.
void KvCache::verify() const {
#ifndef __OPTIMIZE__
    NIB_ASSERT(check().empty());
#endif
    for (size_t g = 0; g < groups_.size(); g++)
        NIB_ASSERT(index_.n_idle(g) <= memories_[g].pool.n_used());
}

}  // namespace nib
