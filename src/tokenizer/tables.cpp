// SPDX-License-Identifier: MIT
// The seed of the hash tables; see tables.h.
#include "src/tokenizer/tables.h"

#include <chrono>

namespace nib {

uint64_t table_seed() {
    // The clock and the place where the loader put us: hard to foresee from outside, and no call
    // that can fail.
    static const uint64_t seed = [] {
        const auto now = std::chrono::high_resolution_clock::now().time_since_epoch().count();
        const auto place = reinterpret_cast<uintptr_t>(&table_seed);
        return mix_bits(static_cast<uint64_t>(now) ^ 0x9E3779B97F4A7C15u, place | 1);
    }();
    return seed;
}

}  // namespace nib
