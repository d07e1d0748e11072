// SPDX-License-Identifier: MIT
// Scores against K and sums of V of a page of half floats.
#pragma once
#include "backends/cpu/kernels.h"

namespace nib::cpu {
namespace {

// How many vectors of K or V advance together beside J chains: what the registers hold.
template <int J>
constexpr int kWidthFor = kAttentionSums / J >= 4   ? 4
                          : kAttentionSums / J >= 2 ? 2
                                                    : 1;

// q . k of J chains for T tiles of 16 tokens. q: [head_dim] of each chain. Pages lie anywhere, so
// as many bytes as are read of K are fetched from `ahead` on (V of the page).
template <int J, int T>
NIB_INLINE void score_tiles(
    const float* const* q, int dim, const uint16_t* k, const uint16_t* ahead, float* p) {
    VecF acc[T][J];
    NIB_UNROLL for (int t = 0; t < T; t++) {
        NIB_UNROLL for (int j = 0; j < J; j++) acc[t][j] = zero();
    }
    const size_t tile_halves = size_t(dim) * 16;
    for (int i = 0; i < dim; i++, k += 16, ahead += T * 16) {
        VecF lanes[T];
        NIB_UNROLL for (int t = 0; t < T; t++) lanes[t] = load_half(k + size_t(t) * tile_halves);
        NIB_UNROLL for (int t = 0; t < T; t += 2) __builtin_prefetch(ahead + t * 16);
        NIB_UNROLL for (int j = 0; j < J; j++) {
            const VecF each = set1(q[j][i]);
            NIB_UNROLL for (int t = 0; t < T; t++) acc[t][j] = fma(lanes[t], each, acc[t][j]);
        }
    }
    NIB_UNROLL for (int t = 0; t < T; t++) {
        NIB_UNROLL for (int j = 0; j < J; j++) store(p + j * kPageTokens + t * 16, acc[t][j]);
    }
}
template <int J>
NIB_INLINE void score_halves(const float* const* q,
                             int dim,
                             const uint16_t* page,
                             const uint16_t* next,
                             int lo,
                             int hi,
                             float* p) {
    constexpr int T = kWidthFor<J>;
    const size_t tile_halves = size_t(dim) * 16;
    int tile = lo / 16;
    const int end = (hi + 15) / 16;
    for (; tile + T <= end; tile += T) {
        const size_t at = size_t(tile) * tile_halves;
        score_tiles<J, T>(q, dim, page + at, next + at, p + tile * 16);
    }
    for (; tile < end; tile++) {
        const size_t at = size_t(tile) * tile_halves;
        score_tiles<J, 1>(q, dim, page + at, next + at, p + tile * 16);
    }
}

// o = o * factor + sum of p[token] * V[token] over lo .. hi, for J chains and D blocks of 16
// values. o [J][head_dim] and v: at the first of the blocks.
template <int J, int D>
NIB_INLINE void value_half_blocks(const float* p,
                                  const float* factor,
                                  const uint16_t* v,
                                  const uint16_t* next,
                                  size_t dim,
                                  int lo,
                                  int hi,
                                  float* o) {
    VecF acc[D][J];
    NIB_UNROLL for (int d = 0; d < D; d++) {
        NIB_UNROLL for (int j = 0; j < J; j++) {
            acc[d][j] = mul(load(o + size_t(j) * dim + d * 16), set1(factor[j]));
        }
    }
    for (int t = lo; t < hi; t++) {
        VecF lanes[D];
        NIB_UNROLL for (int d = 0; d < D; d++) lanes[d] = load_half(v + size_t(t) * dim + d * 16);
        NIB_UNROLL for (int d = 0; d < D; d += 2) {
            __builtin_prefetch(next + size_t(t) * dim + d * 16);
        }
        NIB_UNROLL for (int j = 0; j < J; j++) {
            const VecF each = set1(p[j * kPageTokens + t]);
            NIB_UNROLL for (int d = 0; d < D; d++) acc[d][j] = fma(each, lanes[d], acc[d][j]);
        }
    }
    NIB_UNROLL for (int d = 0; d < D; d++) {
        NIB_UNROLL for (int j = 0; j < J; j++) store(o + size_t(j) * dim + d * 16, acc[d][j]);
    }
}
template <int J>
NIB_INLINE void value_halves(const float* p,
                             const float* factor,
                             const uint16_t* v,
                             const uint16_t* next,
                             size_t dim,
                             int lo,
                             int hi,
                             float* o) {
    constexpr size_t D = kWidthFor<J>;
    size_t i = 0;
    for (; i + D * 16 <= dim; i += D * 16)
        value_half_blocks<J, int(D)>(p, factor, v + i, next + i, dim, lo, hi, o + i);
    for (; i < dim; i += 16)
        value_half_blocks<J, 1>(p, factor, v + i, next + i, dim, lo, hi, o + i);
}

NIB_INLINE void store_k_halves(const float* k, int head_dim, int slot, uint16_t* tile) {
    uint16_t* lane = tile + size_t(slot / 16) * size_t(head_dim) * 16 + size_t(slot % 16);
    for (int i = 0; i < head_dim; i += 16) {
        uint16_t halves[16];
        store_half(halves, load(k + i));
        for (int j = 0; j < 16; j++)
            lane[size_t(i + j) * 16] = halves[j];
    }
}
NIB_INLINE void store_v_halves(const float* v, int head_dim, int slot, uint16_t* tile) {
    for (int i = 0; i < head_dim; i += 16)
        store_half(tile + size_t(slot) * size_t(head_dim) + i, load(v + i));
}

}  // namespace
}  // namespace nib::cpu
