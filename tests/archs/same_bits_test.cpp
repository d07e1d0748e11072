// SPDX-License-Identifier: MIT
// For every architecture, tiny and random: the logits of a token depend on its sequence alone. Not
// on chunks, rows of a step, neighbours, threads, CPU level or fusions; and they agree with the
// plain reference.
#include "src/runner.h"
#include "tests/support/tiny_model.h"

#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nib::test {
namespace {

constexpr int kTokens = 150;  // crosses blocks of 64 and the tiny windows

std::vector<int32_t> prompt(int n, uint32_t seed) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        tokens.push_back(static_cast<int32_t>(seed >> 8) % 300);
    }
    return tokens;
}

struct Setup {
    std::string backend = "cpu", level;
    int threads = 2, max_rows = 512, max_sequences = 3;
    bool fuse = true;
};

std::unique_ptr<Runner> make_runner(const std::string& path, const Setup& s) {
    auto file = GgufFile::open(path);
    EXPECT_TRUE(file.ok()) << file.error().message;
    if (!file.ok()) return nullptr;
    auto model = read_model(**file, {});
    EXPECT_TRUE(model.ok()) << model.error().message;
    if (!model.ok()) return nullptr;
    auto runner = Runner::create(**file, std::move(*model),
                                 {.backend = s.backend,
                                  .backend_options = {.threads = s.threads, .cpu_level = s.level},
                                  .max_rows = s.max_rows,
                                  .max_sequences = s.max_sequences,
                                  .fuse = s.fuse});
    EXPECT_TRUE(runner.ok()) << runner.error().message;
    return runner.ok() ? std::move(*runner) : nullptr;
}

using Logits = std::vector<std::vector<float>>;  // [token][n_vocab]

Logits run_chunks(Runner& r, const std::vector<int32_t>& tokens, size_t chunk) {
    Logits out;
    const int32_t sequence = r.kv().open_sequence();
    for (size_t at = 0; at < tokens.size(); at += chunk) {
        const size_t n = std::min(chunk, tokens.size() - at);
        const StepPart part{
            .sequence = sequence, .tokens = std::span(tokens).subspan(at, n), .all_logits = true};
        const auto done = r.step({&part, 1}, [&](size_t, int32_t, std::span<const float> row) {
            out.emplace_back(row.begin(), row.end());
        });
        EXPECT_TRUE(done.ok()) << done.error().message;
    }
    r.kv().close_sequence(sequence);
    return out;
}

bool same_bits(const Logits& a, const Logits& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); i++) {
        if (std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0) return false;
    }
    return true;
}

class Archs : public testing::TestWithParam<std::tuple<const ArchDef*, const char*>> {
  protected:
    void SetUp() override {
        const auto [arch, type] = GetParam();
        path_ = dir_.file("tiny.gguf");
        write_file(path_, tiny_gguf(*arch, {.type = type}));
        base_ = make_runner(path_, {.level = "scalar", .threads = 1});
        ASSERT_NE(base_, nullptr);
        want_ = run_chunks(*base_, tokens_, kTokens);
        ASSERT_EQ(want_.size(), tokens_.size());
        for (const auto& row : want_) {
            for (float v : row)
                ASSERT_TRUE(std::isfinite(v));
        }
    }

    TempDir dir_;
    std::string path_;
    std::vector<int32_t> tokens_ = prompt(kTokens, 7);
    std::unique_ptr<Runner> base_;
    Logits want_;
};

TEST_P(Archs, ChunksOfAPromptDoNotMatter) {
    for (size_t chunk : {1, 7, 33, 64}) {
        EXPECT_TRUE(same_bits(want_, run_chunks(*base_, tokens_, chunk))) << "chunks of " << chunk;
    }
}

TEST_P(Archs, LevelsAndThreadsDoNotMatter) {
    for (const char* level : {"scalar", "avx2", "avx512"}) {
        for (int threads : {1, 2, 3, 4}) {
            auto backend = find_backend("cpu")->create({.threads = threads, .cpu_level = level});
            if (!backend.ok()) {
                std::printf("skipped: this CPU has no %s\n", level);
                break;
            }
            const auto runner = make_runner(path_, {.level = level, .threads = threads});
            ASSERT_NE(runner, nullptr);
            EXPECT_TRUE(same_bits(want_, run_chunks(*runner, tokens_, 50)))
                << level << " " << threads;
        }
    }
}

TEST_P(Archs, FusionsDoNotMatter) {
    const auto runner = make_runner(path_, {.level = "scalar", .fuse = false});
    ASSERT_NE(runner, nullptr);
    EXPECT_TRUE(runner->plan().fused.empty());
    EXPECT_TRUE(same_bits(want_, run_chunks(*runner, tokens_, 50)));
}

TEST_P(Archs, NeighboursInAStepDoNotMatter) {
    const std::vector<int32_t> other = prompt(90, 3), third = prompt(5, 9);
    KvCache& kv = base_->kv();
    const int32_t a = kv.open_sequence(), b = kv.open_sequence(), c = kv.open_sequence();
    Logits got;
    const auto keep = [&](size_t part, int32_t, std::span<const float> row) {
        if (part == 1) got.emplace_back(row.begin(), row.end());
    };
    for (size_t at = 0; at < tokens_.size(); at += 30) {
        const size_t n = std::min<size_t>(30, tokens_.size() - at);
        const StepPart parts[] = {
            {.sequence = a, .tokens = std::span(other).subspan(at % 60, 7)},
            {.sequence = b, .tokens = std::span(tokens_).subspan(at, n), .all_logits = true},
            {.sequence = c, .tokens = std::span(third).subspan(0, 1)}};
        ASSERT_TRUE(base_->step(parts, keep).ok());
    }
    EXPECT_TRUE(same_bits(want_, got));
    for (int32_t s : {a, b, c})
        kv.close_sequence(s);
    EXPECT_EQ(kv.stats().blocks_used, 0);
}

