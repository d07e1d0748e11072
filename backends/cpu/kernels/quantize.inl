// SPDX-License-Identifier: MIT
// Floats to int8 activations, block by block of 32.
// A block with a value that is not finite gets d = s = NaN, so that everything computed from it is
// NaN and the fault is seen. A block whose largest value is below 1e-30 is zero.
#pragma once
#include "backends/cpu/kernels.h"

namespace nib::cpu {
namespace {

struct BlockScale {
    float d, inverse;
};
NIB_INLINE BlockScale scale_of(int32_t most_bits) {
    if (most_bits >= 0x7f800000) return {__builtin_nanf(""), 0.0f};
    float most;
    __builtin_memcpy(&most, &most_bits, 4);
    if (most < 1e-30f) return {0.0f, 0.0f};
    return {most / 127.0f, 127.0f / most};
}

// A block of 32 values; n < 32 at the end of a row that is shorter than its padded length.
struct BlockValues {
    VecF x0, x1;
};
NIB_INLINE BlockValues load_block(const float* x, int n) {
    return {n >= 16 ? load(x) : load_n(x, n), n >= 32  ? load(x + 16)
                                              : n > 16 ? load_n(x + 16, n - 16)
                                                       : zero()};
}

NIB_INLINE void quantize_block(BlockValues block, A8& a, size_t at) {
    const VecF x0 = block.x0, x1 = block.x1;
    const VecI size_mask = set1_i32(INT32_MAX);
    const int32_t most =
        reduce_max_i32(max_i32(and_i32(bits_of(x0), size_mask), and_i32(bits_of(x1), size_mask)));
    const BlockScale scale = scale_of(most);
    VecI q0 = zero_i32(), q1 = zero_i32();
    if (scale.inverse > 0.0f) {
        q0 = to_i32(mul(x0, set1(scale.inverse)));
        q1 = to_i32(mul(x1, set1(scale.inverse)));
    }
    store_i8(a.q + at * 32, q0);
    store_i8(a.q + at * 32 + 16, q1);
    const int32_t low = reduce_add_i32(q0), high = reduce_add_i32(q1);
    a.d[at] = scale.d;
    a.s[at] = scale.d * static_cast<float>(low + high);
    a.nsum[at] = -(low + high);
    a.nsum16[2 * at] = -low;
    a.nsum16[2 * at + 1] = -high;
}

// What the int8 values of a block leave of it.
NIB_INLINE BlockValues rest_of(BlockValues block, const A8& a, size_t at) {
    const VecF d = set1(-a.d[at]);
    return {fma(d, to_float(load_i8(a.q + at * 32)), block.x0),
            fma(d, to_float(load_i8(a.q + at * 32 + 16)), block.x1)};
}

// high null: quantizes x to a; else what `high` (the same tokens) leaves of x.
NIB_INLINE void quantize_rows(
    const float* x, size_t ldx, int k, int first, int end, const A8* high, A8& a) {
    const int blocks = a.k / kBlock;
    for (int token = first; token < end; token++) {
        const int tile = token / kTile * kTile;
        const int width = a.n - tile < kTile ? a.n - tile : kTile;
        size_t at = size_t(tile) * size_t(blocks) + size_t(token - tile);
        const float* row = x + size_t(token) * ldx;
        for (int b = 0; b < blocks; b++, at += size_t(width)) {
            const int left = k - b * kBlock;
            BlockValues block = load_block(row + (left > 0 ? b * kBlock : 0), left > 0 ? left : 0);
            if (high) block = rest_of(block, *high, at);
            quantize_block(block, a, at);
        }
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
