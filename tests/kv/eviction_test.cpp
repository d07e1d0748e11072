// SPDX-License-Identifier: MIT
// What goes when blocks are needed: leaves first, by the policy, never what a sequence holds; and
// what a window needs at the end of a prompt or an answer stays longer than the rest.
#include "tests/kv/fake_kv.h"

namespace nib::test {
namespace {

// A full group of n blocks.
KvOptions blocks(uint64_t n, CachePolicy policy = CachePolicy::Lru) {
    return {
        .context = 256, .max_rows = 64, .max_sequences = 3, .bytes = n * 1000, .policy = policy};
}

TEST(Eviction, LeavesGoFirst) {
    Driver d({0}, blocks(8));
    d.remember(text(256, 1));  // 4 blocks
    d.remember(text(256, 2));
    const int32_t s = d.start(text(128, 3));
    EXPECT_EQ(d.match(text(256, 1)), 128) << "its last two blocks went";
    EXPECT_EQ(d.match(text(256, 2)), 256);
    EXPECT_EQ(d.kv->stats().evicted, 2u);
    ASSERT_TRUE(d.extend(s, text(128, 4)));
    EXPECT_EQ(d.match(text(256, 1)), 0);
    EXPECT_EQ(d.match(text(256, 2)), 256);
    EXPECT_EQ(d.kv->check(), "");
}

TEST(Eviction, ATrunkStaysAsLongAsABranch) {
    Driver d({0}, blocks(8));
    d.remember(text(128, 1));
    d.remember(text(128, 1) + text(128, 2));
    d.remember(text(128, 1) + text(128, 3));  // 2 + 2 + 2 blocks
    d.remember(text(256, 4));                 // 4: the older branch goes
    EXPECT_EQ(d.match(text(128, 1) + text(128, 2)), 128);
    EXPECT_EQ(d.match(text(128, 1) + text(128, 3)), 256);
}

TEST(Eviction, LruForgetsWhatWasUsedLongestAgo) {
    Driver d({0}, blocks(4));
    for (uint32_t i = 1; i <= 4; i++)
        d.remember(text(64, i));
    d.remember(text(64, 1) + text(1, 9));  // used again; its own token takes a block from 2
    EXPECT_EQ(d.match(text(64, 1)), 64);
    EXPECT_EQ(d.match(text(64, 2)), 0);
    EXPECT_EQ(d.match(text(64, 3)), 64);
    d.remember(text(128, 5));
    EXPECT_EQ(d.match(text(64, 1)), 64);
    EXPECT_EQ(d.match(text(64, 3)), 0);
    EXPECT_EQ(d.match(text(64, 4)), 0);
}

TEST(Eviction, LruCountsEveryUse) {
    Driver d({0}, blocks(4));
    for (uint32_t i = 1; i <= 4; i++)
        d.remember(text(64, i));
    // Taken over, but not kept: 2 goes for its own token.
    d.kv->close_sequence(d.start(text(64, 1) + text(1, 9)), false);
    d.remember(text(128, 5));
    EXPECT_EQ(d.match(text(64, 1)), 64);
    EXPECT_EQ(d.match(text(64, 3)), 0);
    EXPECT_EQ(d.match(text(64, 4)), 64);
}

TEST(Eviction, ASequenceUsesItsBlocksUntilItEnds) {
    Driver d({0}, blocks(4));
    const int32_t a = d.start(text(128, 1));
    d.remember(text(128, 2));
    d.kv->close_sequence(a);
    d.remember(text(64, 3));
    EXPECT_EQ(d.match(text(128, 1)), 128);
    EXPECT_EQ(d.match(text(128, 2)), 64);
}

TEST(Eviction, ComputedTwiceIsUsedTwice) {
    Driver d({0}, blocks(6, CachePolicy::Slru));
    const int32_t a = d.kv->open_sequence(), b = d.kv->open_sequence();
    ASSERT_TRUE(d.extend(a, text(64, 1)));
    ASSERT_TRUE(d.extend(b, text(64, 1)));
    d.kv->close_sequence(b);
    d.kv->close_sequence(a, false);  // not only its own any more
    EXPECT_EQ(d.match(text(64, 1)), 64);
    for (uint32_t i = 2; i < 40; i++)
        d.remember(text(64, i));
    EXPECT_EQ(d.match(text(64, 1)), 64);
}

TEST(Eviction, SlruForgetsWhatWasUsedOnceFirst) {
    for (const CachePolicy policy : {CachePolicy::Lru, CachePolicy::Slru}) {
        Driver d({0}, blocks(6, policy));
        d.remember(text(64, 1));
        const int32_t s = d.start(text(64, 1) + text(1, 7));  // used again
        d.kv->close_sequence(s, false);
        for (uint32_t i = 2; i < 40; i++)
            d.remember(text(64, i));  // a scan
        EXPECT_EQ(d.match(text(64, 1)), policy == CachePolicy::Slru ? 64 : 0);
        EXPECT_EQ(d.match(text(64, 39)), 64);
    }
}

TEST(Eviction, WhatASequenceHoldsStays) {
    Driver d({0}, blocks(6));
    const int32_t a = d.start(text(128, 1));
    d.remember(text(128, 2));
    for (uint32_t i = 3; i < 10; i++)
        d.remember(text(200, i));
    EXPECT_EQ(d.wrong(a), "");
    EXPECT_EQ(d.match(text(128, 1)), 128);
}

TEST(Eviction, OutOfMemoryChangesNothing) {
    Driver d({0, 100}, {.context = 256, .max_rows = 64, .max_sequences = 3, .bytes = 1});
    const int32_t a = d.start(text(128, 1));
    const int32_t b = d.start(text(64, 2));
    d.remember(text(30, 3));
    const auto before = d.kv->stats();
    EXPECT_EQ(d.kv->blocks_available(0), 1);
    const auto refused = d.kv->reserve(a, 128);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().status, Status::OutOfMemory);
    EXPECT_EQ(refused.error().message, "KV cache: 2 blocks are needed, 1 are free or cached");
    EXPECT_EQ(d.kv->stats().blocks_cached, before.blocks_cached);
    EXPECT_EQ(d.kv->stats().blocks_used, before.blocks_used);
    EXPECT_EQ(d.match(text(30, 3)), 30);
    EXPECT_EQ(d.wrong(a) + d.wrong(b), "");
    ASSERT_TRUE(d.extend(a, text(64, 4)));
    EXPECT_FALSE(d.extend(b, text(1, 5)));
    d.kv->close_sequence(a);  // put back
    ASSERT_TRUE(d.extend(b, text(64, 5)));
    EXPECT_EQ(d.wrong(b), "");
}

TEST(Eviction, TheBackendMayRefuse) {
    FakeBackend backend;
    backend.most_blocks = 3;
    const auto made = KvCache::create(backend, {{.window = 0, .layers = {}}},
                                      {.context = 256, .max_rows = 1, .max_sequences = 1});
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().status, Status::OutOfMemory);
}

