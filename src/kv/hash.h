// SPDX-License-Identifier: MIT
// The hash of everything that is remembered by its bytes: blocks of tokens, saved states. One door
// to xxHash (XXH3, 64 bits), the same on every machine.
#pragma once
#include <cstddef>
#include <cstdint>

namespace nib {

uint64_t xxh3(const void* bytes, size_t n, uint64_t seed = 0);

}  // namespace nib
