// SPDX-License-Identifier: MIT
// Loops that only read or only multiply, over the same vectors as the kernels: what no kernel of
// the level can beat. Eight chains are more than the latency of a multiply-add needs; they run in
// two groups, so that sixteen registers are enough.
#pragma once
#include "backends/cpu/panels.h"

#include <cstddef>
#include <cstdint>

namespace nib::cpu {
namespace {

// Sums that the registers hold at once.
constexpr int kProbeChains = kAttentionSums >= 8 ? 8 : 4;

int32_t probe_read(const uint8_t* bytes, size_t n, size_t ahead) {
    constexpr size_t kStep = 4 * kVector;
    alignas(64) static const int8_t kOnes[32] = {1, 1, 1, 1};
    VecU8 all[4];
    NIB_UNROLL for (size_t i = 0; i < 4; i++) all[i] = load_bytes(bytes + i * kVector);
    for (size_t at = 0; at < n; at += kStep) {
        NIB_UNROLL for (size_t i = 0; i < 4; i++) {
            if (ahead) __builtin_prefetch(bytes + at + i * kVector + ahead, 0, 3);
            all[i] = or_masked(all[i], load_bytes(bytes + at + i * kVector), 0xff);
        }
    }
    VecI sum = zero_i32();
    NIB_UNROLL for (int i = 0; i < 4; i++) dot_tokens<1, 1, 1>(&sum, &all[i], kOnes);
    return reduce_add_i32(sum);
}

int32_t probe_int8(size_t rounds) {
    alignas(64) static const uint8_t kWeights[8 * kVector] = {1};
    alignas(64) static const int8_t kValues[32 * kProbeChains] = {1};
    VecU8 w[8];
    NIB_UNROLL for (int i = 0; i < 8; i++) w[i] = load_bytes(kWeights + i * kVector);
    VecI sum[kProbeChains];
    NIB_UNROLL for (int c = 0; c < kProbeChains; c++) sum[c] = zero_i32();
    for (size_t r = 0; r < rounds * (8 / kProbeChains); r++) {
        dot_tokens<8, 8, kProbeChains>(sum, w, kValues);
    }
    VecI all = sum[0];
    NIB_UNROLL for (int c = 1; c < kProbeChains; c++) all = add_i32(all, sum[c]);
    return reduce_add_i32(all);
}

float probe_float(size_t rounds) {
    const VecF a = set1(0.999f), b = set1(0.001f);
    VecF sum[kProbeChains];
    NIB_UNROLL for (int c = 0; c < kProbeChains; c++) sum[c] = set1(static_cast<float>(c));
    for (size_t r = 0; r < rounds * (8 / kProbeChains); r++) {
        NIB_UNROLL for (int i = 0; i < 8; i++) {
            NIB_UNROLL for (int c = 0; c < kProbeChains; c++) sum[c] = fma(sum[c], a, b);
        }
    }
    VecF all = sum[0];
    NIB_UNROLL for (int c = 1; c < kProbeChains; c++) all = add(all, sum[c]);
    return reduce_add(all);
}

}  // namespace
}  // namespace nib::cpu
