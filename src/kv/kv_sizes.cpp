// SPDX-License-Identifier: MIT
#include "src/kv/kv_sizes.h"

#include <algorithm>
#include <limits>

namespace nib {
namespace {

// A block id is an int32.
constexpr int64_t kMostBlocks = std::numeric_limits<int32_t>::max() - 1;

int64_t blocks_in(uint64_t bytes, uint64_t block_bytes) {
    return static_cast<int64_t>(std::min<uint64_t>(bytes / block_bytes, kMostBlocks));
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

int64_t most_blocks(const KvGroupSpec& group, const KvOptions& o) {
    const int64_t all = blocks_for(o.context);
    if (!group.window) return all;
    return std::min(all, (int64_t{group.window} + o.max_rows) / kBlockTokens + 2);
}

std::vector<int32_t> blocks_of_groups(std::span<const KvGroupSpec> groups,
                                      std::span<const uint64_t> block_bytes,
                                      const KvOptions& options) {
    std::vector<int64_t> blocks;
    uint64_t needed = 0, full_bytes = 0, n_windows = 0;
    for (size_t g = 0; g < groups.size(); g++) {
        const bool everyone = groups[g].window || options.bytes == 0;
        const int64_t n = most_blocks(groups[g], options) * (everyone ? options.max_sequences : 1);
        blocks.push_back(std::min(n, kMostBlocks));
        needed += static_cast<uint64_t>(blocks[g]) * block_bytes[g];
        (groups[g].window ? n_windows : full_bytes) += groups[g].window ? 1 : block_bytes[g];
    }
    uint64_t rest = options.bytes > needed ? options.bytes - needed : 0;
    // Half of the rest for windows: one end of a sequence keeps window / 64 blocks there, for as
    // many tokens as there are in front of it. More blocks than the full groups have are of no use.
    const uint64_t share = n_windows ? rest / (full_bytes ? 2 : 1) / n_windows : 0;
    const int64_t most_more = full_bytes ? blocks_in(rest, full_bytes) : kMostBlocks;
    for (size_t g = 0; g < groups.size(); g++) {
        if (!groups[g].window) continue;
        const int64_t more = std::min(blocks_in(share, block_bytes[g]), most_more);
        blocks[g] = std::min(blocks[g] + more, kMostBlocks);
        rest -= static_cast<uint64_t>(more) * block_bytes[g];
    }
    for (size_t g = 0; g < groups.size(); g++) {
        if (!groups[g].window)
            blocks[g] = std::min(blocks[g] + blocks_in(rest, full_bytes), kMostBlocks);
    }
    return {blocks.begin(), blocks.end()};
}

}  // namespace nib
