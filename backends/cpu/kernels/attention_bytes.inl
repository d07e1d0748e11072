// SPDX-License-Identifier: MIT
// Scores against K and sums of V of a page of bytes with a scale per 32 values, and making them.
//
// K: q is int8 per 32 too, as the activations of a matmul; a score is one chain over the blocks of
// the head, acc = fma(float(sum of k * q), d_k * d_q, acc), and the integer sum is exact.
// V: the weight of a position is multiplied by the scale first, then the sums are those of halves:
// acc = fma(p * d_v, float(v), acc).
#pragma once
#include "backends/cpu/kernels/attention_half.inl"
#include "backends/cpu/kernels/quantize.inl"

namespace nib::cpu {
namespace {

constexpr int kBlockVectors = kBlock / 4;     // of a K tile: four values of 16 tokens each
constexpr size_t kQueryBlockBytes = 32 + 20;  // of an A8

// The numbers of n chains with `blocks` blocks each, in the memory that their floats would take.
NIB_INLINE A8 query_at(void* memory, int n, int blocks) {
    A8 a;
    const size_t count = size_t(n) * size_t(blocks);
    a.n = n;
    a.k = blocks * kBlock;
    a.q = static_cast<int8_t*>(memory);
    a.d = reinterpret_cast<float*>(a.q + count * kBlock);
    a.s = a.d + count;
    a.nsum = reinterpret_cast<int32_t*>(a.s + count);
    a.nsum16 = a.nsum + count;
    return a;
}

// acc[j] += one block of K for J chains; kCount vectors of it.
template <int kCount, int J>
NIB_INLINE void score_block(
    const VecU8* w, VecF scale, const int8_t* q, const float* d, const int32_t* nsum, VecF* acc) {
    constexpr int T = J < kTokenGroup ? J : kTokenGroup;
    VecI sum[T];
    NIB_UNROLL for (int j = 0; j < T; j++) {
        sum[j] = kWideSigned ? zero_i32() : shl_i32<7>(set1_i32(nsum[j]));
    }
    dot_tokens_wide<kCount, T>(sum, w, q);
    NIB_UNROLL for (int j = 0; j < T; j++) {
        acc[j] = fma(to_float(sum[j]), mul(scale, set1(d[j])), acc[j]);
    }
    if constexpr (J > T) {
        score_block<kCount, J - T>(w, scale, q + kBlock * T, d + T, nsum + T, acc + T);
    }
}
template <int kCount>
NIB_INLINE void load_vectors(const uint8_t* k, const uint8_t* next, VecU8* w) {
    NIB_UNROLL for (int i = 0; i < kCount; i++) {
        w[i] = load_bytes(k + 64 * i);
        __builtin_prefetch(next + 64 * i);
    }
}

// q . k of chains first .. first + J of a, for the tiles that hold slots lo .. hi.
template <int J>
NIB_INLINE void score_bytes(const A8& a,
                            int first,
                            const PageShape& shape,
                            const uint8_t* page,
                            const uint8_t* next,
                            int lo,
                            int hi,
                            float* p) {
    const size_t tile_bytes = size_t(shape.head_dim) * 16;
    const int whole = shape.head_dim / kBlock;
    const bool rest = shape.head_dim % kBlock != 0;
    for (int tile = lo / 16; tile < (hi + 15) / 16; tile++) {
        const size_t at = size_t(tile) * tile_bytes;
        const uint8_t *k = page + at, *ahead = next + at;
        const uint8_t* scales = page + shape.k_scales + size_t(tile) * 32;
        VecF acc[J];
        VecU8 w[kBlockVectors];
        NIB_UNROLL for (int j = 0; j < J; j++) acc[j] = zero();
        size_t o = size_t(first);
        for (int b = 0; b < whole; b++, o += size_t(a.n), scales += kPageTokens * 2) {
            load_vectors<kBlockVectors>(k, ahead, w);
            const VecF scale = load_half(reinterpret_cast<const uint16_t*>(scales));
            __builtin_prefetch(scales + (next - page));
            score_block<kBlockVectors, J>(w, scale, a.q + o * kBlock, a.d + o, a.nsum + o, acc);
            k += kBlockVectors * 64, ahead += kBlockVectors * 64;
        }
        if (rest) {
            load_vectors<kBlockVectors / 2>(k, ahead, w);
            const VecF scale = load_half(reinterpret_cast<const uint16_t*>(scales));
            score_block<kBlockVectors / 2, J>(w, scale, a.q + o * kBlock, a.d + o, a.nsum + o, acc);
        }
        NIB_UNROLL for (int j = 0; j < J; j++) store(p + j * kPageTokens + tile * 16, acc[j]);
    }
}

// w = p * scale of B blocks for J chains, [block][chain][64], for the tiles of slots lo .. hi.
template <int J, int B>
NIB_INLINE void scale_weights(
    const float* p, const uint16_t* scales, const uint16_t* next, int lo, int hi, float* w) {
    for (int b = 0; b < B; b++) {
        __builtin_prefetch(next + b * kPageTokens);
        __builtin_prefetch(next + b * kPageTokens + kPageTokens / 2);
        for (int t = lo / 16 * 16; t < hi; t += 16) {
            const VecF scale = load_half(scales + b * kPageTokens + t);
            NIB_UNROLL for (int j = 0; j < J; j++) {
                store(w + (b * J + j) * kPageTokens + t, mul(load(p + j * kPageTokens + t), scale));
            }
        }
    }
}

// As value_half_blocks, with the weights of scale_weights.
template <int J, int D>
NIB_INLINE void value_byte_blocks(const float* w,
                                  const float* factor,
                                  const int8_t* v,
                                  const int8_t* next,
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
        NIB_UNROLL for (int d = 0; d < D; d++) {
            lanes[d] = to_float(load_i8(v + size_t(t) * dim + d * 16));
        }
        __builtin_prefetch(next + size_t(t) * dim);
        NIB_UNROLL for (int j = 0; j < J; j++) {
            NIB_UNROLL for (int d = 0; d < D; d++) {
                const VecF each = set1(w[(d / 2 * J + j) * kPageTokens + t]);
                acc[d][j] = fma(each, lanes[d], acc[d][j]);
            }
        }
    }
    NIB_UNROLL for (int d = 0; d < D; d++) {
        NIB_UNROLL for (int j = 0; j < J; j++) store(o + size_t(j) * dim + d * 16, acc[d][j]);
    }
}
// v: the V tile of a page and its scales; next: of the page after it.
template <int J>
NIB_INLINE void value_bytes(const float* p,
                            const float* factor,
                            const int8_t* v,
                            const int8_t* next,
                            size_t dim,
                            int lo,
                            int hi,
                            float* o) {
    constexpr size_t D = kWidthFor<J> * 16, B = D > kBlock ? 2 : 1;
    const auto* scales = reinterpret_cast<const uint16_t*>(v + kPageTokens * dim);
    const auto* ahead = reinterpret_cast<const uint16_t*>(next + kPageTokens * dim);
    float w[B * J * kPageTokens];
    size_t i = 0;
    for (; i + B * kBlock <= dim; i += B * kBlock) {
        const size_t at = i / kBlock * kPageTokens;
        scale_weights<J, B>(p, scales + at, ahead + at, lo, hi, w);
        for (size_t k = i; k < i + B * kBlock; k += D)
            value_byte_blocks<J, int(D / 16)>(w, factor, v + k, next + k, dim, lo, hi, o + k);
    }
    for (; i < dim; i += 16) {
        const size_t at = i / kBlock * kPageTokens;
        scale_weights<J, 1>(p, scales + at, ahead + at, lo, hi, w);
        value_byte_blocks<J, 1>(w, factor, v + i, next + i, dim, lo, hi, o + i);
    }
}

// To the nearest integer, halves away from zero; |x| is below 2^22.
NIB_INLINE VecI round_away(VecF x) {
    const VecI sign = and_i32(bits_of(x), set1_i32(INT32_MIN));
    const VecF size = float_of(and_i32(bits_of(x), set1_i32(INT32_MAX)));
    const VecF whole = to_float(to_i32(size));
    // To even: a half that went down is the one case that differs.
    const VecF up = select_less(sub(size, whole), set1(0.5f), whole, add(whole, set1(1.0f)));
    return to_i32(float_of(or_i32(bits_of(up), sign)));
}

// A Q8_0 block: 32 bytes at q; its scale.
NIB_INLINE uint16_t quantize_q8_0(BlockValues x, int8_t* q) {
    const VecI mask = set1_i32(INT32_MAX);
    const int32_t bits =
        reduce_max_i32(max_i32(and_i32(bits_of(x.x0), mask), and_i32(bits_of(x.x1), mask)));
    float most;
    __builtin_memcpy(&most, &bits, 4);
    const bool finite = bits < 0x7f800000;
    float d = finite ? most / 127.0f : __builtin_nanf("");
    // The inverse of a denormal is infinite; its half is zero, whatever the bytes are.
    float inverse = d > 0.0f ? 1.0f / d : 0.0f;
    if (!finite || inverse > 3e38f) inverse = 0.0f;
    VecI low = zero_i32(), high = zero_i32();
    if (inverse > 0.0f) {
        low = round_away(mul(x.x0, set1(inverse)));
        high = round_away(mul(x.x1, set1(inverse)));
    }
    store_i8(q, low);
    store_i8(q + 16, high);
    uint16_t halves[16];
    store_half(halves, set1(d));
    return halves[0];
}

NIB_INLINE void store_k_bytes(const float* k, int head_dim, int slot, uint8_t* tile, uint16_t* d) {
    uint8_t* lane = tile + size_t(slot / 16) * size_t(head_dim) * 16 + size_t(slot % 16) * 4;
    for (int i = 0; i < head_dim; i += kBlock, d += kPageTokens) {
        const int n = head_dim - i < kBlock ? head_dim - i : kBlock;
        int8_t q[kBlock];
        d[slot] = quantize_q8_0(load_block(k + i, n), q);
        for (int e = 0; e < n; e += 4, lane += 64) {
            uint32_t four;
            __builtin_memcpy(&four, q + e, 4);
            four ^= 0x80808080u;
            __builtin_memcpy(lane, &four, 4);
        }
    }
}
NIB_INLINE void store_v_bytes(const float* v, int head_dim, int slot, uint8_t* tile, uint16_t* d) {
    uint8_t* row = tile + size_t(slot) * size_t(head_dim);
    for (int i = 0; i < head_dim; i += kBlock, d += kPageTokens) {
        const int n = head_dim - i < kBlock ? head_dim - i : kBlock;
        int8_t q[kBlock];
        d[slot] = quantize_q8_0(load_block(v + i, n), q);
        __builtin_memcpy(row + i, q, size_t(n));
    }
}

}  // namespace
}  // namespace nib::cpu
