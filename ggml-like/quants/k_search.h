// SPDX-License-Identifier: MIT
// How the encoders of the 256-element formats choose scales. A block is cut into parts of 16 or 32
// values; each part gets its own small-integer scale (and minimum) relative to the block's
// half-precision ones. Two steps: for each part try a row of step sizes, fit scale and minimum to
// the rounded numbers by weighted least squares and keep the best; then round the part scales to
// integers and look at their neighbours too, because rounding the scale moves the best numbers.
// Large values weigh more: they matter more in a product.
//
// Numbers stay floats until the end, and sums run in eight lanes, so that compilers vectorize the
// search without being allowed to reorder sums.
#pragma once
#include "ggml-like/quants/block.h"

#include <array>

namespace nib::quants {

inline constexpr int kBlock = 256;

// The integer ranges of a format. q_low < 0: numbers and part scales are signed and there are no
// minima.
struct KShape {
    int part;                   // values per part: 16 or 32
    int q_low, q_high;          // of a value's number
    int scale_low, scale_high;  // of a part's scale; minima are 0..scale_high
};

// What the search decides; the formats differ only in how they pack it.
struct KBlock {
    float d = 0, dmin = 0;  // already rounded to half precision
    std::array<int, 16> scale{}, min{};
    std::array<int, kBlock> q{};
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
        return s.found_;
    }

  private:
    static constexpr int kPart = kShape.part, kParts = kBlock / kPart, kLanes = 8;
    static constexpr bool kAffine = kShape.q_low == 0;
    static constexpr float kLow = kShape.q_low, kHigh = kShape.q_high;
    using Values = std::array<float, kPart>;

    struct Part {
        Values weight, weighted;      // w and w * x
        float w_sum = 0, wx_sum = 0;  // their sums
        float scale = 0, min = 0;     // x ~ scale * q - min, before rounding
    };

    struct Lanes {
        std::array<float, kLanes> lane{};
        float sum() const {
            float total = 0;
            for (float v : lane)
                total += v;
            return total;
        }
    };

    template <class F>
    static float sum(F term) {
        Lanes lanes;
        for (int i = 0; i < kPart; i += kLanes) {
            for (int l = 0; l < kLanes; l++)
                lanes.lane[l] += term(i + l);
        }
        return lanes.sum();
    }

    // The nearest number of the format. Adding and subtracting 1.5 * 2^23 rounds to an integer.
    static float nearest(float value, float low, float high) {
        constexpr float kRound = 12582912.0f;
        const float clamped = std::min(std::max(low, value), high);
        return (clamped + kRound) - kRound;
    }

    static void weigh(const float* x, Part& part) {
        const float mean = std::sqrt(sum([&](int i) { return x[i] * x[i]; }) / kPart);
        for (int i = 0; i < kPart; i++) {
            part.weight[i] = mean + std::fabs(x[i]);
            part.weighted[i] = part.weight[i] * x[i];
        }
        part.w_sum = sum([&](int i) { return part.weight[i]; });
        part.wx_sum = sum([&](int i) { return part.weighted[i]; });
    }

    static void fit_part(const float* x, Part& part) {
        weigh(x, part);
        if (kAffine) {
            fit_affine(x, part);
        } else {
            fit_symmetric(x, part);
        }
    }

