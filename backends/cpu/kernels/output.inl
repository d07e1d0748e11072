// SPDX-License-Identifier: MIT
// The end of every matrix kernel: a panel's finished sums go to y, with bias and addend.
#pragma once
#include "backends/cpu/kernels.h"

namespace nib::cpu {
namespace {

// Where finished sums go. y and add point at row 0 of the tile's first token.
struct Output {
    const float* bias;
    const float* add;
    float* y;
    size_t ldy;
    int rows;  // of the matrix
};
NIB_INLINE Output output_of_token(Output out, int token) {
    const size_t offset = size_t(token) * out.ldy;
    out.y += offset;
    if (out.add) out.add += offset;
    return out;
}
// y = (sum + bias) + add for token t of the tile and the valid rows of a panel.
NIB_INLINE void finish_token(VecF sum, int t, int row, int valid, const Output& out) {
    const size_t at = size_t(t) * out.ldy + size_t(row);
    if (out.bias) sum = nib::cpu::add(sum, load_n(out.bias + row, valid));
    if (out.add) sum = nib::cpu::add(sum, load_n(out.add + at, valid));
    store_n(out.y + at, sum, valid);
}
NIB_INLINE int valid_rows(int panel, const Output& out) {
    const int left = out.rows - panel * kPanelRows;
    return left < kPanelRows ? left : kPanelRows;
}
// All N tokens of a tile. Unrolled, so that the sums come from registers.
template <int N>
NIB_INLINE void finish(const VecF* sums, int panel, const Output& out) {
    const int row = panel * kPanelRows, valid = valid_rows(panel, out);
    if (valid == kPanelRows && !out.bias && !out.add) {
        NIB_UNROLL for (int t = 0; t < N; t++) {
            store(out.y + size_t(t) * out.ldy + size_t(row), sums[t]);
        }
    } else {
        NIB_UNROLL for (int t = 0; t < N; t++) finish_token(sums[t], t, row, valid, out);
    }
}
// The same for a number known at run time only.
NIB_INLINE void finish_loop(const VecF* sums, int n, int panel, const Output& out) {
    const int row = panel * kPanelRows, valid = valid_rows(panel, out);
    for (int t = 0; t < n; t++)
        finish_token(sums[t], t, row, valid, out);
}

}  // namespace
}  // namespace nib::cpu