TEST(Eviction, ClearedWhatNobodyHolds) {
    Driver d({0, 100}, {.context = 1024, .max_rows = 64, .max_sequences = 3, .bytes = 1000000});
    const int32_t a = d.start(text(500, 1));
    d.remember(text(500, 1) + text(300, 2));
    d.remember(text(500, 3));
    d.kv->clear_cached();
    EXPECT_EQ(d.kv->stats().blocks_cached, 0);
    EXPECT_EQ(d.kv->stats().evicted, 0u);
    EXPECT_EQ(d.wrong(a), "");
    EXPECT_EQ(d.match(text(500, 3)), 0);
    EXPECT_EQ(d.match(text(500, 1) + text(300, 2)), 500) << "what runs can still be shared";
}

class Windows : public testing::TestWithParam<int32_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Windows, testing::Values(1, 64, 100, 512));

// The end of the prompt and that of the answer are of use after the blocks between were needed.
TEST_P(Windows, EndsOutliveWhatIsBetween) {
    const int32_t window = GetParam();
    Driver d({0, window}, {.context = 4096, .max_rows = 64, .max_sequences = 3, .bytes = 1});
    const Tokens prompt = text(1100, 1), answer = text(1300, 2);
    const int32_t a = d.start(prompt);
    ASSERT_TRUE(d.extend(a, answer, 1));
    d.kv->close_sequence(a);
    // Another sequence needs blocks of the window until only the ends are left.
    const int32_t b = d.start({});
    ASSERT_TRUE(d.extend(b, text(1600, 3)));
    EXPECT_EQ(d.kv->stats().blocks_free, 1) << "the last one is of the full group";
    d.kv->close_sequence(b, false);
    EXPECT_EQ(d.match(prompt + answer), 2400);
    const int32_t c = d.start(prompt);  // "again, please"
    EXPECT_EQ(d.attached, 1099);
    EXPECT_EQ(d.wrong(c), "");
}

// So is the place where two conversations parted.
TEST_P(Windows, BranchesOutliveWhatIsBetween) {
    Driver d({0, GetParam()}, {.context = 8192, .max_rows = 64, .max_sequences = 6, .bytes = 1});
    d.remember(text(900, 1));
    d.remember(first(text(900, 1), 600) + text(300, 2));
    EXPECT_EQ(d.attached, 600);
    const int32_t s = d.start({});
    ASSERT_TRUE(d.extend(s, text(5000, 3)));
    EXPECT_GT(d.kv->stats().evicted, 20u);
    d.kv->close_sequence(s, false);
    const int32_t other = d.start(first(text(900, 1), 600) + text(300, 4));
    EXPECT_EQ(d.attached, 600);
    EXPECT_EQ(d.wrong(other), "");
}

