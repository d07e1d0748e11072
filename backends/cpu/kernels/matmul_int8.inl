// SPDX-License-Identifier: MIT
// Quantized weights times int8 activations. A panel meets a tile of 1..16 tokens: a block of 32 k
// is unpacked once and used for all tokens of the tile, whose sums stay in registers. More tokens
// are more tiles over a panel that stays in L1. Per output, always the same chain over the blocks
// 0, 1, 2 ..:
//   acc = fma(float(sum q_row * q_token), d_row * d_token, acc)
//   acc = fma(m_row, s_token, acc)      only for types with a minimum
// Where minimums are per 16 (Q2_K), nsum being -sum of 16 q_token:
//   acc = fma(fma(float(sum scale * q_row * q_token), d_row, float(sum min * nsum) * m_row),
//             d_token, acc)
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

// -bias * sum(q_token) takes the bias of the stored bytes out of an integer sum, exactly.
template <class F>
constexpr bool kHasBias = F::kBiasShift >= 0 && !(F::kWide && kWideSigned);
template <class F>
NIB_INLINE VecI bias_sum(const int32_t* nsum) {
    return shl_i32<F::kBiasShift>(set1_i32(*nsum));
}
// What the sums of T tokens start with and, where registers are few, get last. stride: from token
// to token.
template <class F, int T>
NIB_INLINE void start_sums(VecI* sum, const int32_t* nsum, int stride) {
    NIB_UNROLL for (int t = 0; t < T; t++) {
        if constexpr (kHasBias<F> && !kBiasLast) {
            sum[t] = bias_sum<F>(nsum + t * stride);
        } else {
            sum[t] = zero_i32();
        }
    }
}
template <class F, int T>
NIB_INLINE void end_sums(VecI* sum, const int32_t* nsum, int stride) {
    if constexpr (kHasBias<F> && kBiasLast) {
        NIB_UNROLL for (int t = 0; t < T; t++) {
            sum[t] = add_i32(sum[t], bias_sum<F>(nsum + t * stride));
        }
    }
}
// sum[t] += kCount vectors of w times what token t has at x + 32 t.
template <class F, int kCount, int T>
NIB_INLINE void dot(VecI* sum, const VecU8* w, const int8_t* x) {
    if constexpr (F::kWide) {
        dot_tokens_wide<kCount, T>(sum, w, x);
    } else {
        dot_tokens<F::kRun, kCount, T>(sum, w, x);
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
        const int32_t* nsum = a.nsum16 + 2 * o;
        start_sums<F, T>(sum, nsum, 2);
        start_sums<F, T>(high, nsum + 1, 2);
        dot<F, 4, T>(sum, w.v, q);
        dot<F, 4, T>(high, w.v + 4, q + 16);
        end_sums<F, T>(sum, nsum, 2);
        end_sums<F, T>(high, nsum + 1, 2);
        NIB_UNROLL for (int t = 0; t < T; t++) {
            if constexpr (F::kScale == Scale::Per16Small) {
                sum[t] = add_product16(zero_i32(), sum[t], w.scale[0]);
                sum[t] = add_product16(sum[t], high[t], w.scale[1]);
            } else {
                sum[t] = add_i32(mul_i32(sum[t], w.scale[0]), mul_i32(high[t], w.scale[1]));
            }
        }
    } else {
        start_sums<F, T>(sum, a.nsum + o, 1);
        dot<F, 8, T>(sum, w.v, q);
        end_sums<F, T>(sum, a.nsum + o, 1);
    }
    NIB_UNROLL for (int t = 0; t < T; t++) {
        if constexpr (F::kMin == Min::Per16) {
            const int32_t* minus_q = a.nsum16 + 2 * (o + t);
            VecI low = add_product16(zero_i32(), set1_i32(minus_q[0]), w.min[0]);
            low = add_product16(low, set1_i32(minus_q[1]), w.min[1]);
            const VecF both = fma(to_float(sum[t]), w.d, mul(to_float(low), w.m));
            acc[t] = fma(both, set1(a.d[o + t]), acc[t]);
        } else {
            acc[t] = fma(to_float(sum[t]), mul(w.d, set1(a.d[o + t])), acc[t]);
            if constexpr (F::kMin == Min::Per32) acc[t] = fma(w.m, set1(a.s[o + t]), acc[t]);
        }
    }
}
// How many tokens advance together.
template <class F>
constexpr int kGroup = F::kScale == Scale::Float ? kTokenGroup : kTokenGroup16;
// N tokens in groups of at most kGroup, unrolled.
template <class F, int N>
NIB_INLINE void steps(const Block& w, const Tile& a, size_t o, VecF* acc) {
    constexpr int T = N < kGroup<F> ? N : kGroup<F>;
    step<F, T>(w, a, o, acc);
    if constexpr (N > T) steps<F, N - T>(w, a, o + T, acc + T);
}
// The same for a number known at run time only.
template <class F>
NIB_INLINE void steps_loop(const Block& w, const Tile& a, size_t o, VecF* acc) {
    int t = 0;
    for (; t + kGroup<F> <= a.n; t += kGroup<F>) {
        // The block stays where it is: loads moved out of the loop would be copies on the stack.
        asm volatile("" : : "r"(&w) : "memory");
        step<F, kGroup<F>>(w, a, o + t, acc + t);
    }
    for (; t + 2 <= a.n; t += 2)
        step<F, 2>(w, a, o + t, acc + t);
    if (t < a.n) step<F, 1>(w, a, o + t, acc + t);
}

