// SPDX-License-Identifier: MIT
// The largest block that this program has asked operator new for since the last reset.
#pragma once
#include <cstddef>

namespace nib::test {

void reset_largest_allocation();
size_t largest_allocation();

}  // namespace nib::test
