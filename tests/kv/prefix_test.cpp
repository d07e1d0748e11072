// SPDX-License-Identifier: MIT
// What is taken over from others: at any cut, from sequences that run and from those that are gone,
// and never from another salt; and that nobody writes what others see.
#include "tests/kv/fake_kv.h"

namespace nib::test {
namespace {

const KvOptions kRoomy = {.context = 4096, .max_rows = 64, .max_sequences = 4};

TEST(Prefix, AnyCutIsTakenOver) {
    const Tokens known = text(200, 1);
    for (int64_t cut = 0; cut <= 200; cut++) {
        Driver d({0}, kRoomy);
        d.remember(known);
        const Tokens prompt = first(known, cut) + text(150, 2);
        ASSERT_EQ(d.match(prompt), cut);
        const int32_t s = d.start(prompt);
        ASSERT_EQ(d.attached, cut);
        ASSERT_EQ(d.wrong(s), "") << cut;
        const auto stats = d.kv->stats();
        EXPECT_EQ(stats.hits, cut > 0 ? 1u : 0u);
        EXPECT_EQ(stats.hit_tokens, static_cast<uint64_t>(cut));
        EXPECT_EQ(stats.copies, cut % 64 ? 1u : 0u);
        d.kv->close_sequence(s);
        ASSERT_EQ(d.match(known), 200) << "the first one is whole after " << cut;
        ASSERT_EQ(d.kv->check(), "");
    }
}

TEST(Prefix, NoMoreThanTheLimit) {
    Driver d({0}, kRoomy);
    const Tokens known = text(200);
    d.remember(known);
    for (int64_t limit = 0; limit <= 200; limit++) {
        EXPECT_EQ(d.kv->match(known, limit), limit);
        const int32_t s = d.kv->open_sequence();
        ASSERT_EQ(d.kv->attach(s, known, limit), limit);
        d.written[static_cast<size_t>(s)] = first(known, limit);
        ASSERT_EQ(d.wrong(s), "");
        d.kv->close_sequence(s);
    }
    EXPECT_EQ(d.kv->match(known, -5), 0);
    EXPECT_EQ(d.kv->match(known, 1000), 200);
}

TEST(Prefix, MatchChangesNothing) {
    Driver d({0, 100}, kRoomy);
    d.remember(text(200));
    const auto before = d.kv->stats();
    EXPECT_EQ(d.match(text(200)), 200);
    EXPECT_EQ(d.match(text(200), 9), 0);
    const auto after = d.kv->stats();
    EXPECT_EQ(before.blocks_cached, after.blocks_cached);
    EXPECT_EQ(before.hits, after.hits);
}

TEST(Prefix, SaltsDoNotShare) {
    Driver d({0}, kRoomy);
    d.remember(text(200), 7);
    EXPECT_EQ(d.match(text(200), 7), 200);
    EXPECT_EQ(d.match(text(200), 8), 0);
    EXPECT_EQ(d.match(text(200)), 0);
    const int32_t a = d.start(text(200), 8);
    EXPECT_EQ(d.attached, 0);
    const int32_t b = d.start(text(200), 7);
    EXPECT_EQ(d.attached, 199);
    EXPECT_EQ(d.wrong(a) + d.wrong(b), "");
}

TEST(Prefix, TheBestOfSeveralContinuations) {
    Driver d({0}, kRoomy);
    const Tokens trunk = text(64, 1);
    for (uint32_t i = 0; i < 20; i++)
        d.remember(trunk + first(text(64, 2), 3 * i) + text(30, 100 + i));
    for (uint32_t i = 0; i < 20; i++) {
        const Tokens probe = trunk + first(text(64, 2), 3 * i) + text(10, 100 + i) + text(9, 999);
        EXPECT_EQ(d.match(probe), 64 + 3 * i + 10);
    }
    EXPECT_EQ(d.match(trunk + text(64, 2)), 64 + 3 * 19);
}

TEST(Prefix, ASequenceThatRunsIsShared) {
    Driver d({0, 100}, kRoomy);
    const Tokens document = text(700, 1);
    const int32_t a = d.start(document);
    const int32_t b = d.start(document + text(100, 2));
    EXPECT_EQ(d.attached, 700) << "also its last block, which is not full";
    const int32_t c = d.start(first(document, 690) + text(100, 3));
    EXPECT_EQ(d.attached, 690);
    ASSERT_TRUE(d.extend(a, text(100, 4), 1));
    ASSERT_TRUE(d.extend(b, text(100, 5), 1));
    ASSERT_TRUE(d.extend(c, text(100, 6), 1));
    for (int32_t s : {a, b, c})
        EXPECT_EQ(d.wrong(s), "");
}

TEST(Prefix, SharingCostsOnlyWhatDiffers) {
    Driver d({0}, kRoomy);
    const Tokens document = text(1280, 1);
    const int32_t a = d.start(document);
    EXPECT_EQ(d.kv->stats().blocks_used, 20);
    const int32_t b = d.start(document + text(10, 2));
    const int32_t c = d.start(document + text(10, 3));
    EXPECT_EQ(d.kv->stats().blocks_used, 22);
    for (int32_t s : {a, b, c})
        d.kv->close_sequence(s);
    EXPECT_EQ(d.kv->stats().blocks_used, 0);
    EXPECT_EQ(d.kv->stats().blocks_cached, 22);
}

TEST(Prefix, TwoThatComputeTheSameKeepOneBlock) {
    Driver d({0, 100}, kRoomy);
    const int32_t a = d.kv->open_sequence(), b = d.kv->open_sequence();
    const Tokens same = text(640, 1);
    for (int64_t i = 0; i < 640; i += 32) {
        const Tokens part(same.begin() + i, same.begin() + i + 32);
        ASSERT_TRUE(d.extend(a, part));
        ASSERT_TRUE(d.extend(b, part));
        ASSERT_EQ(d.wrong(a) + d.wrong(b), "");
    }
    EXPECT_EQ(d.kv->stats().blocks_used, 10 + 2);
    ASSERT_TRUE(d.extend(a, text(70, 2)));
    ASSERT_TRUE(d.extend(b, text(70, 3)));
    EXPECT_EQ(d.wrong(a) + d.wrong(b), "");
}

TEST(Prefix, CuttingInsideOfASharedBlockCopies) {
    for (const int64_t n : {0, 1, 63, 64, 65, 100, 128, 191, 192, 199, 200}) {
        Driver d({0, 100}, kRoomy);
        const Tokens known = text(200, 1);
        const int32_t a = d.start(known);
        const int32_t b = d.start(known + text(1, 2));
        ASSERT_EQ(d.keep(b, n), n);
        ASSERT_TRUE(d.extend(b, text(150, 3)));
        ASSERT_EQ(d.wrong(a), "");
        ASSERT_EQ(d.wrong(b), "");
        ASSERT_EQ(d.match(known), 200);
    }
}

TEST(Prefix, CuttingWithoutABlockForTheCopyEndsAtABlock) {
    Driver d({0}, {.context = 256, .max_rows = 64, .max_sequences = 2, .bytes = 4000});
    const int32_t a = d.start(text(256));
    const int32_t b = d.kv->open_sequence();
    EXPECT_EQ(d.attach(b, text(256)), 192) << "no block for the copy";
    EXPECT_EQ(d.wrong(b), "");
    EXPECT_EQ(d.keep(b, 100), 64);
    EXPECT_EQ(d.wrong(a) + d.wrong(b), "");
    d.kv->close_sequence(a);
    d.kv->close_sequence(b);
    EXPECT_EQ(d.match(text(256)), 256);
}

TEST(Prefix, WhatIsNotKeptIsGone) {
    Driver d({0, 100}, kRoomy);
    d.remember(text(150, 1));
    const int32_t cached = d.kv->stats().blocks_cached;
    const int32_t a = d.start(text(150, 1) + text(300, 2));
    d.kv->close_sequence(a, false);
    EXPECT_EQ(d.match(text(150, 1)), 150) << "what was there before stays";
    EXPECT_EQ(d.kv->stats().blocks_cached, cached);

    const int32_t b = d.start(text(300, 3));
    const int32_t c = d.start(text(300, 3) + text(10, 4));
    d.kv->close_sequence(b, false);
    EXPECT_EQ(d.wrong(c), "");
    d.kv->close_sequence(c);
    EXPECT_EQ(d.match(text(300, 3) + text(10, 4)), 310) << "another one has used it";
    EXPECT_EQ(d.kv->check(), "");
}

TEST(Prefix, AConversationIsTakenOverTurnByTurn) {
    Driver d({0, 512}, kRoomy);
    Tokens talk;
    for (uint32_t turn = 0; turn < 12; turn++) {
        const auto before = static_cast<int64_t>(talk.size());
        talk = talk + text(37 + 11 * turn, 100 + turn);
        const int32_t s = d.start(talk);
        EXPECT_EQ(d.attached, before);
        const Tokens answer = text(91, 200 + turn);
        ASSERT_TRUE(d.extend(s, answer, 1));
        talk = talk + answer;
        ASSERT_EQ(d.wrong(s), "");
        d.kv->close_sequence(s);
        ASSERT_EQ(d.kv->check(), "");
    }
}

}  // namespace
}  // namespace nib::test
