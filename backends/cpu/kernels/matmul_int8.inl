// SPDX-License-Identifier: MIT
// Quantized weights times int8 activations. A panel meets a tile of 1..16 tokens: a block of 32 k
// is unpacked once and used for all tokens of the tile, whose sums stay in registers. More tokens
// are more tiles over a panel that stays in L1. Per output, always the same chain over the blocks
// 0, 1, 2 ..:
//   acc = fma(float(sum q_row * q_token), d_row * d_token, acc)
//   acc = fma(m_row, s_token, acc)      only for types with a minimum (Q2_K, where minimums are
//                                       per 16: acc = fma(float(sum min * nsum), m_row * d_token,
//                                       acc), nsum being -sum of 16 q_token)
// The integer sum is exact, so neither the level nor the number of tokens can change a bit.
#pragma once
#include "backends/cpu/kernels/formats.inl"
#include "backends/cpu/kernels/output.inl"

namespace nib::cpu {
namespace {

// One tile of activations: pointers to its planes (block, token).
struct Tile {
    const int8_t* q;
    const float* d;
    const float* s;
    const int32_t* nsum;
    const int32_t* nsum16;
    int n, k;
};
NIB_INLINE Tile tile_of(const A8& a, int first) {
    const size_t at = size_t(first) * size_t(a.k / kBlock);
    const int n = a.n - first < kTile ? a.n - first : kTile;
    return {a.q + at * kBlock, a.d + at, a.s + at, a.nsum + at, a.nsum16 + 2 * at, n, a.k};
}

// What the integer sum starts with: -bias * sum(q_token) takes the bias of the stored bytes out,
// exactly.
template <class F>
NIB_INLINE VecI start_sum(const int32_t* nsum) {
    if constexpr (F::kBiasShift < 0 || (F::kWide && kWideSigned)) {
        return zero_i32();
    } else {
        return shl_i32<F::kBiasShift>(set1_i32(*nsum));
    }
}
// How many vectors one call of dot() takes. Where products need no widening it is one, so that the
// chains of several tokens alternate.
template <class F>
constexpr int kRunOf = kAddRuns ? F::kRun : 1;
template <class F>
NIB_INLINE VecI dot(VecI sum, const VecU8* w, const int8_t* x) {
    if constexpr (F::kWide) {
        return dot4_wide(sum, *w, x);
    } else {
        return dot_run<kRunOf<F>>(sum, w, x);
    }
}

// acc[t] += one block for T tokens; o is the index of (block, first token). The T chains advance
// together.
template <class F, int T>
NIB_INLINE void step(const Block& w, const Tile& a, size_t o, VecF* acc) {
    const int8_t* q = a.q + o * kBlock;
    VecI sum[T];
    if constexpr (F::kScale != Scale::Float) {
        VecI high[T];
        NIB_UNROLL for (int t = 0; t < T; t++) {
            sum[t] = start_sum<F>(a.nsum16 + 2 * (o + t));
            high[t] = start_sum<F>(a.nsum16 + 2 * (o + t) + 1);
        }
        NIB_UNROLL for (int i = 0; i < 4; i += kRunOf<F>) {
            NIB_UNROLL for (int t = 0; t < T; t++) {
                sum[t] = dot<F>(sum[t], w.v + i, q + 32 * t + 4 * i);
                high[t] = dot<F>(high[t], w.v + i + 4, q + 32 * t + 4 * i + 16);
            }
        }
        NIB_UNROLL for (int t = 0; t < T; t++) {
            if constexpr (F::kScale == Scale::Per16Small) {
                sum[t] = add_product16(zero_i32(), sum[t], w.scale[0]);
                sum[t] = add_product16(sum[t], high[t], w.scale[1]);
            } else {
                sum[t] = add_i32(mul_i32(sum[t], w.scale[0]), mul_i32(high[t], w.scale[1]));
            }
        }
    } else {
        NIB_UNROLL for (int t = 0; t < T; t++) sum[t] = start_sum<F>(a.nsum + o + t);
        NIB_UNROLL for (int i = 0; i < 8; i += kRunOf<F>) {
            NIB_UNROLL for (int t = 0; t < T; t++) {
                sum[t] = dot<F>(sum[t], w.v + i, q + 32 * t + 4 * i);
            }
        }
    }
    NIB_UNROLL for (int t = 0; t < T; t++) {
        acc[t] = fma(to_float(sum[t]), mul(w.d, set1(a.d[o + t])), acc[t]);
        if constexpr (F::kMin == Min::Per32) acc[t] = fma(w.m, set1(a.s[o + t]), acc[t]);
        if constexpr (F::kMin == Min::Per16) {
            const int32_t* nsum = a.nsum16 + 2 * (o + t);
            VecI low = add_product16(zero_i32(), set1_i32(nsum[0]), w.min[0]);
            low = add_product16(low, set1_i32(nsum[1]), w.min[1]);
            acc[t] = fma(to_float(low), mul(w.m, set1(a.d[o + t])), acc[t]);
        }
    }
}
// N tokens in groups of at most kTokenGroup, unrolled.
template <class F, int N>
NIB_INLINE void steps(const Block& w, const Tile& a, size_t o, VecF* acc) {
    constexpr int T = N < kTokenGroup ? N : kTokenGroup;
    step<F, T>(w, a, o, acc);
    if constexpr (N > T) steps<F, N - T>(w, a, o + T, acc + T);
}
// The same for a number known at run time only.
template <class F>
NIB_INLINE void steps_loop(const Block& w, const Tile& a, size_t o, VecF* acc) {
    int t = 0;
    for (; t + kTokenGroup <= a.n; t += kTokenGroup)
        step<F, kTokenGroup>(w, a, o + t, acc + t);
    for (; t < a.n; t++)
        step<F, 1>(w, a, o + t, acc + t);
}

// What to fetch ahead. parts > 1: this is pass `part` of `parts` over the panel, and each fetches
// its share of the next panel. Otherwise the weights a fixed distance ahead are fetched past L2 and
// L3.
struct Ahead {
    int part, parts;
};
// share: bytes per block of a pass, 0 if there is one pass only. The division that gives it stays
// outside the loop over blocks.
template <class F>
NIB_INLINE void fetch_ahead(const uint8_t* next, int b, size_t share) {
    if (share > 0) {
        for (size_t i = 0; i < share; i += 64) {
            __builtin_prefetch(next + size_t(b) * share + i, 0, 3);
        }
    } else {
        NIB_UNROLL for (int i = 0; i < F::kBytes; i += 64) {
            __builtin_prefetch(next + size_t(b) * F::kBytes + i, 0, 0);
        }
    }
}

// One tile of N tokens (N = 0: a.n tokens) over panels first .. end.
template <class F, int N>
void run_tile(const Matrix& m, int first, int end, Tile a, Output out, Ahead ahead) {
    const int blocks = a.k / kBlock;
    const uint8_t* panel = m.data + size_t(first) * m.panel_bytes;
    const size_t share = ahead.parts > 1 ? size_t(F::kBytes / ahead.parts + 1) : 0;
    // A block lasts longer with more tokens, so a longer way ahead is the same time.
    const size_t distance = ahead.parts > 1 ? m.panel_bytes + size_t(ahead.part * blocks) * share
                                            : (a.n < 4 ? 4096 : 8192);
    for (int p = first; p < end; p++, panel += m.panel_bytes) {
        VecF acc[N > 0 ? N : kTile];
        NIB_UNROLL for (int t = 0; t < (N > 0 ? N : kTile); t++) acc[t] = zero();
        for (int b = 0; b < blocks; b++) {
            Block w;
            F::unpack(panel, a.k, b, w);
            fetch_ahead<F>(panel + distance, b, share);
            if constexpr (N > 0) {
                steps<F, N>(w, a, size_t(b) * N, acc);
            } else {
                steps_loop<F>(w, a, size_t(b) * size_t(a.n), acc);
            }
        }
        if constexpr (N > 0) {
            finish<N>(acc, p, out);
        } else {
            finish_loop(acc, a.n, p, out);
        }
    }
}

template <class F, int N = kTile>
NIB_INLINE void run_width(
    const Matrix& m, int first, int end, const Tile& a, const Output& out, Ahead ahead) {
    if constexpr (!kTileByWidth) {
        run_tile<F, 0>(m, first, end, a, out, ahead);
    } else if (a.n == N) {
        run_tile<F, N>(m, first, end, a, out, ahead);
    } else if constexpr (N > 1) {
        run_width<F, N - 1>(m, first, end, a, out, ahead);
    }
}

template <class F>
void run_format(const Matrix& m, int first, int end, const A8& a, const Output& out) {
    const int tiles = (a.n + kTile - 1) / kTile;
    if (tiles == 1) return run_width<F>(m, first, end, tile_of(a, 0), out, {0, 1});
    for (int p = first; p < end; p++) {
        for (int i = 0; i < tiles; i++) {
            const int token = i * kTile;
            run_width<F>(m, p, p + 1, tile_of(a, token), output_of_token(out, token), {i, tiles});
        }
    }
}

void matmul_int8(const Matrix& m,
                 int first,
                 int end,
                 const A8& a,
                 const float* bias,
                 const float* add_to,
                 float* y,
                 size_t ldy) {
    const Output out = {bias, add_to, y, ldy, m.rows};
    switch (m.type) {
    case Type::Q8_0:
        return run_format<FormatQ8_0>(m, first, end, a, out);
    case Type::Q4_0:
        return run_format<FormatQ4_0>(m, first, end, a, out);
    case Type::Q4_1:
        return run_format<FormatQ4_1>(m, first, end, a, out);
    case Type::Q5_0:
        return run_format<FormatQ5_0>(m, first, end, a, out);
    case Type::Q5_1:
        return run_format<FormatQ5_1>(m, first, end, a, out);
    case Type::Q4_K:
        return run_format<FormatQ4_K>(m, first, end, a, out);
    case Type::Q5_K:
        return run_format<FormatQ5_K>(m, first, end, a, out);
    case Type::Q6_K:
        return run_format<FormatQ6_K>(m, first, end, a, out);
    case Type::Q2_K:
        return run_format<FormatQ2_K>(m, first, end, a, out);
    case Type::Q3_K:
        return run_format<FormatQ3_K>(m, first, end, a, out);
    case Type::IQ4_NL:
        return run_format<FormatIQ4_NL>(m, first, end, a, out);
    case Type::IQ4_XS:
        return run_format<FormatIQ4_XS>(m, first, end, a, out);
    case Type::MXFP4:
        return run_format<FormatMXFP4>(m, first, end, a, out);
    default:
        __builtin_trap();  // Matrix::int8_activations() says which types come here
    }
}

}  // namespace
}  // namespace nib::cpu