TEST_P(Windows, AHitNeedsTheWindow) {
    const int32_t window = GetParam();
    // Room for the windows of what runs, hardly more.
    Driver d({0, window}, {.context = 8192, .max_rows = 64, .max_sequences = 1, .bytes = 1});
    const Tokens first_text = text(2000, 1);
    d.remember(first_text);
    ASSERT_EQ(d.match(first_text), 2000);
    for (int64_t cut : {1900, 1000, 500, 130, 64, 10}) {
        const int64_t n = d.match(first(first_text, cut) + text(100, 2));
        EXPECT_LE(n, cut);
        const int32_t s = d.start(first(first_text, cut) + text(100, 2));
        EXPECT_EQ(d.attached, n);
        EXPECT_EQ(d.wrong(s), "");
        ASSERT_TRUE(d.extend(s, text(700, 3)));
        EXPECT_EQ(d.wrong(s), "");
        d.kv->close_sequence(s);
    }
    EXPECT_EQ(d.kv->check(), "");
}

TEST(Windows, CuttingBackUsesWhatIsCached) {
    Driver d({0, 100}, {.context = 4096, .max_rows = 64, .max_sequences = 1, .bytes = 9000000});
    const int32_t s = d.start(text(1000));
    EXPECT_EQ(d.keep(s, 500), 500) << "its window had moved on, but nothing was lost";
    EXPECT_EQ(d.wrong(s), "");
    d.kv->clear_cached();
    EXPECT_EQ(d.keep(s, 300), 0);
    EXPECT_EQ(d.wrong(s), "");
}

TEST(Sizes, SequencesFitFirstThenTheRestIsShared) {
    const KvOptions o = {.context = 4096, .max_rows = 64, .max_sequences = 4};
    const auto available = [](const std::vector<int32_t>& windows, KvOptions options,
                              uint64_t bytes) {
        options.bytes = bytes;
        Driver d(windows, options);
        std::vector<int64_t> n;
        for (size_t g = 0; g < windows.size(); g++)
            n.push_back(d.kv->blocks_available(g));
        EXPECT_LE(d.kv->stats().bytes_total, std::max<uint64_t>(bytes, bytes ? 0 : 1u << 30));
        return n;
    };
    using Blocks = std::vector<int64_t>;
    EXPECT_EQ(available({0}, o, 0), (Blocks{4 * 64}));
    EXPECT_EQ(available({0}, o, 1000 * 100), (Blocks{100}));
    EXPECT_EQ(available({0, 512}, o, 0), (Blocks{4 * 64, 4 * 11}));
    EXPECT_EQ(available({0, 512}, o, 1000 * (64 + 44 + 100)), (Blocks{64 + 50, 44 + 50}));
    EXPECT_EQ(available({512}, o, 1000 * (44 + 100)), (Blocks{144}));
}

TEST(Sizes, NeverLessThanOneSequence) {
    Driver d({0, 512}, {.context = 4096, .max_rows = 64, .max_sequences = 4, .bytes = 1});
    EXPECT_EQ(d.kv->blocks_available(0), 64);
    EXPECT_EQ(d.kv->blocks_available(1), 44);
    const int32_t s = d.start(text(4096));
    EXPECT_EQ(d.wrong(s), "");
}

TEST(Sizes, NeededIsWhatASequenceTakes) {
    Driver d({0, 100}, {.context = 4096, .max_rows = 64, .max_sequences = 2});
    const KvCache& kv = *d.kv;
    EXPECT_EQ(kv.blocks_needed(0, 0, 0), 0);
    EXPECT_EQ(kv.blocks_needed(0, 0, 1), 1);
    EXPECT_EQ(kv.blocks_needed(0, 64, 64), 1);
    EXPECT_EQ(kv.blocks_needed(0, 63, 2), 1);
    EXPECT_EQ(kv.blocks_needed(1, 0, 4000), 4) << "no more than a window and a step";
    EXPECT_EQ(kv.blocks_needed(1, 4000, 1), 0);
    const int32_t s = d.start(text(1000));
    for (int64_t n = 1; n < 64; n++) {
        for (size_t g = 0; g < 2; g++) {
            const int64_t before = kv.blocks_available(g);
            const int64_t needed = kv.blocks_needed(g, kv.length(s), n);
            ASSERT_TRUE(d.kv->reserve(s, static_cast<int32_t>(n)).ok());
            EXPECT_EQ(before - kv.blocks_available(g), needed);
            d.keep(s, kv.length(s));  // gives back what was reserved
        }
        ASSERT_TRUE(d.extend(s, text(1, static_cast<uint32_t>(n))));
    }
}

}  // namespace
}  // namespace nib::test
