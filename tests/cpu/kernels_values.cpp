// SPDX-License-Identifier: MIT
// Elementwise kernels, norms and rope: the same bits at all levels, and close to double precision.
#include "tests/cpu/kernels_support.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

namespace nib::cpu::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Random values of many sizes, and everything extreme.
std::vector<float> wide_values(size_t n, Random& random) {
    std::vector<float> v = {0.0f,      -0.0f,      1e-45f, -1e-45f, 1e-38f,  1.0f,    -1.0f,
                            88.7f,     88.8f,      -87.4f, -103.9f, -104.1f, 3.4e38f, -3.4e38f,
                            kInfinity, -kInfinity, NAN,    0.625f,  0.6249f, 20.0f,   -20.0f,
                            1e10f,     -1e10f,     1e20f,  -1e20f,  0.01f};
    while (v.size() < n) {
        const float size = std::ldexp(1.0f, static_cast<int>(random() % 24) - 14);
        v.push_back(random_floats(1, size, random)[0]);
    }
    v.resize(n);
    return v;
}

// Distance in units of the last place of the expected value.
double ulps(float got, double want) {
    const float nearest = static_cast<float>(want);
    if (std::isnan(want)) return std::isnan(got) ? 0 : 1e9;
    if (std::isinf(nearest) || got == nearest) return got == nearest ? 0 : 1e9;
    const double size = std::max(std::fabs(want), double(std::numeric_limits<float>::min()));
    const double step = std::ldexp(1.0, std::ilogb(size) - 23);
    return std::fabs(double(got) - want) / step;
}

// Runs one kernel at every level for lengths around multiples of 16; all results equal the scalar
// ones.
void expect_levels_equal(const std::function<void(const Kernels&, size_t, float*)>& run) {
    for (const size_t n : {1, 7, 15, 16, 17, 31, 32, 33, 64, 200, 575, 576}) {
        std::vector<float> want(n + 16, 42.0f);
        run(*find_kernels("scalar"), n, want.data());
        for (const Kernels* level : all_levels()) {
            std::vector<float> got(n + 16, 42.0f);
            run(*level, n, got.data());
            ASSERT_EQ(first_difference(got, want), "") << level->name << " n " << n;
            for (size_t i = n; i < n + 16; i++)
                ASSERT_EQ(got[i], 42.0f) << level->name << " wrote past n";
        }
    }
}

class Values : public ::testing::Test {
  protected:
    Random random_{7};
    std::vector<float> a_ = wide_values(600, random_);
    std::vector<float> b_ = random_floats(600, 2.0f, random_);
};

TEST_F(Values, AddMulScale) {
    expect_levels_equal(
        [&](const Kernels& k, size_t n, float* y) { k.add(a_.data(), b_.data(), y, n); });
    expect_levels_equal(
        [&](const Kernels& k, size_t n, float* y) { k.mul(a_.data(), b_.data(), y, n); });
    expect_levels_equal(
        [&](const Kernels& k, size_t n, float* y) { k.scale(a_.data(), 0.37f, y, n); });
    std::vector<float> y(600);
    const Kernels& k = *find_kernels("");
    k.add(a_.data(), b_.data(), y.data(), 600);
    for (size_t i = 0; i < 600; i++)
        ASSERT_TRUE(same_bits(y[i], a_[i] + b_[i]));
    k.mul(a_.data(), b_.data(), y.data(), 600);
    for (size_t i = 0; i < 600; i++)
        ASSERT_TRUE(same_bits(y[i], a_[i] * b_[i]));
    k.scale(a_.data(), 0.37f, y.data(), 600);
    for (size_t i = 0; i < 600; i++)
        ASSERT_TRUE(same_bits(y[i], a_[i] * 0.37f));
}

TEST_F(Values, ActivationsHaveTheSameBits) {
    expect_levels_equal(
        [&](const Kernels& k, size_t n, float* y) { k.silu(a_.data(), b_.data(), y, n); });
    expect_levels_equal(
        [&](const Kernels& k, size_t n, float* y) { k.gelu_tanh(a_.data(), b_.data(), y, n); });
    expect_levels_equal(
        [&](const Kernels& k, size_t n, float* y) { k.softcap(a_.data(), 30.0f, y, n); });
    expect_levels_equal(
        [&](const Kernels& k, size_t n, float* y) { k.softcap(a_.data(), 1.0f, y, n); });
}