    // Numbers for one step size, and the scale and minimum that fit them best. Returns by how much
    // the fit lowers the sum of w * x * x.
    static float try_step(
        const float* x, const Part& part, float inv, float shift, float& scale, float& min) {
        Values q;
        for (int i = 0; i < kPart; i++)
            q[i] = nearest((x[i] + shift) * inv, kLow, kHigh);
        Lanes wq_lanes, wqq_lanes, wqx_lanes;
        for (int i = 0; i < kPart; i += kLanes) {
            for (int l = 0; l < kLanes; l++) {
                const float w_q = part.weight[i + l] * q[i + l];
                wq_lanes.lane[l] += w_q;
                wqq_lanes.lane[l] += w_q * q[i + l];
                wqx_lanes.lane[l] += part.weighted[i + l] * q[i + l];
            }
        }
        const float wq = wq_lanes.sum(), wqq = wqq_lanes.sum(), wqx = wqx_lanes.sum();
        if (kAffine) {
            const float determinant = part.w_sum * wqq - wq * wq;
            if (!(determinant > 0)) return 0;
            scale = (part.w_sum * wqx - part.wx_sum * wq) / determinant;
            min = (wq * wqx - wqq * part.wx_sum) / determinant;
            if (min >= 0) return scale * wqx - min * part.wx_sum;
        }
        if (!(wqq > 0)) return 0;
        scale = wqx / wqq;
        min = 0;
        return scale * wqx;
    }

    static void fit_affine(const float* x, Part& part) {
        constexpr int kSteps = 20;
        const float low = std::min(0.0f, *std::min_element(x, x + kPart));
        const float high = std::max(*std::max_element(x, x + kPart), low);
        part.min = -low;
        if (!(high > low)) return;
        part.scale = (high - low) / kHigh;
        float best_gain = 0;
        for (int step = 0; step <= kSteps; step++) {
            const float levels = kHigh - 1.2f + 0.12f * static_cast<float>(step);
            float scale = 0, min = 0;
            const float gain = try_step(x, part, levels / (high - low), -low, scale, min);
            if (gain > best_gain) best_gain = gain, part.scale = scale, part.min = min;
        }
    }

    static void fit_symmetric(const float* x, Part& part) {
        constexpr int kSteps = 8;
        float extreme = x[0];
        for (int i = 1; i < kPart; i++) {
            if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
        }
        if (extreme == 0) return;
        part.scale = extreme / kLow;
        float best_gain = 0;
        for (int step = -kSteps; step <= kSteps; step++) {
            // The negative end has one number more: the largest value goes there, or nearly as far
            // on the other side.
            for (const float end : {kLow, -kLow}) {
                const float inv = (end + 0.12f * static_cast<float>(step)) / extreme;
                float scale = 0, min = 0;
                const float gain = try_step(x, part, inv, 0, scale, min);
                if (gain > best_gain) best_gain = gain, part.scale = scale;
            }
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

    static float error_of(const float* x, const Part& part, float scale, float min, Values& q) {
        const float inv = inverse(scale);
        for (int i = 0; i < kPart; i++)
            q[i] = nearest((x[i] + min) * inv, kLow, kHigh);
        return sum([&](int i) {
            const float off = scale * q[i] - min - x[i];
            return part.weight[i] * off * off;
        });
    }

    // The integer scale and minimum of one part around their real values, and the part's numbers.
    void settle_part(const float* x, const Part& part, int index) {
        const float low = kShape.scale_low, high = kShape.scale_high;
        const float scale = nearest(part.scale * inverse(found_.d), low, high);
        const float min = nearest(part.min * inverse(found_.dmin), 0, high);
        const bool has_min = found_.dmin > 0;
        float best_error = std::numeric_limits<float>::infinity();
        Values q, best{};
        for (float s = std::max(scale - 1, low); s <= std::min(scale + 1, high); s++) {
            for (float m = has_min ? std::max(min - 1, 0.0f) : 0;
                 m <= (has_min ? std::min(min + 1, high) : 0); m++) {
                const float error = error_of(x, part, found_.d * s, found_.dmin * m, q);
                if (!(error < best_error)) continue;
                best_error = error, best = q;
                found_.scale[index] = static_cast<int>(s), found_.min[index] = static_cast<int>(m);
            }
        }
        for (int i = 0; i < kPart; i++)
            found_.q[index * kPart + i] = static_cast<int>(best[i]);
    }

    std::array<Part, kParts> parts_;
    KBlock found_;
};

}  // namespace nib::quants
