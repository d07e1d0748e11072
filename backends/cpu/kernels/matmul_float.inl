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
        VecF sums[T];
        NIB_UNROLL for (int t = 0; t < T; t++) sums[t] = acc[p][t];
        finish(sums, T, index + p, output_of_token(out, token));
    }
}
template <class W>
void float_panel(
    const uint8_t* panel, int index, const FloatTokens& in, int token, const Output& out) {
    for (; token + kFloatTokens <= in.n; token += kFloatTokens) {
        float_tile<W, 1, kFloatTokens>(panel, 0, index, in, token, out);
    }
    for (; token + 2 <= in.n; token += 2)
        float_tile<W, 1, 2>(panel, 0, index, in, token, out);
    for (; token < in.n; token++)
        float_tile<W, 1, 1>(panel, 0, index, in, token, out);
}
template <class W>
void float_panels(const Matrix& m, int first, int end, const FloatTokens& in, const Output& out) {
    int p = first;
    if (in.n <= 2 && kFloatPanels > 1) {
        for (; p + kFloatPanels <= end; p += kFloatPanels) {
            const uint8_t* panel = m.data + size_t(p) * m.panel_bytes;
            if (in.n == 2) {
                float_tile<W, kFloatPanels, 2>(panel, m.panel_bytes, p, in, 0, out);
            } else if (in.n == 1) {
                float_tile<W, kFloatPanels, 1>(panel, m.panel_bytes, p, in, 0, out);
            }
        }
    }
    for (; p < end; p++)
        float_panel<W>(m.data + size_t(p) * m.panel_bytes, p, in, 0, out);
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
            float_panel<WeightsF32>(reinterpret_cast<const uint8_t*>(values), p, in, 0, out);
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
