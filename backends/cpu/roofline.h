// SPDX-License-Identifier: MIT
// Measures what this CPU can do at most with the kernels of a level: reading memory and caches,
// multiplying, and agreeing that an op is done.
#pragma once
#include "backends/cpu/kernels.h"
#include "ggml-like/backend.h"

namespace nib::cpu {

Result<Roofline> measure_roofline(const Kernels& kernels, int threads);

}  // namespace nib::cpu
