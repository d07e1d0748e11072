// SPDX-License-Identifier: MIT
// Quantized weights times int8 activations: every type, level and number of tokens has the bits of
// the plain formula.
#include "tests/cpu/kernels_support.h"

#include <cmath>

#include <gtest/gtest.h>

namespace nib::cpu::test {
namespace {

class Int8 : public ::testing::TestWithParam<Type> {
  protected:
    Random random_{unsigned(GetParam()) + 1};

    std::vector<int> lengths() const {
        if (info(GetParam()).block_elems == 256) return {256, 512, 768};
        return {32, 96, 160, 576, 640};
    }
};

// Outputs of all tokens and rows, [token][rows].
std::vector<float> plain_outputs(Type type,
                                 int k,
                                 int k_padded,
                                 const std::vector<uint8_t>& gguf,
                                 int rows,
                                 const std::vector<float>& x,
                                 int n) {
    const size_t stride = row_bytes(info(type), uint64_t(k));
    std::vector<float> want;
    for (int t = 0; t < n; t++) {
        const PlainToken token = plain_token(&x[size_t(t) * size_t(k)], k, k_padded);
        for (int r = 0; r < rows; r++) {
            want.push_back(plain_dot(type, &gguf[size_t(r) * stride], k, token));
        }
    }
    return want;
}

TEST_P(Int8, EveryNumberOfTokensHasThePlainBits) {
    constexpr int kMost = 100, kRows = 37;
    for (const int k : lengths()) {
        const std::vector<uint8_t> gguf = random_rows(GetParam(), k, kRows, random_);
        const Packed w(GetParam(), k, kRows, gguf);
        std::vector<float> x = random_floats(size_t(kMost) * size_t(k), 3.0f, random_);
        std::fill(x.begin(), x.begin() + 32, 0.0f);
        const std::vector<float> all =
            plain_outputs(GetParam(), k, w.m.k_padded, gguf, kRows, x, kMost);
        for (const Kernels* level : all_levels()) {
            for (int n = 1; n <= kMost; n += n < 33 ? 1 : 67) {
                const Quantized q(*level, x, size_t(k), k, w.m.k_padded, n);
                std::vector<float> y(size_t(n) * kRows, 1e9f);
                level->matmul_int8(w.m, 0, w.m.panels, q.a, nullptr, nullptr, y.data(), kRows);
                const std::vector<float> want(all.begin(), all.begin() + n * kRows);
                ASSERT_EQ(first_difference(y, want), "")
                    << level->name << " " << info(GetParam()).name << " k " << k << " n " << n;
            }
        }
    }
}

TEST_P(Int8, PanelRangesBiasAndAddend) {
    constexpr int kTokens = 19, kRows = 70, kStride = 77;
    const int k = lengths()[1];
    const std::vector<uint8_t> gguf = random_rows(GetParam(), k, kRows, random_);
    const Packed w(GetParam(), k, kRows, gguf);
    const std::vector<float> x = random_floats(size_t(kTokens) * size_t(k), 1.0f, random_);
    const std::vector<float> bias = random_floats(kRows, 1.0f, random_);
    const std::vector<float> add = random_floats(kTokens * kStride, 1.0f, random_);
    const std::vector<float> sums =
        plain_outputs(GetParam(), k, w.m.k_padded, gguf, kRows, x, kTokens);
    std::vector<float> want(kTokens * kStride, 7.0f);
    for (size_t t = 0; t < kTokens; t++) {
        for (size_t r = 16; r < kRows; r++) {
            want[t * kStride + r] = (sums[t * kRows + r] + bias[r]) + add[t * kStride + r];
        }
    }
    for (const Kernels* level : all_levels()) {
        const Quantized q(*level, x, size_t(k), k, w.m.k_padded, kTokens);
        std::vector<float> y(kTokens * kStride, 7.0f);
        level->matmul_int8(w.m, 1, 3, q.a, bias.data(), add.data(), y.data(), kStride);
        level->matmul_int8(w.m, 3, 5, q.a, bias.data(), add.data(), y.data(), kStride);
        ASSERT_EQ(first_difference(y, want), "") << level->name;
    }
}

TEST_P(Int8, AddendMayBeTheOutput) {
    constexpr int kRows = 33;
    const int k = lengths()[0];
    const std::vector<uint8_t> gguf = random_rows(GetParam(), k, kRows, random_);
    const Packed w(GetParam(), k, kRows, gguf);
    const std::vector<float> x = random_floats(size_t(k) * 17, 1.0f, random_);
    for (const Kernels* level : all_levels()) {
        for (const int n : {1, 17}) {
            const Quantized q(*level, x, size_t(k), k, w.m.k_padded, n);
            std::vector<float> add = random_floats(size_t(n) * kRows, 1.0f, random_);
            std::vector<float> y(add.size());
            level->matmul_int8(w.m, 0, w.m.panels, q.a, nullptr, add.data(), y.data(), kRows);
            level->matmul_int8(w.m, 0, w.m.panels, q.a, nullptr, add.data(), add.data(), kRows);
            ASSERT_EQ(first_difference(add, y), "") << level->name;
        }
    }
}

// The largest products there are: all bits set or clear in the weights, activations of +-127.
TEST_P(Int8, ExtremeWeightsAndActivations) {
    constexpr int kRows = 16;
    const int k = 512;
    for (const uint8_t fill : {0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0}) {
        std::vector<uint8_t> gguf = random_rows(GetParam(), k, kRows, random_);
        const QuantDef& def = info(GetParam());
        // Everything but the float scales, whose exponents stay as they are.
        for (size_t i = 0; i < gguf.size(); i++) {
            if (!is_float_scale(GetParam(), i % def.block_bytes)) gguf[i] = fill;
        }
        const Packed w(GetParam(), k, kRows, gguf);
        std::vector<float> x(size_t(k) * 4);
        for (size_t i = 0; i < x.size(); i++) {
            const size_t token = i / size_t(k);
            x[i] = token == 0 ? 127.0f : token == 1 ? -127.0f : (random_() & 1) ? 127.0f : -127.0f;
        }
        const std::vector<float> want =
            plain_outputs(GetParam(), k, w.m.k_padded, gguf, kRows, x, 4);
        for (const Kernels* level : all_levels()) {
            const Quantized q(*level, x, size_t(k), k, w.m.k_padded, 4);
            std::vector<float> y(4 * kRows);
            level->matmul_int8(w.m, 0, 1, q.a, nullptr, nullptr, y.data(), kRows);
            ASSERT_EQ(first_difference(y, want), "") << level->name << " fill " << int(fill);
        }
    }
}

// Against the decoded weights and the exact activations in double: only the rounding of activations
// to 8 bits.
TEST_P(Int8, CloseToDouble) {
    constexpr int kRows = 48;
    for (const int k : {32, 256, 576, 768, 1536}) {
        if (k % int(info(GetParam()).block_elems) != 0) continue;
        SCOPED_TRACE(k);
        const std::vector<uint8_t> gguf = random_rows(GetParam(), k, kRows, random_);
        const Packed w(GetParam(), k, kRows, gguf);
        const std::vector<float> x = random_floats(size_t(k), 1.0f, random_);
        const Kernels& best = *find_kernels("");
        const Quantized q(best, x, size_t(k), k, w.m.k_padded, 1);
        std::vector<float> y(kRows), row(size_t(k), 0.0f);
        best.matmul_int8(w.m, 0, w.m.panels, q.a, nullptr, nullptr, y.data(), kRows);
        for (int r = 0; r < kRows; r++) {
            decode_row(w.m, r, row.data());
            double sum = 0, squares = 0;
            for (size_t i = 0; i < size_t(k); i++) {
                sum += double(row[i]) * double(x[i]);
                squares += double(row[i]) * double(row[i]);
            }
            // Rounding errors are at most half a step of 1/127 each and do not know the weights:
            // six sigma.
            EXPECT_NEAR(y[size_t(r)], sum, 6 * std::sqrt(squares / 12) / 127) << "row " << r;
        }
    }
}

// One value that is not a number must be seen in every output that depends on it, and in no other.
TEST_P(Int8, NotANumberComesThrough) {
    constexpr int kRows = 16;
    const int k = 256;
    const std::vector<uint8_t> gguf = random_rows(GetParam(), k, kRows, random_);
    const Packed w(GetParam(), k, kRows, gguf);
    for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
        std::vector<float> x = random_floats(size_t(k) * 3, 1.0f, random_);
        x[size_t(k) + 77] = bad;
        for (const Kernels* level : all_levels()) {
            const Quantized q(*level, x, size_t(k), k, w.m.k_padded, 3);
            std::vector<float> y(3 * kRows);
            level->matmul_int8(w.m, 0, 1, q.a, nullptr, nullptr, y.data(), kRows);
            for (size_t i = 0; i < y.size(); i++) {
                ASSERT_EQ(std::isnan(y[i]), i / kRows == 1) << level->name << " " << i;
            }
        }
    }
}

// Every exponent, with those whose scale is not a normal float.
TEST(Mxfp4, EveryExponent) {
    constexpr int kRows = 256, kK = 64;
    Random random(9);
    std::vector<uint8_t> gguf = random_rows(Type::MXFP4, kK, kRows, random);
    for (size_t at = 0; at < gguf.size(); at += 17)
        gguf[at] = static_cast<uint8_t>(at / 34);
    const Packed w(Type::MXFP4, kK, kRows, gguf);
    const std::vector<float> x = random_floats(kK, 1.0f, random);
    const PlainToken token = plain_token(x.data(), kK, kK);
    std::vector<float> want;
    for (int r = 0; r < kRows; r++)
        want.push_back(plain_dot(Type::MXFP4, &gguf[size_t(r) * 34], kK, token));
    EXPECT_NE(want[0], 0.0f);
    EXPECT_LT(std::fabs(want[0]), 1e-35f);
    EXPECT_GT(std::fabs(want[255]), 1e35f);
    for (const Kernels* level : all_levels()) {
        const Quantized q(*level, x, kK, kK, kK, 1);
        std::vector<float> y(kRows);
        level->matmul_int8(w.m, 0, w.m.panels, q.a, nullptr, nullptr, y.data(), kRows);
        ASSERT_EQ(first_difference(y, want), "") << level->name;
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Int8, ::testing::ValuesIn(int8_types()), [](const auto& p) {
    return std::string(nib::info(p.param).name);
});

}  // namespace
}  // namespace nib::cpu::test