// silu shows exp: silu(x) = x / (1 + e^-x), and for very negative x it is x e^x almost exactly.
TEST_F(Values, SiluIsClose) {
    const Kernels& k = *find_kernels("");
    const float one = 1.0f;
    for (double x = -86; x < 90; x += 0.0137) {
        const float in = static_cast<float>(x);
        float y;
        k.silu(&in, &one, &y, 1);
        ASSERT_LT(ulps(y, double(in) / (1 + std::exp(-double(in)))), 4.0) << in;
    }
    for (const float in : {-200.0f, -3e38f, 3e38f, 1e-40f, 0.0f}) {
        float y;
        k.silu(&in, &one, &y, 1);
        ASSERT_FALSE(std::isnan(y)) << in;
        ASSERT_NEAR(y, in > 0 ? in : 0.0f, 1e-37f) << in;
    }
}

TEST_F(Values, GeluIsClose) {
    const Kernels& k = *find_kernels("");
    const float one = 1.0f;
    for (double x = -10; x < 12; x += 0.0013) {
        const float in = static_cast<float>(x);
        const double v = in, u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
        float y;
        k.gelu_tanh(&in, &one, &y, 1);
        // The exponent's own rounding grows with its size.
        ASSERT_NEAR(y, v / (1 + std::exp(-2 * u)), 3e-7 * std::max(1e-3, std::fabs(v))) << in;
    }
    for (const float in : {-200.0f, -3e38f, 3e38f, 0.0f}) {
        float y;
        k.gelu_tanh(&in, &one, &y, 1);
        ASSERT_EQ(y, in > 0 ? in : 0.0f) << in;
    }
}

TEST_F(Values, SoftcapIsTanh) {
    const Kernels& k = *find_kernels("");
    for (double x = -12; x < 12; x += 0.00137) {
        const float in = static_cast<float>(x);
        float y;
        k.softcap(&in, 1.0f, &y, 1);
        ASSERT_LT(ulps(y, std::tanh(double(in))), 2.5) << in;
    }
    for (const float in : {1e-40f, -1e-40f, 1e-20f, 1e30f, -1e30f, kInfinity, -kInfinity}) {
        float y;
        k.softcap(&in, 1.0f, &y, 1);
        ASSERT_EQ(y, static_cast<float>(std::tanh(double(in)))) << in;
    }
}

TEST_F(Values, MaxAbs) {
    for (const Kernels* level : all_levels()) {
        for (const size_t n : {1, 15, 16, 17, 100}) {
            std::vector<float> x = random_floats(n, 1.0f, random_);
            float want = 0;
            for (const float v : x)
                want = std::max(want, std::fabs(v));
            EXPECT_EQ(level->max_abs(x.data(), n), want);
            x[n / 2] = -kInfinity;
            EXPECT_EQ(level->max_abs(x.data(), n), kInfinity);
            x[n - 1] = -NAN;
            EXPECT_TRUE(std::isnan(level->max_abs(x.data(), n)));
        }
        EXPECT_EQ(level->max_abs(nullptr, 0), 0.0f);
    }
}

TEST_F(Values, RmsNorm) {
    const std::vector<float> x = random_floats(600, 3.0f, random_);
    const auto run = [&](const Kernels& k, size_t n, float* y) {
        k.rms_norm(x.data(), b_.data(), y, static_cast<int>(n), 1e-5f);
    };
    expect_levels_equal(run);
    expect_levels_equal([&](const Kernels& k, size_t n, float* y) {
        k.rms_norm(x.data(), nullptr, y, static_cast<int>(n), 1e-5f);
    });
    for (const int n : {1, 16, 100, 576}) {
        std::vector<float> y(size_t(n), 0.0f), in_place(x.begin(), x.begin() + n);
        run(*find_kernels(""), size_t(n), y.data());
        double squares = 0;
        for (int i = 0; i < n; i++)
            squares += double(x[size_t(i)]) * double(x[size_t(i)]);
        const double root = std::sqrt(squares / n + 1e-5);
        for (size_t i = 0; i < size_t(n); i++) {
            ASSERT_NEAR(y[i], double(x[i]) / root * double(b_[i]),
                        1e-6 * std::fabs(double(y[i])) + 1e-30);
        }
        find_kernels("")->rms_norm(in_place.data(), b_.data(), in_place.data(), n, 1e-5f);
        ASSERT_EQ(first_difference(in_place, y), "");
    }
}

