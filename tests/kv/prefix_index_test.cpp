// SPDX-License-Identifier: MIT
// The index without a cache: what a lookup costs, hashes that collide, users, ends.
#include "src/kv/prefix_index.h"

#include "tests/kv/fake_kv.h"

namespace nib::test {
namespace {

// A full group whose block ids are the nodes' own ids.
int32_t grow(PrefixIndex& index, int32_t node, std::span<const int32_t> tokens) {
    PrefixIndex::GivenUp given_up;
    while (!tokens.empty()) {
        const auto part = tokens.first(std::min<size_t>(tokens.size(), kBlockTokens));
        int32_t next =
            part.size() == kBlockTokens ? index.find_child(node, part) : PrefixIndex::kNone;
        if (next == PrefixIndex::kNone) {
            next = index.add(node, part, given_up);
            index.set_block(next, 0, next);
        }
        node = next;
        tokens = tokens.subspan(part.size());
    }
    return node;
}

PrefixIndex::Match find(const PrefixIndex& index, uint64_t salt, std::span<const int32_t> tokens) {
    return index.find(index.find_root(salt), tokens, {}, true);
}

TEST(PrefixIndex, ALongPrefixCostsOneVisitPerBlock) {
    PrefixIndex index(std::vector<int32_t>{0}, CachePolicy::Lru);
    const int32_t root = index.enter(0);
    const Tokens document = text(100000, 1);
    for (uint32_t i = 0; i < 300; i++) {
        grow(index, root, first(document, 640 * (i / 2)) + text(100, 1000 + i));
        grow(index, root, text(70, 2000 + i));
    }
    grow(index, root, document);
    const auto hit = find(index, 0, document + text(10, 2));
    EXPECT_EQ(hit.n, 100000);
    EXPECT_EQ(hit.n_copied, 100000 % 64);
    EXPECT_LE(hit.visits, 100000u / 64 + 20);
    const auto miss = find(index, 0, text(100000, 3));
    EXPECT_EQ(miss.n, 0);
    EXPECT_LE(miss.visits, 20u);
    EXPECT_EQ(index.check(), "");
    index.leave(root);
}

TEST(PrefixIndex, EqualHashesAreNotEqualTokens) {
    const auto same = [](std::span<const int32_t>, uint64_t) { return uint64_t{42}; };
    PrefixIndex index(std::vector<int32_t>{0}, CachePolicy::Lru, same);
    const int32_t root = index.enter(0);
    for (uint32_t i = 1; i <= 20; i++)
        grow(index, root, text(200, i));
    for (uint32_t i = 1; i <= 20; i++)
        EXPECT_EQ(find(index, 0, text(200, i)).n, 200);
    EXPECT_EQ(find(index, 0, text(200, 99)).n, 0);
    EXPECT_EQ(find(index, 0, text(64, 1) + text(64, 2)).n, 64) << "the same tokens elsewhere";
    EXPECT_EQ(index.check(), "");
}

TEST(PrefixIndex, TheHashDependsOnAllThatIsBefore) {
    const Tokens a = text(64, 1);
    EXPECT_EQ(PrefixIndex::xxh3(a, 5), PrefixIndex::xxh3(a, 5));
    EXPECT_NE(PrefixIndex::xxh3(a, 5), PrefixIndex::xxh3(a, 6));
    EXPECT_NE(PrefixIndex::xxh3(a, 5), PrefixIndex::xxh3(text(64, 2), 5));
}

TEST(PrefixIndex, RootsGoWithTheLastOfTheirTree) {
    PrefixIndex index(std::vector<int32_t>{0}, CachePolicy::Lru);
    PrefixIndex::GivenUp given_up;
    for (uint64_t salt = 0; salt < 50; salt++) {
        const int32_t root = index.enter(salt);
        if (salt % 2) grow(index, root, text(130, 1));
        index.leave(root);
    }
    EXPECT_EQ(index.n_nodes(), 25u * 4);
    EXPECT_EQ(index.n_idle(0), 25 * 3);
    EXPECT_EQ(index.find_root(0), PrefixIndex::kNone);
    EXPECT_NE(index.find_root(1), PrefixIndex::kNone);
    while (index.evict(0, given_up)) {
        ASSERT_EQ(index.check(), "");
    }
    EXPECT_EQ(given_up.size(), 75u);
    EXPECT_EQ(index.n_nodes(), 0u);
}

TEST(PrefixIndex, AShorterEndGivesWay) {
    PrefixIndex index(std::vector<int32_t>{0}, CachePolicy::Lru);
    const int32_t root = index.enter(0);
    grow(index, root, text(10, 1));
    EXPECT_EQ(index.n_idle(0), 1);
    PrefixIndex::GivenUp given_up;
    const Tokens longer = text(20, 1);
    EXPECT_EQ(index.find_covering(root, longer), PrefixIndex::kNone);
    const int32_t node = index.add(root, longer, given_up);
    index.set_block(node, 0, node);
    EXPECT_EQ(given_up.size(), 1u);
    EXPECT_EQ(index.n_idle(0), 1);
    EXPECT_EQ(index.find_covering(root, text(10, 1)), node);
    EXPECT_EQ(index.find_covering(root, text(10, 2)), PrefixIndex::kNone);
    EXPECT_EQ(index.check(), "");
}

// A window group lost block 3 of 8; which positions can be continued at depends on the window.
TEST(PrefixIndex, APrefixEndsWhereItsWindowIsThere) {
    for (const int32_t window : {1, 64, 65, 100, 129, 1000}) {
        PrefixIndex index(std::vector<int32_t>{0, window}, CachePolicy::Lru);
        const Tokens tokens = text(512, 1);
        int32_t node = index.enter(0);
        PrefixIndex::GivenUp given_up;
        for (int32_t d = 0; d < 8; d++) {
            node = index.add(node, std::span(tokens).subspan(size_t(d) * 64, 64), given_up);
            index.set_block(node, 0, d);
            if (d != 3) index.set_block(node, 1, d);
        }
        for (int64_t n = 0; n <= 512; n++) {
            int64_t expected = n;
            const auto usable = [&](int64_t b) {
                const int64_t seen = std::max<int64_t>(0, b - window + 1);
                return b <= 192 || seen >= 256;
            };
            while (!usable(expected))
                expected--;
            ASSERT_EQ(index.usable(node, n), expected) << window << " at " << n;
            ASSERT_EQ(find(index, 0, first(tokens, n)).n, expected) << window << " at " << n;
        }
    }
}

// One full group and a window that sees 64 tokens back.
class OneWindow : public testing::Test {
  protected:
    int32_t add(int32_t parent, const Tokens& tokens) {
        const int32_t node = index_.add(parent, tokens, given_up_);
        index_.set_block(node, 0, node);
        index_.set_block(node, 1, node);
        index_.tick();
        return node;
    }
    // Whose block of the window goes next.
    int32_t next() {
        given_up_.clear();
        EXPECT_TRUE(index_.evict(1, given_up_));
        EXPECT_EQ(index_.check(), "");
        return given_up_.back().block;
    }