// What to fetch ahead. With several passes over a panel each fetches its share of the next panel:
// `share` bytes per block, where the division that gives it stays outside the loop over blocks.
// With one pass share is 0, and the weights a fixed distance ahead are fetched past L2 and L3.
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

// Tiles first_tile .. end_tile of N tokens each (N = 0: whatever the tile has) over panels first ..
// end.
template <class F, int N>
void run_tiles(
    const Matrix& m, int first, int end, const A8& a, int first_tile, int end_tile, Output out) {
    const int blocks = a.k / kBlock, tiles = (a.n + kTile - 1) / kTile;
    const uint8_t* panel = m.data + size_t(first) * m.panel_bytes;
    const size_t share = tiles > 1 ? size_t(F::kBytes / tiles + 1) : 0;
    for (int p = first; p < end; p++, panel += m.panel_bytes) {
        for (int i = first_tile; i < end_tile; i++) {
            const Tile tile = tile_of(a, i * kTile);
            // A block lasts longer with more tokens, so a longer way ahead is the same time.
            const size_t distance =
                tiles > 1 ? m.panel_bytes + size_t(i * blocks) * share : (a.n < 4 ? 4096 : 8192);
            VecF acc[N > 0 ? N : kTile];
            NIB_UNROLL for (int t = 0; t < (N > 0 ? N : kTile); t++) acc[t] = zero();
            for (int b = 0; b < blocks; b++) {
                Block w;
                F::unpack(panel, a.k, b, w);
                fetch_ahead<F>(panel + distance, b, share);
                if constexpr (N > 0) {
                    steps<F, N>(w, tile, size_t(b) * N, acc);
                } else {
                    steps_loop<F>(w, tile, size_t(b) * size_t(tile.n), acc);
                }
            }
            if constexpr (N > 0) {
                finish<N>(acc, p, output_of_token(out, i * kTile));
            } else {
                finish_loop(acc, tile.n, p, output_of_token(out, i * kTile));
            }
        }
    }
}

// Every other width is a loop over groups.
constexpr uint32_t kAllWidths = 0x1fffe;
// One tile of n tokens.
template <class F, int N = kTile>
NIB_INLINE void run_width(
    const Matrix& m, int first, int end, const A8& a, int tile, int n, const Output& out) {
    if constexpr (N == 0) {
        run_tiles<F, 0>(m, first, end, a, tile, tile + 1, out);
    } else if constexpr ((kOwnWidths >> N & 1) == 0) {
        run_width<F, N - 1>(m, first, end, a, tile, n, out);
    } else if (n == N) {
        run_tiles<F, N>(m, first, end, a, tile, tile + 1, out);
    } else if constexpr (kOwnWidths != kAllWidths || N > 1) {
        run_width<F, N - 1>(m, first, end, a, tile, n, out);
    }
}

template <class F>
void run_format(const Matrix& m, int first, int end, const A8& a, const Output& out) {
    const int whole = a.n / kTile, rest = a.n % kTile;
    if (whole == 0) return run_width<F>(m, first, end, a, 0, rest, out);
    for (int p = first; p < end; p++) {
        // A level without a kernel for 16 tokens takes its loop over groups.
        run_tiles<F, (kOwnWidths >> kTile & 1) ? kTile : 0>(m, p, p + 1, a, 0, whole, out);
        if (rest > 0) run_width<F>(m, p, p + 1, a, whole, rest, out);
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