TEST_P(Archs, AgreesWithTheReference) {
    const auto reference = make_runner(path_, {.backend = "reference"});
    ASSERT_NE(reference, nullptr);
    const Logits exact = run_chunks(*reference, tokens_, kTokens);
    ASSERT_EQ(exact.size(), want_.size());
    double error = 0, signal = 0;
    for (size_t t = 0; t < exact.size(); t++) {
        for (size_t i = 0; i < exact[t].size(); i++) {
            error += std::pow(double(exact[t][i]) - want_[t][i], 2);
            signal += std::pow(double(exact[t][i]), 2);
        }
    }
    // Float weights: only half precision of K and V differs. Quantized ones: also int8 activations.
    const bool is_float = std::strcmp(std::get<1>(GetParam()), "f32") == 0;
    EXPECT_LT(std::sqrt(error / signal), is_float ? 2e-3 : 3e-2);
}

std::vector<const ArchDef*> archs() {
    return {all_archs().begin(), all_archs().end()};
}

INSTANTIATE_TEST_SUITE_P(All,
                         Archs,
                         testing::Combine(testing::ValuesIn(archs()),
                                          testing::Values("f32", "q4_1", "f16")),
                         [](const auto& i) {
                             return std::string(std::get<0>(i.param)->name) + "_" +
                                    std::get<1>(i.param);
                         });

// Every type that can be written works in a model, whether the backend has panels for it or not.
class Types : public testing::TestWithParam<const char*> {};

TEST_P(Types, RunsAndIsTheSameOnAllLevels) {
    TempDir dir;
    const std::string path = dir.file("tiny.gguf");
    write_file(path, tiny_gguf(*find_arch("llama"), {.type = GetParam()}));
    const std::vector<int32_t> tokens = prompt(40, 5);
    const auto scalar = make_runner(path, {.level = "scalar"});
    const auto best = make_runner(path, {});
    ASSERT_TRUE(scalar && best);
    EXPECT_TRUE(same_bits(run_chunks(*scalar, tokens, 40), run_chunks(*best, tokens, 3)));
}

INSTANTIATE_TEST_SUITE_P(
    All,
    Types,
    testing::Values("f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"),
    [](const auto& i) { return std::string(i.param); });

// Few rows with a long context are shared out in pieces of 512 positions: alone, four of one
// sequence, and beside a short neighbour.
TEST(LongContext, PiecesOfAttentionDoNotMatter) {
    for (const char* arch : {"llama", "gemma3"}) {
        TempDir dir;
        const std::string path = dir.file("tiny.gguf");
        write_file(path, tiny_gguf(*find_arch(arch), {.keys = {{"context_length", 2048}}}));
        const auto whole = make_runner(path, {.threads = 1}),
                   shared = make_runner(path, {.threads = 4});
        ASSERT_TRUE(whole && shared);
        const std::vector<int32_t> tokens = prompt(1100, 9);
        const Logits want = run_chunks(*whole, tokens, 512);
        for (const size_t chunk : {1, 4}) {
            const int32_t sequence = shared->kv().open_sequence();
            const int32_t other = shared->kv().open_sequence();
            Logits got;
            for (size_t at = 0; at < tokens.size();) {
                // The bulk at once, then the rest in small steps.
                const size_t n = at < 1000 ? 500 : std::min(chunk, tokens.size() - at);
                const StepPart parts[] = {
                    {.sequence = sequence,
                     .tokens = std::span(tokens).subspan(at, n),
                     .all_logits = true},
                    {.sequence = other, .tokens = std::span(tokens).first(1)}};
                const auto done =
                    shared->step(parts, [&](size_t p, int32_t, std::span<const float> row) {
                        if (p == 0) got.emplace_back(row.begin(), row.end());
                    });
                ASSERT_TRUE(done.ok()) << done.error().message;
                at += n;
            }
            EXPECT_TRUE(same_bits(want, got)) << arch << " in steps of " << chunk;
            shared->kv().close_sequence(sequence);
            shared->kv().close_sequence(other);
        }
    }
}

// A row sees exactly W positions, itself included: in a model of window layers only, a token
// further back than all windows together changes nothing; one within the reach does.
TEST(Window, ReachesExactlyAsFarAsItSays) {
    TempDir dir;
    const std::string path = dir.file("tiny.gguf");
    write_file(path, tiny_gguf(*find_arch("llama"), {.keys = {{"attention.sliding_window", 4}}}));
    const auto runner = make_runner(path, {});
    ASSERT_NE(runner, nullptr);
    const std::vector<int32_t> tokens = prompt(80, 11);
    const Logits want = run_chunks(*runner, tokens, 80);
    const size_t layers = 2, reach = layers * (4 - 1);  // 3 positions back for each layer
    for (size_t changed : {size_t{79} - reach - 1, size_t{79} - reach}) {
        std::vector<int32_t> other = tokens;
        other[changed] = (other[changed] + 1) % 300;
        const Logits got = run_chunks(*runner, other, 9);
        const bool same = std::memcmp(got[79].data(), want[79].data(), want[79].size() * 4) == 0;
        EXPECT_EQ(same, changed < 79 - reach) << "changed token " << changed;
    }
}

}  // namespace
}  // namespace nib::test
