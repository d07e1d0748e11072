// SPDX-License-Identifier: MIT
// How the encoders of the 256-element formats choose scales. A block is cut into parts of 16 or 32
// values; each part gets its own small-integer scale (and minimum) relative to the block's
// half-precision ones. Three steps:
//   fit     for each part a row of step sizes; scale and minimum are fitted to the rounded numbers
//           by weighted least squares, the best pair is kept
//   settle  the part's scale becomes an integer: its neighbours are tried, each with the minimum
//           that suits it, because rounding the scale moves the best numbers
//   refit   the block's two scales by least squares over all parts; then the final numbers
//
// All candidates of a part are judged in one walk over its values, one candidate in each lane of a
// few vectors. So there are no sums across lanes and the order of every sum is written here: all
// compilers and machines choose the same bytes. Numbers stay floats until the end.
#pragma once
#include "ggml-like/quants/lanes.h"

#include <array>

namespace nib::quants {

inline constexpr int kBlock = 256;

// How much the error of a value counts: by its size or by its square, since products with large
// weights carry most of a sum. Which one is chosen for a format is measured by the divergence of
// quantized models (docs/QUANTIZE.md).
enum class Weigh { Size, Square };

// The integer ranges of a format. q_low < 0: numbers and part scales are signed and there are no
// minima.
struct KShape {
    int part;                   // values per part: 16 or 32
    int q_low, q_high;          // of a value's number
    int scale_low, scale_high;  // of a part's scale; minima are 0..scale_high
    // Step sizes to try: those that map the largest value to `first`, `first + step`, ... beyond
    // (or before) the last number. A step of 0: the largest value gets the last number, always.
    float first, step;
    Weigh weigh;
};

// What the search decides; the formats differ only in how they pack it.
struct KBlock {
    float d = 0, dmin = 0;  // already rounded to half precision
    std::array<int, 16> scale{}, min{};
    alignas(16) std::array<uint8_t, kBlock> q{};  // number - q_low
};

template <KShape kShape>
class KSearch {
  public:
    static KBlock search(const float* x) {
        KSearch s;
        for (int p = 0; p < kParts; p++)
            s.fit_part(x + p * kPart, s.parts_[p]);
        s.choose_block_scales();
        for (int p = 0; p < kParts; p++)
            s.settle_part(x + p * kPart, s.parts_[p], p);
        s.refit(x);
        for (int p = 0; p < kParts; p++)
            s.number_part(x + p * kPart, p);
        return s.found_;
    }

  private:
    static constexpr int kPart = kShape.part, kParts = kBlock / kPart;
    static constexpr bool kAffine = kShape.q_low == 0;
    static constexpr float kLow = kShape.q_low, kHigh = kShape.q_high;
    static constexpr int kTries =
        kShape.step == 0 ? 8 : 16;  // whole vectors; without a step all alike

    struct Part {
        alignas(16) float weight[kPart], weighted[kPart];  // w and w * x
        float w_sum = 0, wx_sum = 0;                       // their sums
        float scale = 0, min = 0;                          // x ~ scale * q - min, before rounding
        float wq = 0, wqq = 0, wqx = 0;                    // sums with the numbers of that fit
    };

    // The nearest number of the format.
    static F4 nearest(F4 value) {
        const F4 below = least(value, splat(kHigh));
        return whole(kAffine ? below : most(below, splat(kLow)));
    }

    static F4 weight_of(F4 v, F4 mean) {
        if (kShape.weigh == Weigh::Size) return mean + size4(v);
        return v * v + splat(0.25f) * mean * mean;
    }

    static void weigh(const float* x, Part& part) {
        F4 squares{};
        for (int i = 0; i < kPart; i += 4) {
            const F4 v = load4(x + i);
            squares += v * v;
        }
        const F4 mean = splat(std::sqrt(sum4(squares) / kPart));
        F4 w_sum{}, wx_sum{};
        for (int i = 0; i < kPart; i += 4) {
            const F4 v = load4(x + i), w = weight_of(v, mean), wx = w * v;
            store4(part.weight + i, w);
            store4(part.weighted + i, wx);
            w_sum += w;
            wx_sum += wx;
        }
        part.w_sum = sum4(w_sum);
        part.wx_sum = sum4(wx_sum);
    }

    static void fit_part(const float* x, Part& part) {
        weigh(x, part);
        F4 low = load4(x), high = low;
        for (int i = 4; i < kPart; i += 4) {
            const F4 v = load4(x + i);
            low = least(low, v);
            high = most(high, v);
        }
        float bottom = low[0], top = high[0];
        for (int l = 1; l < 4; l++) {
            bottom = std::min(bottom, low[l]);
            top = std::max(top, high[l]);
        }
        if (kAffine) {
            fit_affine(x, part, std::min(bottom, 0.0f), std::max(top, std::min(bottom, 0.0f)));
        } else {
            fit_symmetric(x, part, top > -bottom ? top : bottom);
        }
    }

