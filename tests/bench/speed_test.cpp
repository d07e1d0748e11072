// SPDX-License-Identifier: MIT
// The speed tests on tiny models: which rows there are and that their numbers make sense. Seconds
// are never judged.
#include "src/bench/speed.h"

#include "tests/bench/fixtures.h"

namespace nib::bench {
namespace {

TEST(SpeedRequest, SaysWhatRoomItNeeds) {
    SpeedRequest r{.prompts = {100}, .generates = {30}, .depths = {0, 200}};
    EXPECT_EQ(r.context(), 300);
    EXPECT_EQ(r.rows(), 1);
    EXPECT_EQ(r.sequences(), 2);
    r.batches = {2, 8};
    r.verifies = {9};
    EXPECT_EQ(r.rows(), 9);
    EXPECT_EQ(r.sequences(), 10);
    r.batch_prompt = 1000;
    EXPECT_EQ(r.context(), 1064);
    EXPECT_EQ(SpeedRequest{.verifies = {8}}.sequences(), 2);
}

void expect_sane(const SpeedRow& row) {
    EXPECT_GT(row.tokens_per_s.min, 0) << row.test;
    EXPECT_LE(row.tokens_per_s.min, row.tokens_per_s.median) << row.test;
    EXPECT_LE(row.tokens_per_s.median, row.tokens_per_s.max) << row.test;
    EXPECT_GT(row.bytes_per_token(), 0) << row.test;
    EXPECT_GT(row.limit_share(round_limits()), 0) << row.test;
    EXPECT_EQ(row.limit_share(Roofline{}), 0) << row.test;
}

class Speed : public TinyModelTest, public testing::WithParamInterface<const char*> {
  protected:
    std::vector<SpeedRow> run(const SpeedRequest& request, int32_t max_rows = 32) {
        const LoadedModel loaded = load({.path = write(GetParam()),
                                         .context = request.context(),
                                         .max_rows = std::max(max_rows, request.rows()),
                                         .max_sequences = request.sequences()});
        if (!loaded.runner) return {};
        auto rows = measure_speed(*loaded.runner, request);
        EXPECT_TRUE(rows.ok()) << (rows.ok() ? "" : rows.error().message);
        return rows.ok() ? *rows : std::vector<SpeedRow>{};
    }
};

// Window groups give blocks back, so depth must be written again for them.
TEST_P(Speed, EveryTestHasItsRow) {
    const std::vector<SpeedRow> rows = run({.prompts = {5, 40},
                                            .generates = {3},
                                            .depths = {0, 150},
                                            .batches = {1, 3},
                                            .verifies = {4},
                                            .batch_prompt = 10,
                                            .repetitions = 2});
    std::vector<std::string> names;
    for (const SpeedRow& row : rows) {
        names.push_back(row.test);
        expect_sane(row);
        EXPECT_EQ(row.first_token_ms.has_value(), row.test.starts_with("pp")) << row.test;
        EXPECT_EQ(row.step_ratio.has_value(), row.test.starts_with("verify")) << row.test;
    }
    const std::vector<std::string> expected = {
        "pp5", "pp40", "pp5@d150", "pp40@d150", "tg3", "tg3@d150", "tg64@b1", "tg64@b3", "verify4"};
    EXPECT_EQ(names, expected);
}
INSTANTIATE_TEST_SUITE_P(Archs, Speed, testing::Values("llama", "gemma3"), [](const auto& p) {
    return std::string(p.param);
});

class SpeedNumbers : public Speed {};

TEST_P(SpeedNumbers, AMoreDistantTokenReadsMoreAndABatchReadsLess) {
    const std::vector<SpeedRow> rows = run({.generates = {4},
                                            .depths = {0, 100},
                                            .batches = {1, 4},
                                            .batch_prompt = 16,
                                            .repetitions = 1});
    ASSERT_EQ(rows.size(), 4u);
    EXPECT_GT(rows[1].bytes_per_token(), rows[0].bytes_per_token());
    EXPECT_LT(rows[3].bytes_per_token(), rows[2].bytes_per_token());
    EXPECT_EQ(rows[0].tokens, 4);
    EXPECT_EQ(rows[3].tokens, 4 * kBatchTokens);
}

TEST_P(SpeedNumbers, APromptInTwoStepsReadsTheWeightsTwice) {
    const SpeedRequest request{.prompts = {32}, .repetitions = 1};
    const std::vector<SpeedRow> one = run(request, 32), two = run(request, 16);
    ASSERT_EQ(one.size(), 1u);
    ASSERT_EQ(two.size(), 1u);
    EXPECT_GT(two[0].bytes_per_token(), 1.4 * one[0].bytes_per_token());
}

TEST_P(SpeedNumbers, NothingAskedForIsNoRow) {
    EXPECT_TRUE(run({.repetitions = 1}).empty());
}
INSTANTIATE_TEST_SUITE_P(Archs, SpeedNumbers, testing::Values("llama"), [](const auto& p) {
    return std::string(p.param);
});

TEST(Spread, IsTheMiddleAndTheEnds) {
    const Spread s = spread_of({5, 1, 4});
    EXPECT_EQ(s.median, 4);
    EXPECT_EQ(s.min, 1);
    EXPECT_EQ(s.max, 5);
    EXPECT_EQ(spread_of({}).max, 0);
}

class Loading : public TinyModelTest {};

TEST_F(Loading, ATemporaryFileIsGoneOnceItIsOpen) {
    const std::string path = write();
    const LoadedModel loaded = load({.path = path, .context = 64, .remove_file = true});
    EXPECT_TRUE(loaded.runner);
    EXPECT_FALSE(test::file_exists(path));
}

TEST_F(Loading, SetLengthCutsOrWrites) {
    const LoadedModel loaded = load({.path = write("gemma3"), .context = 300, .max_rows = 32});
    ASSERT_TRUE(loaded.runner);
    Runner& runner = *loaded.runner;
    const int32_t s = runner.kv().open_sequence();
    for (const int32_t n : {200, 10, 0, 65, 64}) {
        ASSERT_TRUE(set_length(runner, s, n).ok());
        EXPECT_EQ(runner.kv().length(s), n);
    }
}

}  // namespace
}  // namespace nib::bench
