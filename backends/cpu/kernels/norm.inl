// SPDX-License-Identifier: MIT
// Norms of one row. Sums: lane j takes x[16 i + j], then one fixed tree.
#pragma once
#include <cstddef>

namespace nib::cpu {
namespace {

NIB_INLINE float inverse_root(float sum, int n, float eps) {
    return 1.0f / __builtin_sqrtf(sum / static_cast<float>(n) + eps);
}

void rms_norm(const float* x, const float* w, float* y, int n, float eps) {
    VecF squares = zero();
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        const VecF v = load(x + i);
        squares = fma(v, v, squares);
    }
    const int whole = i;
    if (whole < n) {
        const VecF v = load_n(x + whole, n - whole);
        squares = fma(v, v, squares);
    }
    const VecF factor = set1(inverse_root(reduce_add(squares), n, eps));
    for (i = 0; i < whole; i += 16) {
        const VecF v = mul(load(x + i), factor);
        store(y + i, w ? mul(v, load(w + i)) : v);
    }
    if (whole < n) {
        const VecF v = mul(load_n(x + whole, n - whole), factor);
        store_n(y + whole, w ? mul(v, load_n(w + whole, n - whole)) : v, n - whole);
    }
}

void layer_norm(const float* x, const float* w, const float* b, float* y, int n, float eps) {
    VecF sum = zero();
    for (int i = 0; i < n; i += 16)
        sum = add(sum, load_n(x + i, n - i));
    const VecF mean = set1(reduce_add(sum) / static_cast<float>(n));
    VecF squares = zero();
    for (int i = 0; i < n; i += 16) {
        const VecF v = first_n(sub(load_n(x + i, n - i), mean), n - i);
        squares = fma(v, v, squares);
    }
    const VecF factor = set1(inverse_root(reduce_add(squares), n, eps));
    for (int i = 0; i < n; i += 16) {
        VecF v = mul(sub(load_n(x + i, n - i), mean), factor);
        if (w) v = mul(v, load_n(w + i, n - i));
        if (b) v = add(v, load_n(b + i, n - i));
        store_n(y + i, v, n - i);
    }
}

}  // namespace
}  // namespace nib::cpu
