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
// y = (sum + bias) + add for one token and the valid rows of a panel; offset: of row 0 of the
// panel.
NIB_INLINE void finish_token(VecF sum, size_t offset, int row, int valid, const Output& out) {
    if (out.bias) sum = nib::cpu::add(sum, load_n(out.bias + row, valid));
    if (out.add) sum = nib::cpu::add(sum, load_n(out.add + offset, valid));
    store_n(out.y + offset, sum, valid);
}
NIB_INLINE int valid_rows(int panel, const Output& out) {
    const int left = out.rows - panel * kPanelRows;
    return left < kPanelRows ? left : kPanelRows;
}
// All N tokens of a tile. Unrolled, so that the sums come from registers; one running offset, since
// a product for each token would be computed, and spilled, long before it is needed.
template <int N>
NIB_INLINE void finish(const VecF* sums, int panel, const Output& out) {
    const int row = panel * kPanelRows, valid = valid_rows(panel, out);
    auto offset = size_t(row);
    if (valid == kPanelRows && !out.bias && !out.add) {
        NIB_UNROLL for (int t = 0; t < N; t++, offset += out.ldy) store(out.y + offset, sums[t]);
    } else {
        NIB_UNROLL for (int t = 0; t < N; t++, offset += out.ldy) {
            finish_token(sums[t], offset, row, valid, out);
        }
    }
}
// The same for a number known at run time only.
NIB_INLINE void finish_loop(const VecF* sums, int n, int panel, const Output& out) {
    const int row = panel * kPanelRows, valid = valid_rows(panel, out);
    auto offset = size_t(row);
    for (int t = 0; t < n; t++, offset += out.ldy)
        finish_token(sums[t], offset, row, valid, out);
}

}  // namespace
}  // namespace nib::cpu
