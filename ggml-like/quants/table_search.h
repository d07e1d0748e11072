// SPDX-License-Identifier: MIT
// How the encoders of the non-uniform 4-bit formats choose a scale for 32 values: some scales that
// map the largest value near either end of the table; for each the nearest entries and the scale
// that fits them best by least squares, large values weighing more; the best pair stays. One
// candidate in each lane, as in k_search.h.
#pragma once
#include "ggml-like/quants/lanes.h"
#include "ggml-like/quants/tables.h"

#include <array>

namespace nib::quants {

// Entries of kIq4 are in ascending order; the number of the nearest one is how many of the middles
// between neighbours lie below.
inline float iq4_middle(int k) {
    return static_cast<float>(kIq4[k] + kIq4[k + 1]) / 2;
}

inline F4 nearest_iq4(F4 v) {
    F4 entry = splat(kIq4[0]);
    for (int k = 0; k < 15; k++) {
        const F4 step = splat(static_cast<float>(kIq4[k + 1] - kIq4[k]));
        entry += v > splat(iq4_middle(k)) ? step : F4{};
    }
    return entry;
}

inline uint8_t number_iq4(float v) {
    int q = 0;
    for (int k = 0; k < 15; k++)
        q += v > iq4_middle(k);
    return static_cast<uint8_t>(q);
}

inline float weight_base(const float* x) {
    F4 squares{};
    for (int i = 0; i < 32; i += 4)
        squares += load4(x + i) * load4(x + i);
    return std::sqrt(sum4(squares) / 32);
}

// The scale of 32 values; 0 if all are zero.
inline float fit_iq4(const float* x) {
    constexpr int kTries = 16;
    constexpr float kFirst = 0.86f, kStep = 0.04f;
    float extreme = x[0];
    for (int i = 1; i < 32; i++) {
        if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
    }
    if (extreme == 0) return 0;
    const float base = weight_base(x);
    float scale = extreme / kIq4[0], best_gain = 0;
    for (int t = 0; t < kTries; t += 4) {
        F4 inv{}, vv{}, vx{};
        for (int l = 0; l < 4; l++) {
            const float end = l % 2 ? kIq4[15] : kIq4[0];
            inv[l] = end * (kFirst + kStep * static_cast<float>((t + l) / 2)) / extreme;
        }
        for (int i = 0; i < 32; i++) {
            const F4 entry = nearest_iq4(splat(x[i]) * inv);
            const F4 weighted = splat(base + std::fabs(x[i])) * entry;
            vv += weighted * entry;
            vx += weighted * splat(x[i]);
        }
        for (int l = 0; l < 4; l++) {
            if (!(vv[l] > 0)) continue;
            const float gain = vx[l] * (vx[l] / vv[l]);
            if (gain > best_gain) best_gain = gain, scale = vx[l] / vv[l];
        }
    }
    return scale;
}

// Sums over 32 values for the best factor of `scale`: with their nearest entries, x ~ factor *
// scale * entry. Returns {sum w * a * x, sum w * a * a} for a = step * entry.
inline std::pair<float, float> refit_iq4(const float* x, float scale, float step) {
    const float base = weight_base(x);
    const F4 inv = splat(inverse(scale));
    F4 ax{}, aa{};
    for (int i = 0; i < 32; i += 4) {
        const F4 v = load4(x + i), a = splat(step) * nearest_iq4(v * inv);
        const F4 weighted = (splat(base) + size4(v)) * a;
        ax += weighted * v;
        aa += weighted * a;
    }
    return {sum4(ax), sum4(aa)};
}

// The numbers of 32 values in the order of nibble32().
inline void store_iq4(uint8_t* qs, const float* x, float scale) {
    const float inv = inverse(scale);
    for (int e = 0; e < 16; e++) {
        const int low = number_iq4(x[e] * inv), high = number_iq4(x[e + 16] * inv);
        qs[e] = static_cast<uint8_t>(low | high << 4);
    }
}

}  // namespace nib::quants
