// SPDX-License-Identifier: MIT
// Which KV blocks of one group are in use, and by how many. Knows ids, not memory.
// Always true: free + used == total; a block with a count of 0 is in the free list exactly once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nib {

class BlockPool {
  public:
    explicit BlockPool(int32_t n_blocks);

    int32_t take();             // a block with a count of 1, or -1 if none is free
    void share(int32_t block);  // one more user
    bool give(int32_t block);   // one user less; true if it is free now
    int32_t count(int32_t block) const { return counts_[static_cast<size_t>(block)]; }
    int32_t n_free() const { return static_cast<int32_t>(free_.size()); }
    int32_t n_used() const { return static_cast<int32_t>(counts_.size()) - n_free(); }
    int32_t n_blocks() const { return static_cast<int32_t>(counts_.size()); }

  private:
    std::vector<int32_t> counts_;
    std::vector<int32_t> free_;  // taken from the end: the block that was given back last
};

}  // namespace nib
