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
// y = (sum + bias) + add for n tokens and the valid rows of a panel.
NIB_INLINE void finish(const VecF* sums, int n, int panel, const Output& out) {
    const int row = panel * kPanelRows;
    const int valid = out.rows - row < kPanelRows ? out.rows - row : kPanelRows;
    for (int t = 0; t < n; t++) {
        const size_t at = size_t(t) * out.ldy + size_t(row);
        VecF y = sums[t];
        if (out.bias) y = nib::cpu::add(y, load_n(out.bias + row, valid));
        if (out.add) y = nib::cpu::add(y, load_n(out.add + at, valid));
        store_n(out.y + at, y, valid);
    }
}

}  // namespace
}  // namespace nib::cpu
