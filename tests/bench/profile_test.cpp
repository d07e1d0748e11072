// SPDX-License-Identifier: MIT
// The trace of an executor and what the profile makes of it.
#include "src/bench/profile.h"

#include "tests/bench/fixtures.h"

#include <cstring>
#include <set>

namespace nib::bench {
namespace {

class ProfileTest : public TinyModelTest {
  protected:
    LoadedModel ready(const char* type = "q8_0") {
        return load(
            {.path = write("llama", type), .context = 128, .max_rows = 32, .max_sequences = 20});
    }
};

std::vector<float> logits_of(Runner& runner, OpTrace* trace) {
    std::vector<float> all;
    const int32_t s = runner.kv().open_sequence();
    const std::vector<int32_t> tokens = {1, 2, 3};
    const StepPart part{.sequence = s, .tokens = tokens, .all_logits = true};
    runner.set_trace(trace);
    EXPECT_TRUE(runner
                    .step({&part, 1},
                          [&](size_t, int32_t, std::span<const float> logits) {
                              all.insert(all.end(), logits.begin(), logits.end());
                          })
                    .ok());
    runner.set_trace(nullptr);
    runner.kv().close_sequence(s);
    return all;
}

TEST_F(ProfileTest, ATraceChangesNoBit) {
    const LoadedModel loaded = ready();
    ASSERT_TRUE(loaded.runner);
    OpTrace trace;
    const auto plain = logits_of(*loaded.runner, nullptr);
    const auto traced = logits_of(*loaded.runner, &trace);
    ASSERT_EQ(plain.size(), 900u);
    ASSERT_EQ(plain.size(), traced.size());
    EXPECT_EQ(std::memcmp(plain.data(), traced.data(), plain.size() * sizeof(float)), 0);
    EXPECT_FALSE(trace.empty());
    const size_t size = trace.size();
    logits_of(*loaded.runner, nullptr);
    EXPECT_EQ(trace.size(), size);  // no more after it was taken back
}

TEST_F(ProfileTest, ATraceHoldsEveryNodeOfThePlanInOrder) {
    const LoadedModel loaded = ready();
    ASSERT_TRUE(loaded.runner);
    OpTrace trace;
    logits_of(*loaded.runner, &trace);
    std::set<int32_t> seen;
    int32_t last = -1;
    for (const TracedOp& t : trace) {
        EXPECT_GE(t.ns, 0);
        EXPECT_EQ(t.rows, 3);
        EXPECT_GT(std::strlen(t.name), 0u);
        if (t.node < 0) continue;
        EXPECT_GE(t.node, last);
        last = t.node;
        seen.insert(t.node);
    }
    std::set<int32_t> planned(loaded.runner->plan().trunk.begin(),
                              loaded.runner->plan().trunk.end());
    planned.insert(loaded.runner->plan().tail.begin(), loaded.runner->plan().tail.end());
    EXPECT_EQ(seen, planned);
}

TEST_F(ProfileTest, RowsAddUpToTheCostOfTheStep) {
    const LoadedModel loaded = ready();
    ASSERT_TRUE(loaded.runner);
    // 20 sequences: more logits than one slice of the tail.
    for (const int32_t sequences : {1, 3, 16}) {
        const PhaseRequest phase{.name = "decode", .sequences = sequences, .depth = 10, .steps = 3};
        const auto profile = profile_phase(*loaded.runner, phase, round_limits());
        ASSERT_TRUE(profile.ok());
        StepShape step;
        step.sequences.assign(static_cast<size_t>(sequences), {10, 1});
        step.outputs = sequences;
        Cost expected, sum;
        for (const Cost& c : costs_of_step(loaded.runner->plan(), step))
            expected += c;
        double limit = 0;
        for (const ProfileRow& r : profile->rows) {
            sum += r.cost;
            limit += r.limit_seconds;
            EXPECT_GT(r.calls, 0);
            EXPECT_GE(r.seconds, 0);
        }
        EXPECT_DOUBLE_EQ(sum.bytes, expected.bytes);
        EXPECT_DOUBLE_EQ(sum.macs(), expected.macs());
        EXPECT_DOUBLE_EQ(limit, profile->limit_seconds);
        EXPECT_GT(profile->step_seconds, 0);
        EXPECT_GT(profile->traced_seconds, 0);
    }
}

TEST_F(ProfileTest, LogitsInSlicesReadTheHeadForEachSlice) {
    const LoadedModel loaded = ready();
    ASSERT_TRUE(loaded.runner);
    const auto profile =
        profile_phase(*loaded.runner, {.name = "decode", .sequences = 20}, round_limits());
    ASSERT_TRUE(profile.ok());
    bool found = false;
    for (const ProfileRow& r : profile->rows) {
        if (r.shape != "q8_0 64x300" || r.op != "matmul") continue;
        found = true;
        EXPECT_EQ(r.calls, 2);  // 16 and 4 outputs
        EXPECT_DOUBLE_EQ(r.cost.int8_macs, 20.0 * 64 * 300);
    }
    EXPECT_TRUE(found);
}

TEST_F(ProfileTest, APromptIsAPhaseToo) {
    const LoadedModel loaded = ready("f32");
    ASSERT_TRUE(loaded.runner);
    const auto profile =
        profile_phase(*loaded.runner, {.name = "prompt", .rows = 32, .steps = 2}, round_limits());
    ASSERT_TRUE(profile.ok());
    double float_macs = 0, int8_macs = 0;
    for (const ProfileRow& r : profile->rows) {
        float_macs += r.cost.float_macs;
        int8_macs += r.cost.int8_macs;
    }
    EXPECT_GT(float_macs, 0);
    EXPECT_EQ(int8_macs, 0);
    // Every sequence was closed again.
    EXPECT_EQ(loaded.runner->kv().stats().blocks_used, 0);
}

}  // namespace
}  // namespace nib::bench
