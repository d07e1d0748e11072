// SPDX-License-Identifier: MIT
// Address ranges in which a SIGBUS means "the file behind this is gone". The handler puts zero
// pages there, raises the range's flag and lets the read go on; a SIGBUS anywhere else goes to
// whoever handled it before.
#pragma once
#include <atomic>
#include <cstdint>

namespace nib {

// Ranges are never freed, because the handler may walk them at any time; released ones are used
// again.
struct FaultRange {
    std::atomic<uintptr_t> begin{UINTPTR_MAX}, end{0};  // holds no address while unused
    std::atomic<bool> used{false};
    std::atomic<bool> hit{false};
    FaultRange* next = nullptr;  // set before the range is published
};

// nullptr only without memory. begin and end lie on page boundaries.
FaultRange* guard_range(uintptr_t begin, uintptr_t end);
// Before the range is unmapped.
void release_range(FaultRange* range);

}  // namespace nib
