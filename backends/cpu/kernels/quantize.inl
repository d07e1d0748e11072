// SPDX-License-Identifier: MIT
// Floats to int8 activations, block by block of 32.
// A block with a value that is not finite gets d = s = NaN, so that everything computed from it is
// NaN and the fault is seen. A block whose largest value is below 1e-30 is zero.
#pragma once
#include "backends/cpu/kernels.h"

namespace nib::cpu {
namespace {

// A block of 32 values; n < 32 at the end of a row that is shorter than its padded length.
struct BlockValues {
    VecF x0, x1;
};
NIB_INLINE BlockValues load_block(const float* x, int n) {
    return {n >= 16 ? load(x) : load_n(x, n), n >= 32  ? load(x + 16)
                                              : n > 16 ? load_n(x + 16, n - 16)
                                                       : zero()};
}

// Four blocks at once: their largest values, scales and sums are found side by side.
constexpr int kTogether = 4;

// most: bits of the largest |x| of each block.
NIB_INLINE void scales_of(const int32_t* most_bits, float* d, float* inverse) {
    NIB_UNROLL for (int i = 0; i < kTogether; i++) {
        float most;
        __builtin_memcpy(&most, &most_bits[i], 4);
        d[i] = most_bits[i] >= 0x7f800000 ? __builtin_nanf("") : most / 127.0f;
        inverse[i] = most_bits[i] >= 0x7f800000 ? 0.0f : 127.0f / most;
        if (most < 1e-30f) d[i] = inverse[i] = 0.0f;
    }
}

// Blocks at index `at` and every `stride` after it; only the first n are written.
NIB_INLINE void quantize_blocks(const BlockValues* blocks, int n, A8& a, size_t at, size_t stride) {
    const VecI size_mask = set1_i32(INT32_MAX);
    VecI sizes[kTogether], low[kTogether], high[kTogether];
    NIB_UNROLL for (int i = 0; i < kTogether; i++) {
        sizes[i] = max_i32(and_i32(bits_of(blocks[i].x0), size_mask),
                           and_i32(bits_of(blocks[i].x1), size_mask));
    }
    int32_t most[kTogether], low_sum[kTogether], high_sum[kTogether];
    float d[kTogether], inverse[kTogether];
    most_of_four(sizes, most);
    scales_of(most, d, inverse);
    NIB_UNROLL for (int i = 0; i < kTogether; i++) {
        low[i] = high[i] = zero_i32();
        if (inverse[i] > 0.0f) {
            low[i] = to_i32(mul(blocks[i].x0, set1(inverse[i])));
            high[i] = to_i32(mul(blocks[i].x1, set1(inverse[i])));
        }
    }
    sums_of_four(low, low_sum);
    sums_of_four(high, high_sum);
    for (int i = 0; i < n; i++, at += stride) {
        store_i8(a.q + at * 32, low[i]);
        store_i8(a.q + at * 32 + 16, high[i]);
        const int32_t sum = low_sum[i] + high_sum[i];
        a.d[at] = d[i];
        a.s[at] = d[i] * static_cast<float>(sum);
        a.nsum[at] = -sum;
        a.nsum16[2 * at] = -low_sum[i];
        a.nsum16[2 * at + 1] = -high_sum[i];
    }
}

// What the int8 values of a block leave of it.
NIB_INLINE BlockValues rest_of(BlockValues block, const A8& a, size_t at) {
    const VecF d = set1(-a.d[at]);
    return {fma(d, to_float(load_i8(a.q + at * 32)), block.x0),
            fma(d, to_float(load_i8(a.q + at * 32 + 16)), block.x1)};
}

// One token with k values to its blocks: index `at` and every `width` after it.
NIB_INLINE void quantize_token(const float* x, int k, const A8* high, A8& a, size_t at, int width) {
    const int blocks = a.k / kBlock;
    for (int b = 0; b < blocks; b += kTogether, at += kTogether * size_t(width)) {
        const int n = blocks - b < kTogether ? blocks - b : kTogether;
        BlockValues values[kTogether];
        for (int i = 0; i < kTogether; i++) {
            const int left = k - (b + i) * kBlock;
            values[i] = load_block(x + (left > 0 ? (b + i) * kBlock : 0), left > 0 ? left : 0);
            if (high && i < n) values[i] = rest_of(values[i], *high, at + size_t(i * width));
        }
        quantize_blocks(values, n, a, at, size_t(width));
    }
}

// high null: quantizes x to a; else what `high` (the same tokens) leaves of x.
NIB_INLINE void quantize_rows(
    const float* x, size_t ldx, int k, int first, int end, const A8* high, A8& a) {
    const int blocks = a.k / kBlock;
    for (int token = first; token < end; token++) {
        const int tile = token / kTile * kTile;
        const int width = a.n - tile < kTile ? a.n - tile : kTile;
        const size_t at = size_t(tile) * size_t(blocks) + size_t(token - tile);
        quantize_token(x + size_t(token) * ldx, k, high, a, at, width);
    }
}

void quantize(const float* x, size_t ldx, int k, int first, int end, A8& a) {
    quantize_rows(x, ldx, k, first, end, nullptr, a);
}

void quantize_rest(
    const float* x, size_t ldx, int k, int first, int end, const A8& high, A8& rest) {
    quantize_rows(x, ldx, k, first, end, &high, rest);
}

}  // namespace
}  // namespace nib::cpu
