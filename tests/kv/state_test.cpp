// SPDX-License-Identifier: MIT
// Sequences that leave the cache as bytes and come back into another one: what is taken over then
// is what was written, and the books are right at every step.
#include "tests/kv/fake_kv.h"

#include <random>

namespace nib::test {
namespace {

KvOptions options(int64_t context = 1024, int32_t sequences = 3, uint64_t bytes = 0) {
    return {.context = context, .max_rows = 64, .max_sequences = sequences, .bytes = bytes};
}

const std::vector<std::vector<int32_t>> kWindows = {{0}, {0, 100}, {128, 0, 1}, {70}};

KvState saved(const Driver& d, const Tokens& tokens, uint64_t salt = 0) {
    auto state = d.kv->save(tokens, salt);
    EXPECT_TRUE(state.ok());
    return state.ok() ? std::move(*state) : KvState{};
}

// The tokens of a prompt that a cache took over, with everything that they need.
int64_t taken_over(Driver& d, const Tokens& prompt, uint64_t salt = 0) {
    const int32_t s = d.kv->open_sequence(salt);
    const int64_t n = d.attach(s, prompt);
    EXPECT_EQ(d.wrong(s), "");
    EXPECT_TRUE(d.extend(s, {prompt.begin() + n, prompt.end()}));
    EXPECT_EQ(d.wrong(s), "");
    d.kv->close_sequence(s);
    return n;
}

TEST(KvState, ComesBackInAnotherCache) {
    for (const auto& windows : kWindows) {
        for (const int64_t n : {1, 63, 64, 65, 128, 200, 640, 999}) {
            Driver from(windows, options());
            const Tokens tokens = text(n);
            from.remember(tokens);
            const KvState state = saved(from, tokens);
            EXPECT_EQ(state.tokens, tokens);
            EXPECT_EQ(state.bytes.size(), from.kv->state_bytes(n));

            Driver to(windows, options());
            ASSERT_TRUE(to.kv->restore(state).ok());
            EXPECT_EQ(to.kv->check(), "");
            EXPECT_EQ(to.kv->stats().blocks_used, 0);
            EXPECT_EQ(taken_over(to, tokens + text(20, 9)), n) << windows.size() << " " << n;
        }
    }
}

TEST(KvState, TwiceIsTheSameBytes) {
    Driver d({0, 100}, options());
    const Tokens tokens = text(300);
    d.remember(tokens);
    const KvState first = saved(d, tokens);
    Driver other({0, 100}, options());
    other.remember(text(900, 7));  // leaves its traces in the blocks
    other.kv->clear_cached();
    ASSERT_TRUE(other.kv->restore(first).ok());
    EXPECT_EQ(saved(other, tokens).bytes, first.bytes);
}

TEST(KvState, WindowsGiveNoMoreThanTheyHave) {
    Driver from({0, 100}, options());
    const Tokens tokens = text(640);
    from.remember(tokens);
    Driver to({0, 100}, options());
    ASSERT_TRUE(to.kv->restore(saved(from, tokens)).ok());
    // The middle of the text was not saved for the window, so a branch there finds nothing.
    EXPECT_EQ(taken_over(to, first(tokens, 300) + text(20, 9)), 0);
    // It was computed now, so it is there.
    EXPECT_EQ(taken_over(to, first(tokens, 300) + text(20, 5)), 300);
    EXPECT_EQ(taken_over(to, tokens + text(20, 9)), 640);
}

TEST(KvState, JoinsWhatIsThereAlready) {
    for (const auto& windows : kWindows) {
        Driver from(windows, options());
        const Tokens tokens = text(500);
        from.remember(tokens);
        const KvState state = saved(from, tokens);
        Driver to(windows, options());
        const int32_t running = to.start(first(tokens, 333));
        ASSERT_TRUE(to.kv->restore(state).ok());
        ASSERT_TRUE(to.kv->restore(state).ok());  // again changes nothing
        EXPECT_EQ(to.wrong(running), "");
        EXPECT_TRUE(to.extend(running, text(100, 8)));
        EXPECT_EQ(to.wrong(running), "");
        EXPECT_EQ(taken_over(to, tokens + text(9, 9)), 500);
        to.kv->close_sequence(running);
        EXPECT_EQ(to.kv->check(), "");
    }
}

TEST(KvState, BelongsToItsSalt) {
    Driver d({0}, options());
    const Tokens tokens = text(200);
    d.remember(tokens, 5);
    EXPECT_TRUE(saved(d, tokens, 0).tokens.empty());
    const KvState state = saved(d, tokens, 5);
    EXPECT_EQ(state.tokens.size(), 200u);
    Driver other({0}, options());
    ASSERT_TRUE(other.kv->restore(state, 6).ok());
    EXPECT_EQ(other.match(tokens, 5), 0);
    EXPECT_EQ(other.match(tokens, 6), 200);
}

TEST(KvState, WhatWasEvictedIsNotSaved) {
    Driver d({0}, options(256, 1, 6 * 1000));
    const Tokens tokens = text(200);
    d.remember(tokens);
    d.remember(text(250, 3));  // needs what the first one has
    const KvState state = saved(d, tokens);
    EXPECT_LT(state.tokens.size(), 200u);
    EXPECT_EQ(state.bytes.size(), d.kv->state_bytes(int64_t(state.tokens.size())));
}

TEST(KvState, NoRoomIsAnErrorAndNothingIsLost) {
    Driver from({0}, options(256, 1));
    const Tokens tokens = text(250);
    from.remember(tokens);
    const KvState state = saved(from, tokens);
    Driver to({0}, options(256, 2, 1));  // one context for two sequences
    const int32_t running = to.start(text(130, 4));
    const auto restored = to.kv->restore(state);
    ASSERT_FALSE(restored.ok());
    EXPECT_EQ(restored.error().status, Status::OutOfMemory);
    EXPECT_EQ(to.wrong(running), "");
    to.kv->close_sequence(running);
    ASSERT_TRUE(to.kv->restore(state).ok());
    EXPECT_EQ(to.match(tokens), 250);

    Driver small({0}, options(128, 1));
    const auto too_long = small.kv->restore(state);
    ASSERT_FALSE(too_long.ok());
    EXPECT_EQ(too_long.error().status, Status::TooLong);
    EXPECT_EQ(small.kv->check(), "");
}

TEST(KvState, EraseForgetsOneAndLeavesWhatOthersShare) {
    for (const auto& windows : kWindows) {
        Driver d(windows, options());
        const Tokens system = text(128), a = system + text(100, 2), b = system + text(100, 3);
        d.remember(a);
        d.remember(b);
        EXPECT_EQ(d.kv->erase(a), 100);
        EXPECT_EQ(d.kv->check(), "");
        EXPECT_LE(d.match(a), 128);
        EXPECT_EQ(d.match(b), 228);
        EXPECT_EQ(d.kv->erase(b), 228);
        EXPECT_EQ(d.match(b), 0);
        EXPECT_EQ(d.kv->stats().blocks_cached, 0);
        EXPECT_EQ(d.kv->erase(b), 0);
        EXPECT_EQ(d.kv->erase({}), 0);

        // What a running sequence uses stays, and what only begins like it.
        const int32_t running = d.start(a);
        EXPECT_EQ(d.kv->erase(first(a, 128)), 0);
        EXPECT_EQ(d.wrong(running), "");
        d.kv->close_sequence(running);
        EXPECT_EQ(d.kv->erase(first(a, 200)), 0);
        EXPECT_EQ(d.match(a), 228);
    }
}

TEST(KvState, ManyThatComeAndGo) {
    std::mt19937 random(7);
    for (const auto& windows : kWindows) {
        Driver d(windows, options(512, 3, 30'000));
        std::vector<KvState> states;
        for (int i = 0; i < 150; i++) {
            const auto pick = random() % 4;
            const Tokens tokens =
                text(1 + random() % 300, random() % 3) + text(1 + random() % 150, random() % 5);
            if (pick == 0) d.remember(tokens);
            if (pick == 1) states.push_back(saved(d, tokens));
            if (pick == 2) d.kv->erase(tokens);
            if (pick == 3 && !states.empty()) {
                const KvState& state = states[random() % states.size()];
                ASSERT_TRUE(d.kv->restore(state).ok());
                if (!state.tokens.empty()) {
                    EXPECT_GE(taken_over(d, Tokens(state.tokens) + text(3, 9)),
                              int64_t(state.tokens.size()));
                }
            }
            ASSERT_EQ(d.kv->check(), "") << i;
        }
    }
}

}  // namespace
}  // namespace nib::test