TEST_F(Values, LayerNorm) {
    std::vector<float> x = random_floats(600, 3.0f, random_);
    for (float& v : x)
        v += 5.0f;
    const std::vector<float> bias = random_floats(600, 1.0f, random_);
    const auto run = [&](const Kernels& k, size_t n, float* y) {
        k.layer_norm(x.data(), b_.data(), bias.data(), y, static_cast<int>(n), 1e-5f);
    };
    expect_levels_equal(run);
    for (const int n : {7, 16, 100, 576}) {
        std::vector<float> y(size_t(n), 0.0f);
        run(*find_kernels(""), size_t(n), y.data());
        double mean = 0, squares = 0;
        for (int i = 0; i < n; i++)
            mean += double(x[size_t(i)]) / n;
        for (int i = 0; i < n; i++)
            squares += std::pow(double(x[size_t(i)]) - mean, 2);
        const double root = std::sqrt(squares / n + 1e-5);
        for (size_t i = 0; i < size_t(n); i++) {
            ASSERT_NEAR(y[i], (double(x[i]) - mean) / root * double(b_[i]) + double(bias[i]), 5e-6);
        }
    }
}

TEST_F(Values, RopeTurnsPairs) {
    struct Case {
        int head_dim, n_dims, heads;
    };
    for (const Case c :
         {Case{64, 64, 3}, {64, 32, 2}, {80, 20, 2}, {256, 256, 1}, {16, 16, 5}, {48, 34, 2}}) {
        const size_t pairs = size_t(c.n_dims / 2), n = size_t(c.head_dim * c.heads);
        std::vector<float> cosine(pairs), sine(pairs);
        for (size_t i = 0; i < pairs; i++) {
            cosine[i] = static_cast<float>(std::cos(0.3 * double(i) + 1));
            sine[i] = static_cast<float>(std::sin(0.3 * double(i) + 1));
        }
        const std::vector<float> x = random_floats(n, 1.0f, random_);
        for (const bool neox : {true, false}) {
            std::vector<float> want = x;
            for (int h = 0; h < c.heads; h++) {
                for (size_t i = 0; i < pairs; i++) {
                    const size_t first = size_t(h * c.head_dim) + (neox ? i : 2 * i);
                    const size_t second = first + (neox ? pairs : 1);
                    const float p = x[first] * cosine[i], q = x[second] * sine[i];
                    const float r = x[first] * sine[i], s = x[second] * cosine[i];
                    want[first] = p - q;
                    want[second] = r + s;
                }
            }
            for (const Kernels* level : all_levels()) {
                const RopeRow row = {cosine.data(), sine.data(), c.n_dims, neox};
                std::vector<float> y(n), in_place = x;
                level->rope(x.data(), row, c.head_dim, c.heads, y.data());
                ASSERT_EQ(first_difference(y, want), "") << level->name << " neox " << neox;
                level->rope(in_place.data(), row, c.head_dim, c.heads, in_place.data());
                ASSERT_EQ(first_difference(in_place, want), "") << level->name << " neox " << neox;
            }
        }
    }
}

TEST(Levels, ScalarIsThereAndNamesAreFound) {
    const std::vector<const Kernels*> levels = all_levels();
    ASSERT_FALSE(levels.empty());
    EXPECT_STREQ(levels.back()->name, "scalar");
    EXPECT_EQ(find_kernels(""), levels.front());
    for (const Kernels* level : levels)
        EXPECT_EQ(find_kernels(level->name), level);
    EXPECT_EQ(find_kernels("mmx"), nullptr);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        EXPECT_NE(find_kernels("avx2"), nullptr);
    }
    if (__builtin_cpu_supports("avx512vnni")) {
        EXPECT_NE(find_kernels("avx512"), nullptr);
    }
}

}  // namespace
}  // namespace nib::cpu::test
