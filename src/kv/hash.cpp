// SPDX-License-Identifier: MIT
#include "src/kv/hash.h"

// The whole of xxHash is in its header then: nothing to link.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace nib {

uint64_t xxh3(const void* bytes, size_t n, uint64_t seed) {
    return XXH3_64bits_withSeed(bytes, n, seed);
}

}  // namespace nib
