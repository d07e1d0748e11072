// SPDX-License-Identifier: MIT
// Rotary positions of one token: pairs of a head are turned by the angles of the row.
#pragma once
#include "backends/cpu/kernels.h"

namespace nib::cpu {
namespace {

// Pairs (i, i + pairs): 16 pairs at a time.
NIB_INLINE void rope_halves(const float* x, const RopeRow& r, float* y) {
    const int pairs = r.n_dims / 2;
    for (int i = 0; i < pairs; i += 16) {
        const int n = pairs - i;
        const VecF a = load_n(x + i, n), b = load_n(x + pairs + i, n);
        const VecF c = load_n(r.cos + i, n), s = load_n(r.sin + i, n);
        store_n(y + i, sub(mul(a, c), mul(b, s)), n);
        store_n(y + pairs + i, add(mul(a, s), mul(b, c)), n);
    }
}
// Pairs (2 i, 2 i + 1).
NIB_INLINE void rope_neighbours(const float* x, const RopeRow& r, float* y) {
    for (int i = 0; i < r.n_dims / 2; i++) {
        const float a = x[2 * i], b = x[2 * i + 1];
        y[2 * i] = a * r.cos[i] - b * r.sin[i];
        y[2 * i + 1] = a * r.sin[i] + b * r.cos[i];
    }
}

void rope(const float* x, const RopeRow& r, int head_dim, int heads, float* y) {
    for (int h = 0; h < heads; h++, x += head_dim, y += head_dim) {
        if (r.neox) {
            rope_halves(x, r, y);
        } else {
            rope_neighbours(x, r, y);
        }
        for (int i = r.n_dims; i < head_dim; i++)
            y[i] = x[i];
    }
}

}  // namespace
}  // namespace nib::cpu
