// SPDX-License-Identifier: MIT
// Weights of any type times float activations: every output is one chain of fma over k in order, in
// the lane of its row. F32, F16 and BF16 panels are read as they are; types kept as GGUF rows are
// decoded, one panel at a time, to [k][16] floats and then go the same way.
#pragma once
#include "backends/cpu/kernels/output.inl"
#include "backends/cpu/panels.h"

namespace nib::cpu {
namespace {

// How 16 weights of one k are read; at(panel, k) gives the lanes.
struct WeightsF32 {
    static constexpr size_t kBytes = 64;
    static NIB_INLINE VecF at(const uint8_t* p) { return load(reinterpret_cast<const float*>(p)); }
};
struct WeightsF16 {
    static constexpr size_t kBytes = 32;
    static NIB_INLINE VecF at(const uint8_t* p) {
        return load_half(reinterpret_cast<const uint16_t*>(p));
    }
};
struct WeightsBF16 {
    static constexpr size_t kBytes = 32;
    static NIB_INLINE VecF at(const uint8_t* p) {
        return load_bf16(reinterpret_cast<const uint16_t*>(p));
    }
};

struct FloatTokens {
    const float* x;
    size_t ldx;
    int n, k;
};

// P panels from `panel` on (bytes apart) times T tokens from `token` on. With few tokens several
// panels advance together, because one chain alone waits for its own fma.
template <class W, int P, int T>
NIB_INLINE void float_tile(const uint8_t* panel,
                           size_t bytes,
                           int index,
                           const FloatTokens& in,
                           int token,
                           const Output& out) {
    VecF acc[P][T];
    NIB_UNROLL for (int p = 0; p < P; p++) {
        NIB_UNROLL for (int t = 0; t < T; t++) acc[p][t] = zero();
    }
    const float* x = in.x + size_t(token) * in.ldx;
    for (int i = 0; i < in.k; i++) {
        NIB_UNROLL for (int p = 0; p < P; p++) {
            const VecF w = W::at(panel + size_t(p) * bytes + size_t(i) * W::kBytes);
            NIB_UNROLL for (int t = 0; t < T; t++) {
                acc[p][t] = fma(w, set1(x[size_t(t) * in.ldx + size_t(i)]), acc[p][t]);
            }
        }
    }
    NIB_UNROLL for (int p = 0; p < P; p++) {
        finish<T>(acc[p], index + p, output_of_token(out, token));
    }
}
// All tokens from `token` on, in tiles of at most T (a power of two).
template <class W, int P, int T>
NIB_INLINE void float_tokens(const uint8_t* panel,
                             size_t bytes,
                             int index,
                             const FloatTokens& in,
                             int token,
                             const Output& out) {
    for (; token + T <= in.n; token += T) {
        float_tile<W, P, T>(panel, bytes, index, in, token, out);
    }
    if constexpr (T > 1) {
        if (token < in.n) float_tokens<W, P, T / 2>(panel, bytes, index, in, token, out);
    }
}
// P panels at a time from p on; returns the first that is left.
template <class W, int P>
int float_groups(const Matrix& m, int p, int end, const FloatTokens& in, const Output& out) {
    for (; p + P <= end; p += P) {
        const uint8_t* panel = m.data + size_t(p) * m.panel_bytes;
        float_tokens<W, P, kFloatTokens / P>(panel, m.panel_bytes, p, in, 0, out);
    }
    return p;
}
template <class W>
void float_panels(const Matrix& m, int first, int end, const FloatTokens& in, const Output& out) {
    int p = first;
    if (in.n <= kFloatTokens / 4) {
        p = float_groups<W, 4>(m, p, end, in, out);
    } else if (in.n <= kFloatTokens / 2) {
        p = float_groups<W, 2>(m, p, end, in, out);
    }
    float_groups<W, 1>(m, p, end, in, out);
}

void matmul_float(const Matrix& m,
                  int first,
                  int end,
                  const float* x,
                  size_t ldx,
                  int n,
                  const float* bias,
                  const float* add_to,
                  float* y,
                  size_t ldy,
                  void* scratch) {
    const Output out = {bias, add_to, y, ldy, m.rows};
    const FloatTokens in = {x, ldx, n, m.k};
    if (m.layout == Layout::Rows) {
        float* values = static_cast<float*>(scratch);
        for (int p = first; p < end; p++) {
            decode_panel(m, p, values);
            float_tokens<WeightsF32, 1, kFloatTokens>(reinterpret_cast<const uint8_t*>(values), 0,
                                                      p, in, 0, out);
        }
        return;
    }
    switch (m.type) {
    case Type::F32:
        return float_panels<WeightsF32>(m, first, end, in, out);
    case Type::F16:
        return float_panels<WeightsF16>(m, first, end, in, out);
    case Type::BF16:
        return float_panels<WeightsBF16>(m, first, end, in, out);
    default:
        __builtin_trap();  // plan_matrix() gives float panels to these types only
    }
}

}  // namespace
}  // namespace nib::cpu