    // For kTries step sizes the numbers q of all values, and the sums that a fit needs.
    struct Tries {
        static constexpr int kVectors = kTries / 4;
        float inv[kTries];
        float wq[kTries], wqq[kTries], wqx[kTries];

        void count(const float* x, const Part& part, float shift) {
            constexpr int kAtOnce = 2;  // their sums fill the registers that SSE2 has
            for (int first = 0; first < kVectors; first += kAtOnce) {
                F4 step[kAtOnce], q_sum[kAtOnce]{}, qq_sum[kAtOnce]{}, qx_sum[kAtOnce]{};
                for (int k = 0; k < kAtOnce; k++)
                    step[k] = load4(inv + 4 * (first + k));
                for (int i = 0; i < kPart; i++) {
                    const F4 v = splat(x[i] + shift), w = splat(part.weight[i]);
                    const F4 wx = splat(part.weighted[i]);
                    for (int k = 0; k < kAtOnce; k++) {
                        const F4 q = nearest(v * step[k]), w_q = w * q;
                        if (kAffine) q_sum[k] += w_q;
                        qq_sum[k] += w_q * q;
                        qx_sum[k] += wx * q;
                    }
                }
                for (int k = 0; k < kAtOnce; k++) {
                    store4(wq + 4 * (first + k), q_sum[k]);
                    store4(wqq + 4 * (first + k), qq_sum[k]);
                    store4(wqx + 4 * (first + k), qx_sum[k]);
                }
            }
        }
    };

    static void keep(const Tries& tries, int t, float scale, float min, Part& part) {
        part.scale = scale, part.min = min;
        part.wq = tries.wq[t], part.wqq = tries.wqq[t], part.wqx = tries.wqx[t];
    }

    static void fit_affine(const float* x, Part& part, float low, float high) {
        part.min = -low;
        if (!(high > low)) return;
        part.scale = (high - low) / kHigh;
        const float per_level = 1 / (high - low);
        Tries tries;
        for (int t = 0; t < kTries; t++)
            tries.inv[t] = (kHigh + kShape.first + kShape.step * static_cast<float>(t)) * per_level;
        tries.count(x, part, -low);
        float best_gain = 0;
        for (int t = 0; t < kTries; t++) {
            // The gain is by how much a fit lowers the sum of w * x * x.
            const float wq = tries.wq[t], wqq = tries.wqq[t], wqx = tries.wqx[t];
            const float determinant = part.w_sum * wqq - wq * wq;
            if (!(determinant > 0)) continue;
            float scale = (part.w_sum * wqx - part.wx_sum * wq) / determinant;
            float min = (wq * wqx - wqq * part.wx_sum) / determinant;
            if (min < 0) min = 0, scale = wqx / wqq;
            const float gain = scale * wqx - min * part.wx_sum;
            if (gain > best_gain) best_gain = gain, keep(tries, t, scale, min, part);
        }
    }

    static void fit_symmetric(const float* x, Part& part, float extreme) {
        if (extreme == 0) return;
        part.scale = extreme / kLow;
        const float per_level = 1 / extreme;
        Tries tries;
        // The negative end has one number more: the largest value goes there, or nearly as far on
        // the other side.
        for (int t = 0; t < kTries; t++) {
            const float past = kShape.first + kShape.step * static_cast<float>(t / 2);
            const bool other_side = kShape.step != 0 && t % 2 != 0;
            tries.inv[t] = (other_side ? -kLow + past : kLow - past) * per_level;
        }
        tries.count(x, part, 0);
        float best_gain = 0;
        for (int t = 0; t < kTries; t++) {
            if (!(tries.wqq[t] > 0)) continue;
            const float scale = tries.wqx[t] / tries.wqq[t], gain = scale * tries.wqx[t];
            if (gain > best_gain) best_gain = gain, keep(tries, t, scale, 0, part);
        }
    }

    void choose_block_scales() {
        float scale = 0, min = 0;
        for (const Part& part : parts_) {
            if (std::fabs(part.scale) > std::fabs(scale)) scale = part.scale;
            min = std::max(min, part.min);
        }
        found_.d =
            half_scale(scale / static_cast<float>(kAffine ? kShape.scale_high : kShape.scale_low));
        found_.dmin = half_scale(min / static_cast<float>(kShape.scale_high));
    }

    // The candidates of settle: four scales around the real one; with minima, two for each.
    struct Choices {
        static constexpr int kScales = 4, kMins = kAffine ? 2 : 1, kCount = kScales * kMins;
        float scale[kCount], min[kCount];  // integers
        float error[kCount];
    };

