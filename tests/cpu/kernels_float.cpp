// SPDX-License-Identifier: MIT
// Float matmul of every type that is not multiplied as int8: one chain of fma over the decoded
// weights.
#include "tests/cpu/kernels_support.h"

#include <cmath>

#include <gtest/gtest.h>

namespace nib::cpu::test {
namespace {

std::vector<Type> float_types() {
    std::vector<Type> types;
    for (const QuantDef* def : all_types()) {
        if (!plan_matrix(def->type, static_cast<int>(def->block_elems), 1).int8_activations()) {
            types.push_back(def->type);
        }
    }
    return types;
}

class Float : public ::testing::TestWithParam<Type> {
  protected:
    Random random_{unsigned(GetParam()) + 100};
};

std::vector<float> chain_outputs(const Matrix& m, const std::vector<float>& x, int n) {
    const size_t k = size_t(m.k);
    std::vector<float> row(k), want(size_t(n) * size_t(m.rows));
    for (int r = 0; r < m.rows; r++) {
        decode_row(m, r, row.data());
        for (int t = 0; t < n; t++) {
            float acc = 0;
            for (size_t i = 0; i < k; i++)
                acc = std::fma(row[i], x[size_t(t) * k + i], acc);
            want[size_t(t) * size_t(m.rows) + size_t(r)] = acc;
        }
    }
    return want;
}

TEST_P(Float, EveryNumberOfTokensIsOneChain) {
    constexpr int kMost = 33;
    const int block = static_cast<int>(info(GetParam()).block_elems);
    for (const int rows : {5, 100}) {
        const int k = block == 1 ? 77 : block * 3;
        const std::vector<uint8_t> gguf = random_rows(GetParam(), k, rows, random_);
        const Packed w(GetParam(), k, rows, gguf);
        const std::vector<float> x = random_floats(size_t(kMost) * size_t(k), 1.0f, random_);
        const std::vector<float> all = chain_outputs(w.m, x, kMost);
        const Lines scratch(matmul_float_scratch(w.m) + 64);
        for (const Kernels* level : all_levels()) {
            for (int n = 1; n <= kMost; n += n < 12 ? 1 : 7) {
                std::vector<float> y(size_t(n * rows), 1e9f);
                level->matmul_float(w.m, 0, w.m.panels, x.data(), size_t(k), n, nullptr, nullptr,
                                    y.data(), size_t(rows), scratch.get());
                const std::vector<float> want(all.begin(), all.begin() + n * rows);
                ASSERT_EQ(first_difference(y, want), "")
                    << level->name << " " << info(GetParam()).name << " rows " << rows << " n "
                    << n;
            }
        }
    }
}

TEST_P(Float, PanelRangesBiasAndAddend) {
    constexpr int kTokens = 3, kRows = 70, kStride = 75;
    const int k = static_cast<int>(info(GetParam()).block_elems) * 2;
    const std::vector<uint8_t> gguf = random_rows(GetParam(), k, kRows, random_);
    const Packed w(GetParam(), k, kRows, gguf);
    const std::vector<float> x = random_floats(size_t(kTokens) * size_t(k), 1.0f, random_);
    const std::vector<float> bias = random_floats(kRows, 1.0f, random_);
    const std::vector<float> add = random_floats(kTokens * kStride, 1.0f, random_);
    const Lines scratch(matmul_float_scratch(w.m) + 64);
    const std::vector<float> sums = chain_outputs(w.m, x, kTokens);
    for (const Kernels* level : all_levels()) {
        for (int n = 1; n <= kTokens; n++) {
            std::vector<float> y(kTokens * kStride, 7.0f), want = y;
            for (size_t t = 0; t < size_t(n); t++) {
                for (size_t r = 16; r < kRows; r++) {
                    want[t * kStride + r] = (sums[t * kRows + r] + bias[r]) + add[t * kStride + r];
                }
            }
            level->matmul_float(w.m, 1, 5, x.data(), size_t(k), n, bias.data(), add.data(),
                                y.data(), kStride, scratch.get());
            ASSERT_EQ(first_difference(y, want), "") << level->name << " n " << n;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Float, ::testing::ValuesIn(float_types()), [](const auto& p) {
    return std::string(nib::info(p.param).name);
});

}  // namespace
}  // namespace nib::cpu::test
