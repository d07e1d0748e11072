// SPDX-License-Identifier: MIT
// Merging neighbours in a chain of symbols, best pair first, leftmost first among equals: the inner
// loop of BPE and of SentencePiece. The order is exact for chains of any length, and the time grows
// with n log n in the worst case, so that a text of one single word of 16 MiB is no danger.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace nib {

inline constexpr uint32_t kNoRank = UINT32_MAX;       // this pair does not merge
inline constexpr uint32_t kNoSymbol = UINT32_MAX;     // the end of a chain
inline constexpr size_t kChainSymbolsMax = 1u << 30;  // positions are 32-bit numbers

// Places of pairs that may merge, given back by rank, then by position. A rank is a bucket of
// positions: a bucket is sorted once when its turn comes, later arrivals wait in a small heap
// beside it. (One heap over all positions costs a cache miss per level and pair, and was the
// slowest part of long words.)
class MergeQueue {
  public:
    explicit MergeQueue(uint32_t n_ranks) : n_ranks_(n_ranks) {}

    void push(uint32_t rank, uint32_t position);
    bool pop(uint32_t& rank, uint32_t& position);

  private:
    static constexpr uint32_t kNoBucket = UINT32_MAX;
    struct Bucket {
        std::vector<uint32_t> sorted;  // once open: from `next` on, ascending
        std::vector<uint32_t> late;    // a min-heap of what came after opening
        size_t next = 0;
        bool open = false;
    };

    uint32_t take(Bucket& bucket);
    static bool empty(const Bucket& b) { return b.next == b.sorted.size() && b.late.empty(); }

    uint32_t n_ranks_;
    std::vector<uint32_t> bucket_of_;  // by rank; made by the first push
    std::vector<uint32_t> ranks_;      // a min-heap of the ranks that have a bucket
    std::vector<Bucket> buckets_;
    std::vector<uint32_t> free_;  // buckets without a rank
};

// The links of a chain, and for each symbol the rank of the pair that it begins.
struct Chain {
    std::vector<uint32_t> next, prev, rank;

    // n symbols in a row. Arrays only grow: words share them.
    void reset(size_t n) {
        if (next.size() < n) {
            next.resize(n);
            prev.resize(n);
            rank.resize(n);
        }
        for (size_t i = 0; i < n; ++i) {
            next[i] = i + 1 < n ? static_cast<uint32_t>(i + 1) : kNoSymbol;
            prev[i] = static_cast<uint32_t>(i) - 1;  // of the first: kNoSymbol
        }
    }
};

// pairs.rank(left, right): how early the two symbols merge, kNoRank if never; what remains of the
// right one after pairs.join(left, right) is not looked at again.
template <class Pairs>
class ChainMerger {
  public:
    ChainMerger(Chain& chain, Pairs& pairs) : chain_(chain), pairs_(pairs) {}

    void run(uint32_t n, MergeQueue& queue) {
        for (uint32_t i = 0; i < n; ++i) {
            chain_.rank[i] = i + 1 < n ? pairs_.rank(i, i + 1) : kNoRank;
        }
        if (n <= kShortChain) return run_short();
        for (uint32_t i = 0; i < n; ++i) {
            if (chain_.rank[i] != kNoRank) queue.push(chain_.rank[i], i);
        }
        uint32_t rank = 0;
        uint32_t left = 0;
        while (queue.pop(rank, left)) {
            if (chain_.rank[left] != rank) continue;  // the pair has changed since it was pushed
            const uint32_t before = merge_at(left);
            if (chain_.rank[left] != kNoRank) queue.push(chain_.rank[left], left);
            if (before != kNoSymbol && chain_.rank[before] != kNoRank) {
                queue.push(chain_.rank[before], before);
            }
        }
    }

  private:
    static constexpr uint32_t kShortChain =
        40;  // below it looking at all pairs beats keeping a queue

    void run_short() {
        for (;;) {
            uint32_t best = 0;
            for (uint32_t i = chain_.next[0]; i != kNoSymbol; i = chain_.next[i]) {
                if (chain_.rank[i] < chain_.rank[best]) best = i;
            }
            if (chain_.rank[best] == kNoRank) return;
            merge_at(best);
        }
    }

    // Merges the pair that begins at `left`; gives the symbol before it, whose pair has changed
    // too.
    uint32_t merge_at(uint32_t left) {
        const uint32_t right = chain_.next[left];
        const uint32_t after = chain_.next[right];
        const uint32_t before = chain_.prev[left];
        pairs_.join(left, right);
        chain_.rank[right] = kNoRank;
        chain_.next[left] = after;
        if (after != kNoSymbol) chain_.prev[after] = left;
        chain_.rank[left] = after == kNoSymbol ? kNoRank : pairs_.rank(left, after);
        if (before != kNoSymbol) chain_.rank[before] = pairs_.rank(before, left);
        return before;
    }

    Chain& chain_;
    Pairs& pairs_;
};

}  // namespace nib
