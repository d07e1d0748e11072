// SPDX-License-Identifier: MIT
// The KV cache without a model: exact accounting, windows, cutting back, refusing what does not
// fit.
#include "src/kv/kv_cache.h"

#include "ggml-like/reference.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace nib {
namespace {

std::vector<AttentionSpec> layers() {
    std::vector<AttentionSpec> specs;
    for (int32_t l = 0; l < 4; l++) {
        specs.push_back({.layer = l,
                         .n_heads = 2,
                         .n_kv_heads = 1,
                         .head_dim = 16,
                         .window = l % 2 ? 0 : 100,
                         .scale = 1,
                         .softcap = 0});
    }
    return specs;
}

std::unique_ptr<KvCache> make(Backend& backend, int64_t context, int32_t sequences) {
    auto kv = KvCache::create(backend, make_kv_groups(layers()),
                              {.context = context, .max_rows = 64, .max_sequences = sequences});
    EXPECT_TRUE(kv.ok());
    return std::move(*kv);
}

// Nobody looks at the tokens here: any will do, as long as they differ from each other.
void commit(KvCache& kv, int32_t sequence, int64_t n) {
    std::vector<int32_t> tokens;
    for (static int32_t next = 0; n > 0; n--)
        tokens.push_back(next++);
    kv.commit(sequence, tokens);
}

class Cache : public testing::Test {
  protected:
    std::unique_ptr<Backend> backend_ = std::move(*find_backend("reference")->create({}));
};

TEST_F(Cache, LayersOfOneWindowShareAGroup) {
    const auto groups = make_kv_groups(layers());
    ASSERT_EQ(groups.size(), 2u);
    EXPECT_EQ(groups[0].window, 100);
    EXPECT_EQ(groups[0].layers.size(), 2u);
    EXPECT_EQ(groups[1].window, 0);
    EXPECT_EQ(kv_bytes_per_token(groups), 2u * 16 * 4);
}

TEST_F(Cache, WindowGroupsKeepOnlyTheWindow) {
    const auto kv = make(*backend_, 4096, 1);
    const int32_t s = kv->open_sequence();
    for (int i = 0; i < 4000; i += 40) {
        ASSERT_TRUE(kv->reserve(s, 40).ok());
        commit(*kv, s, 40);
        StepInputs step;
        kv->fill(step);
        const int64_t length = kv->length(s);
        // Every block that the next token sees is there, those before are not.
        for (int64_t b = 0; b < (length + 63) / 64; b++) {
            const bool seen = b >= std::max<int64_t>(0, length - 99) / 64;
            EXPECT_EQ(step.tables[0][0][b] >= 0, seen) << "block " << b << " at " << length;
            EXPECT_GE(step.tables[1][0][b], 0);
        }
    }
    const auto stats = kv->stats();
    EXPECT_EQ(stats.blocks_used, 63 + 3);
    kv->close_sequence(s);
    EXPECT_EQ(kv->stats().blocks_used, 0);
    EXPECT_GE(kv->stats().blocks_cached, 63 + 3);
    kv->clear_cached();
    EXPECT_EQ(kv->stats().blocks_cached, 0);
    EXPECT_EQ(kv->check(), "");
}

TEST_F(Cache, WhatDoesNotFitChangesNothing) {
    const auto kv = make(*backend_, 128, 1);
    const int32_t s = kv->open_sequence();
    EXPECT_EQ(kv->open_sequence(), -1);
    ASSERT_TRUE(kv->reserve(s, 128).ok());
    commit(*kv, s, 128);
    const auto before = kv->stats();
    const auto error = kv->reserve(s, 1);
    ASSERT_FALSE(error.ok());
    EXPECT_EQ(error.error().status, Status::TooLong);
    EXPECT_EQ(kv->stats().blocks_used, before.blocks_used);
}

TEST_F(Cache, CuttingBackKeepsWhatItCan) {
    const auto kv = make(*backend_, 1024, 1);
    const int32_t s = kv->open_sequence();
    const auto grow = [&](int32_t n) {
        for (; n > 0; n -= 50) {
            ASSERT_TRUE(kv->reserve(s, std::min(n, 50)).ok());
            commit(*kv, s, std::min(n, 50));
        }
    };
    grow(90);
    EXPECT_EQ(kv->keep_prefix(s, 70), 70);  // the window still holds everything
    grow(400);
    EXPECT_EQ(kv->keep_prefix(s, 1000), 470);
    EXPECT_EQ(kv->keep_prefix(s, 460), 460);  // within a block of the window
    EXPECT_EQ(kv->check(), "");
    kv->clear_cached();
    EXPECT_EQ(kv->keep_prefix(s, 100), 0);  // its window is gone, and with it what is before
    EXPECT_EQ(kv->stats().blocks_used, 0);
    EXPECT_EQ(kv->check(), "");
    grow(100);
    EXPECT_EQ(kv->length(s), 100);
}

TEST_F(Cache, RandomUseNeverLosesABlock) {
    const auto kv = make(*backend_, 700, 4);
    const int32_t total = kv->stats().blocks_free;
    std::mt19937 rng(5);
    std::vector<int32_t> open;
    for (int i = 0; i < 5000; i++) {
        const uint32_t what = rng() % 8;
        if (what == 0) {
            const int32_t s = kv->open_sequence();
            if (s >= 0) open.push_back(s);
        } else if (!open.empty()) {
            const size_t at = rng() % open.size();
            const int32_t s = open[at];
            if (what == 1) {
                kv->close_sequence(s, rng() % 2 == 0);
                open.erase(open.begin() + static_cast<ptrdiff_t>(at));
            } else if (what == 2) {
                const int64_t n = static_cast<int64_t>(rng() % 700);
                const int64_t kept = kv->keep_prefix(s, n);
                ASSERT_TRUE(kept == 0 || kept <= n);
                ASSERT_EQ(kept, kv->length(s));
            } else {
                const auto n = static_cast<int32_t>(1 + rng() % 64);
                if (kv->reserve(s, n).ok()) commit(*kv, s, n);
            }
        }
        const auto stats = kv->stats();
        ASSERT_EQ(stats.blocks_used + stats.blocks_cached + stats.blocks_free, total);
        ASSERT_EQ(kv->check(), "");
    }
    for (int32_t s : open)
        kv->close_sequence(s);
    EXPECT_EQ(kv->stats().blocks_used, 0);
}

}  // namespace
}  // namespace nib