    void list_choices(const Part& part, Choices& choices) const {
        const float low = kShape.scale_low, high = kShape.scale_high;
        const float below = std::floor(bounded(part.scale * inverse(found_.d), low, high));
        const float per_min = inverse(found_.dmin * part.w_sum);
        for (int c = 0; c < Choices::kCount; c++) {
            const float scale =
                std::clamp(below + static_cast<float>(c % Choices::kScales - 1), low, high);
            choices.scale[c] = scale;
            choices.min[c] = 0;
            if (!kAffine) continue;
            // With the numbers of the fit, this minimum is best for this scale.
            const float min = (found_.d * scale * part.wq - part.wx_sum) * per_min;
            const float step = static_cast<float>(c / Choices::kScales);
            choices.min[c] = std::min(std::floor(bounded(min, 0, high)) + step, high);
        }
    }

    void judge(const float* x, const Part& part, Choices& choices) const {
        constexpr int kVectors = Choices::kCount / 4;
        F4 scale[kVectors], inv[kVectors], min[kVectors], error[kVectors]{};
        for (int k = 0; k < kVectors; k++) {
            float inverses[4];
            for (int l = 0; l < 4; l++)
                inverses[l] = inverse(found_.d * choices.scale[4 * k + l]);
            scale[k] = splat(found_.d) * load4(choices.scale + 4 * k);
            min[k] = splat(found_.dmin) * load4(choices.min + 4 * k);
            inv[k] = load4(inverses);
        }
        for (int i = 0; i < kPart; i++) {
            const F4 v = splat(x[i]), w = splat(part.weight[i]);
            for (int k = 0; k < kVectors; k++) {
                const F4 lifted = v + min[k];
                const F4 scaled = lifted * inv[k];
                const F4 q = nearest(kAffine ? most(scaled, F4{}) : scaled);
                const F4 off = scale[k] * q - lifted;
                error[k] += w * off * off;
            }
        }
        for (int k = 0; k < kVectors; k++)
            store4(choices.error + 4 * k, error[k]);
    }

    // The integer scale and minimum of one part.
    void settle_part(const float* x, const Part& part, int index) {
        Choices choices;
        list_choices(part, choices);
        judge(x, part, choices);
        int best = 1;
        for (int c = 0; c < Choices::kCount; c++) {
            if (choices.error[c] < choices.error[best]) best = c;
        }
        found_.scale[index] = static_cast<int>(choices.scale[best]);
        found_.min[index] = static_cast<int>(choices.min[best]);
    }

    // The numbers of four values with the scales as they are.
    F4 numbers(F4 v, F4 inv, F4 min) const {
        const F4 scaled = (v + min) * inv;
        return nearest(kAffine ? most(scaled, F4{}) : scaled);
    }

    // The best block scales for the integers that were settled.
    void refit(const float* x) {
        // Sums over the block for x ~ d * a - dmin * b, a = scale * q, b = minimum.
        float aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
        for (int p = 0; p < kParts; p++) {
            const Part& part = parts_[p];
            const float s = static_cast<float>(found_.scale[p]);
            const float m = static_cast<float>(found_.min[p]);
            const F4 inv = splat(inverse(found_.d * s)), min = splat(found_.dmin * m);
            F4 wq{}, wqq{}, wqx{};
            for (int i = 0; i < kPart; i += 4) {
                const F4 q = numbers(load4(x + p * kPart + i), inv, min);
                const F4 w_q = load4(part.weight + i) * q;
                wq += w_q;
                wqq += w_q * q;
                wqx += load4(part.weighted + i) * q;
            }
            aa += s * s * sum4(wqq);
            ab += s * m * sum4(wq);
            bb += m * m * part.w_sum;
            ax += s * sum4(wqx);
            bx += m * part.wx_sum;
        }
        float d = ax / aa, dmin = found_.dmin;
        if (kAffine && bb > 0) {
            const float determinant = aa * bb - ab * ab;
            d = (bb * ax - ab * bx) / determinant;
            dmin = (ab * ax - aa * bx) / determinant;
        }
        if (!std::isfinite(d) || !std::isfinite(dmin) || dmin < 0 || (kAffine && d < 0)) return;
        found_.d = half_scale(d);
        found_.dmin = half_scale(dmin);
    }

    void number_part(const float* x, int index) {
        const F4 inv = splat(inverse(found_.d * static_cast<float>(found_.scale[index])));
        const F4 min = splat(found_.dmin * static_cast<float>(found_.min[index]));
        for (int i = 0; i < kPart; i += 4) {
            const I4 q = to_int(numbers(load4(x + i), inv, min) - splat(kLow));
            for (int l = 0; l < 4; l++)
                found_.q[index * kPart + i + l] = static_cast<uint8_t>(q[l]);
        }
    }

    // Within [low, high]; low for what is not a number.
    static float bounded(float value, float low, float high) {
        return value > low ? std::min(value, high) : low;
    }

    std::array<Part, kParts> parts_;
    KBlock found_;
};

}  // namespace nib::quants
