// SPDX-License-Identifier: MIT
// The queue of pairs that may merge; see merge.h.
#include "src/tokenizer/merge.h"

#include <algorithm>
#include <functional>

namespace nib {

void MergeQueue::push(uint32_t rank, uint32_t position) {
    if (bucket_of_.empty()) bucket_of_.assign(n_ranks_, kNoBucket);
    uint32_t& index = bucket_of_[rank];
    if (index == kNoBucket) {
        if (free_.empty()) {
            free_.push_back(static_cast<uint32_t>(buckets_.size()));
            buckets_.emplace_back();
        }
        index = free_.back();
        free_.pop_back();
        ranks_.push_back(rank);
        std::push_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    }
    Bucket& bucket = buckets_[index];
    if (!bucket.open) {
        bucket.sorted.push_back(position);
        return;
    }
    bucket.late.push_back(position);
    std::push_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
}

uint32_t MergeQueue::take(Bucket& bucket) {
    if (!bucket.open) {
        bucket.open = true;
        if (!std::is_sorted(bucket.sorted.begin(), bucket.sorted.end())) {
            std::sort(bucket.sorted.begin(), bucket.sorted.end());
        }
    }
    const bool late = bucket.next == bucket.sorted.size() ||
                      (!bucket.late.empty() && bucket.late.front() < bucket.sorted[bucket.next]);
    if (!late) return bucket.sorted[bucket.next++];
    std::pop_heap(bucket.late.begin(), bucket.late.end(), std::greater<>());
    const uint32_t position = bucket.late.back();
    bucket.late.pop_back();
    return position;
}

bool MergeQueue::pop(uint32_t& rank, uint32_t& position) {
    if (ranks_.empty()) return false;
    rank = ranks_.front();
    const uint32_t index = bucket_of_[rank];
    Bucket& bucket = buckets_[index];
    position = take(bucket);
    if (empty(bucket)) {  // its memory serves the next rank
        bucket.sorted.clear();
        bucket.next = 0;
        bucket.open = false;
        bucket_of_[rank] = kNoBucket;
        free_.push_back(index);
        std::pop_heap(ranks_.begin(), ranks_.end(), std::greater<>());
        ranks_.pop_back();
    }
    return true;
}

}  // namespace nib
