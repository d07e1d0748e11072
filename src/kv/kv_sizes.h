// SPDX-License-Identifier: MIT
// How many blocks each group gets. Sequences that run must fit first: one of full length in a full
// group, all of them in a window group, whose windows stay small. What is left of the bytes is for
// more sequences and for what is cached.
#pragma once
#include "src/kv/kv_cache.h"

#include <cstdint>
#include <span>
#include <vector>

namespace nib {

// Most blocks of a group that one sequence holds at a time.
int64_t most_blocks(const KvGroupSpec& group, const KvOptions& options);
// [group]; block_bytes: of each group.
std::vector<int32_t> blocks_of_groups(std::span<const KvGroupSpec> groups,
                                      std::span<const uint64_t> block_bytes,
                                      const KvOptions& options);

}  // namespace nib
