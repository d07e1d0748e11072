// SPDX-License-Identifier: MIT
#include "src/kv/block_pool.h"

#include "ggml-like/result.h"

namespace nib {

BlockPool::BlockPool(int32_t n_blocks) : counts_(static_cast<size_t>(n_blocks)) {
    free_.reserve(counts_.size());
    for (int32_t b = n_blocks - 1; b >= 0; b--)
        free_.push_back(b);
}

int32_t BlockPool::take() {
    if (free_.empty()) return -1;
    const int32_t block = free_.back();
    free_.pop_back();
    counts_[static_cast<size_t>(block)] = 1;
    return block;
}

void BlockPool::share(int32_t block) {
    NIB_ASSERT(count(block) > 0);
    counts_[static_cast<size_t>(block)]++;
}

bool BlockPool::give(int32_t block) {
    NIB_ASSERT(count(block) > 0);
    if (--counts_[static_cast<size_t>(block)] > 0) return false;
    free_.push_back(block);
    return true;
}

}  // namespace nib
