// SPDX-License-Identifier: MIT
// Packing and reading back: a row of the packed matrix is exactly the row of the file, for every
// type there is.
#include "tests/cpu/kernels_support.h"

#include <cstring>

#include <gtest/gtest.h>

namespace nib::cpu::test {
namespace {

TEST(Pack, DecodeRowIsTheFilesRow) {
    Random random(5);
    for (const QuantDef* def : all_types()) {
        for (const int rows : {1, 16, 37}) {
            const int k = static_cast<int>(def->block_elems) * (def->block_elems == 256 ? 3 : 5);
            const std::vector<uint8_t> gguf = random_rows(def->type, k, rows, random);
            const Packed w(def->type, k, rows, gguf);
            EXPECT_EQ(w.m.panel_bytes % 64, 0u) << def->name;
            EXPECT_EQ(w.m.panels, (rows + 15) / 16);
            std::vector<float> got(size_t(k), 0.0f), want(size_t(k), 1.0f);
            for (int r = 0; r < rows; r++) {
                decode_row(w.m, r, got.data());
                def->decode(&gguf[size_t(r) * row_bytes(*def, uint64_t(k))], want.data(),
                            size_t(k));
                ASSERT_EQ(first_difference(got, want), "") << def->name << " row " << r;
            }
        }
    }
}

TEST(Pack, PanelsHoldTheFilesBytesAndPadding) {
    for (const Type type : int8_types()) {
        const Matrix m = plan_matrix(type, 768, 32);
        EXPECT_TRUE(m.int8_activations());
        EXPECT_EQ(m.k_padded, 768);
        // Types with a head have a little padding there.
        const size_t bytes = row_bytes(info(type), 768) * 32;
        EXPECT_GE(matrix_bytes(m), bytes) << info(type).name;
        EXPECT_LE(matrix_bytes(m), bytes + 2 * 64) << info(type).name;
    }
    EXPECT_EQ(plan_matrix(Type::Q8_0, 96, 1).k_padded, 128);
    EXPECT_EQ(plan_matrix(Type::Q8_0, 96, 17).panels, 2);
    EXPECT_FALSE(plan_matrix(Type::F16, 96, 1).int8_activations());
    EXPECT_EQ(plan_matrix(Type::MXFP4, 2880, 1).k_padded, 2880);
    EXPECT_FALSE(plan_matrix(Type::TQ2_0, 256, 1).int8_activations());
    EXPECT_EQ(plan_matrix(Type::TQ2_0, 256, 1).layout, Layout::Rows);
}

TEST(Pack, PanelsInAnyOrderAreTheSame) {
    Random random(6);
    for (const QuantDef* def : all_types()) {
        const int k = static_cast<int>(def->block_elems) * 4, rows = 50;
        const std::vector<uint8_t> gguf = random_rows(def->type, k, rows, random);
        const Packed w(def->type, k, rows, gguf);
        const Lines other(matrix_bytes(w.m));
        for (int p = w.m.panels - 1; p >= 0; p--) {
            pack_panels(w.m, gguf.data(), p, p + 1, other.get());
        }
        EXPECT_EQ(std::memcmp(other.get(), w.m.data, matrix_bytes(w.m)), 0) << def->name;
    }
}

TEST(Pack, PlanesOfActivationsDoNotOverlapAndFit) {
    for (const int n : {1, 3, 16, 17, 40}) {
        for (const int k : {64, 576, 1536}) {
            const Lines memory(A8::bytes(n, k));
            const A8 a = A8::make(memory.get(), n, k);
            const size_t blocks = size_t(n) * size_t(k / 32);
            EXPECT_EQ(reinterpret_cast<uintptr_t>(a.q) % 64, 0u);
            EXPECT_GE(reinterpret_cast<int8_t*>(a.d), a.q + blocks * 32);
            EXPECT_GE(a.s, a.d + blocks);
            EXPECT_GE(reinterpret_cast<float*>(a.nsum), a.s + blocks);
            EXPECT_GE(a.nsum16, a.nsum + blocks);
            EXPECT_LE(reinterpret_cast<uint8_t*>(a.nsum16 + 2 * blocks),
                      memory.get() + A8::bytes(n, k));
            std::vector<bool> used(blocks);
            for (int t = 0; t < n; t++) {
                for (int b = 0; b < k / 32; b++) {
                    ASSERT_LT(a.index(t, b), blocks);
                    ASSERT_FALSE(used[a.index(t, b)]);
                    used[a.index(t, b)] = true;
                }
            }
        }
    }
}

}  // namespace
}  // namespace nib::cpu::test
