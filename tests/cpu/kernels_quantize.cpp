// SPDX-License-Identifier: MIT
// int8 activations: every level gives the bits of the formula, alone and in any batch, at every
// edge.
#include "tests/cpu/kernels_support.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace nib::cpu::test {
namespace {

void expect_plain(
    const Kernels& level, const std::vector<float>& x, size_t ldx, int k, int k_padded, int n) {
    const Quantized q(level, x, ldx, k, k_padded, n);
    for (int t = 0; t < n; t++) {
        const PlainToken want = plain_token(&x[size_t(t) * ldx], k, k_padded);
        for (int b = 0; b < k_padded / 32; b++) {
            const size_t at = q.a.index(t, b);
            int sums[2] = {0, 0};
            for (int i = 0; i < 32; i++) {
                const int value = want.q[size_t(b * 32 + i)];
                ASSERT_EQ(q.a.q[at * 32 + size_t(i)], value)
                    << level.name << " " << t << " " << b * 32 + i;
                sums[i / 16] += value;
            }
            ASSERT_TRUE(same_bits(q.a.d[at], want.d[size_t(b)])) << level.name << " token " << t;
            ASSERT_TRUE(same_bits(q.a.s[at], want.s[size_t(b)])) << level.name << " token " << t;
            ASSERT_EQ(q.a.nsum[at], -(sums[0] + sums[1]));
            ASSERT_EQ(q.a.nsum16[2 * at], -sums[0]);
            ASSERT_EQ(q.a.nsum16[2 * at + 1], -sums[1]);
        }
    }
}

TEST(Quantize, BatchesAndPadding) {
    Random random(1);
    for (const Kernels* level : all_levels()) {
        for (const int k : {32, 33, 47, 48, 50, 64, 96, 100, 576}) {
            for (const int n : {1, 2, 16, 17, 35}) {
                const size_t ldx = size_t(k) + 3;
                const std::vector<float> x = random_floats(size_t(n) * ldx, 5.0f, random);
                expect_plain(*level, x, ldx, k, round_up(k, 64), n);
            }
        }
    }
}

TEST(Quantize, Edges) {
    const float most = std::numeric_limits<float>::max();
    const float least = std::numeric_limits<float>::denorm_min();
    Random random(2);
    std::vector<std::vector<float>> blocks = {
        std::vector<float>(32, 0.0f),   std::vector<float>(32, -0.0f),
        std::vector<float>(32, least),  std::vector<float>(32, 1e-30f),
        std::vector<float>(32, 9e-31f), std::vector<float>(32, most),
        std::vector<float>(32, -most),  random_floats(32, 1e-38f, random),
    };
    std::vector<float> ties(32);  // halves between two steps, both ways
    for (size_t i = 0; i < 32; i++)
        ties[i] = static_cast<float>(i) - 15.5f;
    ties[31] = 127.0f;
    blocks.push_back(ties);
    for (const size_t at : {0, 15, 16, 31}) {
        for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
            std::vector<float> b = random_floats(32, 1.0f, random);
            b[at] = bad;
            blocks.push_back(b);
        }
        std::vector<float> b(32, 0.0f);
        b[at] = -most;
        blocks.push_back(b);
    }
    for (const Kernels* level : all_levels()) {
        for (const std::vector<float>& block : blocks)
            expect_plain(*level, block, 32, 32, 64, 1);
    }
}

TEST(Quantize, PartsOfABatchAreTheBatch) {
    Random random(3);
    constexpr int kTokens = 37, kLength = 96;
    const std::vector<float> x = random_floats(kTokens * kLength, 1.0f, random);
    for (const Kernels* level : all_levels()) {
        const Quantized whole(*level, x, kLength, kLength, 128, kTokens);
        const Quantized parts(*level, x, kLength, kLength, 128, kTokens);
        A8 a = parts.a;
        std::fill(a.q, a.q + kTokens * 128, int8_t(1));
        for (const int first : {30, 10, 0, 20}) {
            level->quantize(x.data(), kLength, kLength, first, std::min(first + 10, kTokens), a);
        }
        for (size_t i = 0; i < kTokens * 128; i++)
            ASSERT_EQ(a.q[i], whole.a.q[i]) << i;
    }
}

}  // namespace
}  // namespace nib::cpu::test
