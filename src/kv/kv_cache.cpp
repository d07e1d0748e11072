// SPDX-License-Identifier: MIT
#include "src/kv/kv_cache.h"

#include <algorithm>

namespace nib {
namespace {

int64_t blocks_for(int64_t tokens) {
    return (tokens + kBlockTokens - 1) / kBlockTokens;
}

// The first position that a token at `position` sees.
int64_t first_seen(int32_t window, int64_t position) {
    return window ? std::max<int64_t>(0, position - window + 1) : 0;
}

// Most blocks of a group that one sequence holds at a time.
int64_t most_blocks(const KvGroupSpec& group, const KvOptions& o) {
    const int64_t all = blocks_for(o.context);
    if (!group.window) return all;
    return std::min(all, (int64_t{group.window} + o.max_rows) / kBlockTokens + 2);
}

}  // namespace

std::vector<KvGroupSpec> make_kv_groups(std::span<const AttentionSpec> layers) {
    std::vector<KvGroupSpec> groups;
    for (const AttentionSpec& a : layers) {
        auto found = std::find_if(groups.begin(), groups.end(),
                                  [&](const KvGroupSpec& g) { return g.window == a.window; });
        if (found == groups.end())
            found = groups.insert(groups.end(), {.window = a.window, .layers = {}});
        found->layers.push_back(a);
    }
    return groups;
}

uint64_t kv_bytes_per_token(std::span<const KvGroupSpec> groups) {
    uint64_t bytes = 0;
    for (const KvGroupSpec& g : groups) {
        if (!g.window) bytes += kv_token_bytes(g);
    }
    return bytes;
}

Result<std::unique_ptr<KvCache>> KvCache::create(Backend& backend,
                                                 std::vector<KvGroupSpec> groups,
                                                 const KvOptions& options) {
    auto cache = std::make_unique<KvCache>();
    cache->context_ = options.context;
    for (const KvGroupSpec& g : groups) {
        const int64_t blocks = most_blocks(g, options) * options.max_sequences;
        NIB_ASSIGN(auto memory, backend.make_kv(g, static_cast<int32_t>(blocks)));
        cache->memories_.push_back(std::move(memory));
        cache->pools_.emplace_back(static_cast<int32_t>(blocks));
    }
    cache->groups_ = std::move(groups);
    cache->sequences_.resize(static_cast<size_t>(options.max_sequences));
    for (Sequence& s : cache->sequences_) {
        s.tables.resize(cache->groups_.size());
        s.first.resize(cache->groups_.size());
        for (auto& table : s.tables)
            table.reserve(static_cast<size_t>(blocks_for(options.context)));
    }
    return cache;
}

int32_t KvCache::open_sequence() {
    for (size_t s = 0; s < sequences_.size(); s++) {
        if (sequences_[s].open) continue;
        sequences_[s].open = true;
        return static_cast<int32_t>(s);
    }
    return -1;
}

void KvCache::close_sequence(int32_t sequence) {
    Sequence& s = sequences_[static_cast<size_t>(sequence)];
    for (size_t g = 0; g < groups_.size(); g++) {
        release(s, g, s.first[g], static_cast<int64_t>(s.tables[g].size()));
        s.tables[g].clear();
        s.first[g] = 0;
    }
    s.length = 0;
    s.open = false;
}

void KvCache::release(Sequence& s, size_t group, int64_t from, int64_t to) {
    for (int64_t b = from; b < to; b++) {
        int32_t& block = s.tables[group][static_cast<size_t>(b)];
        if (block < 0) continue;
        pools_[group].give(block);
        block = -1;
    }
}

Result<void> KvCache::reserve(int32_t sequence, int32_t n) {
    Sequence& s = sequences_[static_cast<size_t>(sequence)];
    if (s.length + n > context_) {
        return Error{Status::TooLong, "the context holds " + std::to_string(context_) +
                                          " tokens, " + std::to_string(s.length + n) +
                                          " are needed"};
    }
    const int64_t end = blocks_for(s.length + n);
    for (size_t g = 0; g < groups_.size(); g++) {
        const auto missing = end - static_cast<int64_t>(s.tables[g].size());
        if (missing > pools_[g].n_free()) {
            return Error{Status::OutOfMemory, "KV cache: " + std::to_string(missing) +
                                                  " blocks are needed, " +
                                                  std::to_string(pools_[g].n_free()) + " are free"};
        }
    }
    for (size_t g = 0; g < groups_.size(); g++) {
        while (static_cast<int64_t>(s.tables[g].size()) < end)
            s.tables[g].push_back(pools_[g].take());
    }
    return {};
}

void KvCache::commit(int32_t sequence, int32_t n) {
    Sequence& s = sequences_[static_cast<size_t>(sequence)];
    s.length += n;
    for (size_t g = 0; g < groups_.size(); g++) {
        const int64_t keep = first_seen(groups_[g].window, s.length) / kBlockTokens;
        if (keep <= s.first[g]) continue;
        release(s, g, s.first[g], keep);
        s.first[g] = keep;
    }
}

int64_t KvCache::keep_prefix(int32_t sequence, int64_t n) {
    Sequence& s = sequences_[static_cast<size_t>(sequence)];
    n = std::min(n, s.length);
    for (size_t g = 0; g < groups_.size(); g++) {
        if (first_seen(groups_[g].window, n) / kBlockTokens < s.first[g]) n = 0;
    }
    for (size_t g = 0; g < groups_.size(); g++) {
        const int64_t end = blocks_for(n);
        const auto size = static_cast<int64_t>(s.tables[g].size());
        if (n == 0) s.first[g] = 0;
        release(s, g, std::min(end, size), size);
        if (end < size) s.tables[g].resize(static_cast<size_t>(end));
    }
    s.length = n;
    return n;
}

void KvCache::fill(StepInputs& step) const {
    step.kv.resize(groups_.size());
    step.tables.resize(groups_.size());
    for (size_t g = 0; g < groups_.size(); g++) {
        step.kv[g] = memories_[g].get();
        step.tables[g].resize(sequences_.size());
        for (size_t s = 0; s < sequences_.size(); s++)
            step.tables[g][s] = sequences_[s].tables[g].data();
    }
}

KvCache::Stats KvCache::stats() const {
    Stats stats;
    for (size_t g = 0; g < groups_.size(); g++) {
        stats.blocks_used += pools_[g].n_used();
        stats.blocks_free += pools_[g].n_free();
        stats.bytes_used += static_cast<uint64_t>(pools_[g].n_used()) * memories_[g]->block_bytes();
    }
    return stats;
}

}  // namespace nib