    PrefixIndex index_{std::vector<int32_t>{0, 64}, CachePolicy::Lru};
    PrefixIndex::GivenUp given_up_;
    int32_t root_ = index_.enter(0);
};

TEST_F(OneWindow, UsedLongestAgoGoesFirst) {
    const int32_t a = add(root_, text(64, 1)), b = add(root_, text(64, 2));
    const int32_t c = add(root_, text(64, 3));
    index_.hold(a, 1);
    index_.release(a, 1);
    EXPECT_EQ(next(), b);
    EXPECT_EQ(next(), c);
    EXPECT_EQ(next(), a);
}

TEST_F(OneWindow, WhatAnEndNeedsGoesLast) {
    const int32_t a = add(root_, text(64, 1));
    const int32_t end = add(a, text(64, 2)), after = add(end, text(64, 3));
    const int32_t other = add(root_, text(64, 4));
    index_.mark_end(end);
    EXPECT_EQ(next(), after);
    EXPECT_EQ(next(), other);
    EXPECT_EQ(next(), a);
    EXPECT_EQ(next(), end);
}

TEST_F(OneWindow, AnEndThatIsGoneNeedsNothing) {
    const int32_t a = add(root_, text(64, 1)), end = add(a, text(5, 2));
    const int32_t other = add(root_, text(64, 4));
    index_.mark_end(end);
    ASSERT_TRUE(index_.evict(0, given_up_));
    ASSERT_EQ(given_up_.front().block, end);
    EXPECT_EQ(next(), a);
    EXPECT_EQ(next(), other);
}

TEST_F(OneWindow, ALongerEndIsNeededLikeTheShorterOne) {
    const int32_t a = add(root_, text(64, 1)), end = add(a, text(5, 2));
    index_.mark_end(end);
    const int32_t longer = add(a, text(9, 2)), other = add(root_, text(64, 4));
    EXPECT_EQ(next(), other);
    EXPECT_EQ(next(), a);
    EXPECT_EQ(next(), longer);
}

TEST_F(OneWindow, ANodeWithoutItsWindowCoversNothing) {
    const int32_t a = add(root_, text(64, 1));
    EXPECT_EQ(index_.find_covering(root_, text(9, 1)), a);
    EXPECT_EQ(next(), a);
    EXPECT_EQ(index_.find_covering(root_, text(9, 1)), PrefixIndex::kNone);
    EXPECT_EQ(find(index_, 0, text(9, 1)).n, 0);
    const int32_t shorter = add(root_, text(9, 1));
    EXPECT_EQ(find(index_, 0, text(20, 1)).source, shorter);
    EXPECT_EQ(find(index_, 0, text(20, 1)).n, 9);
}

}  // namespace
}  // namespace nib::test
