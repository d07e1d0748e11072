// SPDX-License-Identifier: MIT
// The two real models against float32 results: token ids, log-probabilities, greedy text; and the
// same bits whatever the threads, chunks and CPU level. Models come from scripts/fetch-models.
#include "src/json/json.h"
#include "src/score.h"
#include "tests/support/support.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

namespace nib::test {
namespace {

struct Bar {
    const char* file;
    double mean_difference;  // of log-probabilities over the top ten, at most
    double same_first;       // share of positions with the same first choice, at least
};

// What a good int8 implementation reaches on the same prompts; ours must not be worse.
const Bar kSmol{"SmolLM2-135M-Instruct.Q4_1", 0.104, 0.958};
const Bar kGemma{"gemma-3-270m-q4_k_m", 0.133, 0.983};

std::string model_path(const Bar& bar) {
    const char* cache = std::getenv("XDG_CACHE_HOME");
    const char* home = std::getenv("HOME");
    const std::string base = cache && *cache ? cache : std::string(home ? home : "") + "/.cache";
    return base + "/nib/models/" + bar.file + ".gguf";
}

Json read_json(const std::string& name) {
    auto json = parse_json(read_file(std::string(NIB_SOURCE_DIR) + "/tests/golden/data/" + name));
    EXPECT_TRUE(json.ok());
    return json.ok() ? std::move(*json) : Json::array();
}

std::unique_ptr<Engine> open(const Bar& bar, const EngineOptions& changes = {}) {
    EngineOptions o = changes;
    o.model_path = model_path(bar);
    auto engine = Engine::create(o);
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    return engine.ok() ? std::move(*engine) : nullptr;
}

#define NEEDS_MODEL(bar)                                          \
    if (!file_exists(model_path(bar))) {                          \
        GTEST_SKIP() << "skipped: " << model_path(bar)            \
                     << " is missing (scripts/fetch-models all)"; \
    }

class Golden : public testing::TestWithParam<const Bar*> {};

TEST_P(Golden, ScoresAsFloat32Does) {
    const Bar& bar = *GetParam();
    NEEDS_MODEL(bar)
    const auto engine = open(bar);
    ASSERT_NE(engine, nullptr);
    const Json prompts = read_json("prompts.json"),
               golden = read_json(std::string(bar.file) + ".json");
    ASSERT_EQ(prompts.size(), golden.size());
    double difference = 0;
    int compared = 0, positions = 0, same_first = 0, greedy_equal = 0;
    for (size_t i = 0; i < prompts.size(); i++) {
        const auto score = score_text(*engine, prompts[i]["text"].get<std::string>(),
                                      {.top = 1000, .special = prompts[i]["special"].get<bool>()});
        ASSERT_TRUE(score.ok()) << score.error().message;
        const Json& want = golden[i];
        ASSERT_EQ(want["tokens"].get<std::vector<Token>>(), score->tokens) << want["id"];
        ASSERT_EQ(want["positions"].size(), score->positions.size()) << want["id"];
        for (size_t p = 0; p < score->positions.size(); p++) {
            ASSERT_EQ(want["positions"][p]["pos"].get<int>(), score->positions[p].pos);
            std::map<Token, double> got(score->positions[p].top.begin(),
                                        score->positions[p].top.end());
            const Json& top = want["positions"][p]["top"];
            for (const Json& entry : top) {
                const auto found = got.find(entry[0].get<Token>());
                // One of the ten best that is not even among our 1000 best is very wrong.
                ASSERT_NE(found, got.end()) << want["id"] << " position " << p;
                difference += std::abs(found->second - entry[1].get<double>());
                compared++;
            }
            positions++;
            same_first += score->positions[p].top[0].first == top[0][0].get<Token>();
        }
        const auto greedy = want["greedy"].get<std::vector<Token>>();
        greedy_equal += greedy == score->greedy;
        if (want["greedy_min_margin"].get<double>() > 0.5) {
            EXPECT_EQ(greedy, score->greedy) << want["id"];
        }
    }
    const double mean = difference / compared, share = double(same_first) / positions;
    std::printf(
        "%s: mean difference %.4f (at most %.3f), same first choice %.2f %% (at least %.1f), "
        "equal greedy texts %d of %zu\n",
        bar.file, mean, bar.mean_difference, share * 100, bar.same_first * 100, greedy_equal,
        prompts.size());
    EXPECT_LE(mean, bar.mean_difference);
    EXPECT_GE(share, bar.same_first);
}

// Bits of the logits of every position.
uint64_t hash_of_logits(Engine& engine, std::span<const Token> tokens) {
    uint64_t hash = 1469598103934665603u;
    const auto done = engine.score(tokens, [&](int32_t, std::span<const float> logits) {
        for (float l : logits) {
            uint32_t bits = 0;
            std::memcpy(&bits, &l, sizeof bits);
            hash = (hash ^ bits) * 1099511628211u;
        }
    });
    EXPECT_TRUE(done.ok()) << done.error().message;
    return hash;
}

std::vector<Token> prompt_tokens(const Engine& engine, const char* id, size_t n) {
    for (const Json& p : read_json("prompts.json")) {
        if (p["id"] != id) continue;
        auto tokens = engine.tokenizer()->encode(p["text"].get<std::string>(), true, true);
        tokens.resize(std::min(n, tokens.size()));
        return tokens;
    }
    ADD_FAILURE() << "no prompt " << id;
    return {};
}

TEST_P(Golden, ThreadsAndChunksGiveTheSameBits) {
    const Bar& bar = *GetParam();
    NEEDS_MODEL(bar)
    uint64_t want = 0;
    for (int32_t ubatch : {4096, 300, 64, 7, 1}) {
        // Short chunks are slow: fewer threads variants there.
        for (int32_t threads : ubatch >= 300 ? std::vector{1, 2, 3} : std::vector{2}) {
            const auto engine = open(bar, {.context = 1024, .ubatch = ubatch, .threads = threads});
            ASSERT_NE(engine, nullptr);
            const auto tokens = prompt_tokens(*engine, "gpl-1500w", 620);  // beyond Gemma's window
            const uint64_t hash = hash_of_logits(*engine, tokens);
            if (!want) want = hash;
            EXPECT_EQ(hash, want) << "chunks of " << ubatch << ", " << threads << " threads";
        }
    }
    std::printf("%s: logits hash %016llx\n", bar.file, static_cast<unsigned long long>(want));
}

TEST_P(Golden, CpuLevelsGiveTheSameBits) {
    const Bar& bar = *GetParam();
    NEEDS_MODEL(bar)
    uint64_t want = 0;
    for (const char* level : {"scalar", "avx2", "avx512"}) {
        auto engine =
            Engine::create({.model_path = model_path(bar), .context = 256, .cpu_level = level});
        if (!engine.ok()) {
            std::printf("skipped: %s\n", engine.error().message.c_str());
            continue;
        }
        const uint64_t hash = hash_of_logits(**engine, prompt_tokens(**engine, "korean", 48));
        if (!want) want = hash;
        EXPECT_EQ(hash, want) << level;
    }
}

// Log-probabilities are the log-softmax of the logits: sorted, distinct, and no more than all.
TEST_P(Golden, ProbabilitiesAreProbabilities) {
    const Bar& bar = *GetParam();
    NEEDS_MODEL(bar)
    const auto engine = open(bar, {.context = 256});
    ASSERT_NE(engine, nullptr);
    const auto score = score_text(*engine, "It is amazing how much our world", {.top = 10});
    ASSERT_TRUE(score.ok()) << score.error().message;
    std::vector<std::vector<float>> logits;
    const auto done = engine->score(score->tokens, [&](int32_t, std::span<const float> row) {
        logits.emplace_back(row.begin(), row.end());
    });
    ASSERT_TRUE(done.ok()) << done.error().message;
    for (const Score::Position& position : score->positions) {
        const std::vector<float>& row = logits[size_t(position.pos)];
        double largest = row[0], sum = 0, share = 0;
        for (float l : row)
            largest = std::max(largest, double(l));
        for (float l : row)
            sum += std::exp(double(l) - largest);
        ASSERT_EQ(position.top.size(), 10u);
        for (size_t i = 0; i < position.top.size(); i++) {
            const auto& [token, log_p] = position.top[i];
            EXPECT_NEAR(log_p, double(row[size_t(token)]) - largest - std::log(sum), 1e-6);
            EXPECT_LE(log_p, 0);
            share += std::exp(log_p);
            for (size_t j = 0; j < i; j++)
                EXPECT_NE(position.top[j].first, token);
            EXPECT_LE(log_p, position.top[i > 0 ? i - 1 : 0].second);
        }
        EXPECT_LE(share, 1.0001);
    }
    EXPECT_EQ(score->positions.back().top[0].first, score->greedy[0]);
}

// Large activations overflow where sums are kept in half precision; then the text is one unused
// token for ever.
TEST_P(Golden, LongPromptsStayFinite) {
    const Bar& bar = *GetParam();
    NEEDS_MODEL(bar)
    const auto engine = open(bar, {.context = 2048});
    ASSERT_NE(engine, nullptr);
    Request request{.prompt = prompt_tokens(*engine, "gpl-1500w", 1000), .max_tokens = 64};
    request.sampling.temperature = 0;
    const auto completion = engine->generate(request);  // fails on a logit that is not finite
    ASSERT_TRUE(completion.ok()) << completion.error().message;
    EXPECT_EQ(completion->tokens.size(), 64u);
    EXPECT_EQ(completion->text.find("<unused"), std::string::npos) << completion->text;
}

// One copy of the weights: the file's bytes in panels, what one prompt needs, and a fixed rest.
TEST_P(Golden, WeightsAreInMemoryOnce) {
    const Bar& bar = *GetParam();
    NEEDS_MODEL(bar)
    const ProcessResult run = run_process(
        {nib_path(), "run", "-m", model_path(bar), "-p", "Hello", "-n", "2", "-c", "512"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const double file_kib = double(std::filesystem::file_size(model_path(bar))) / 1024;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_LE(double(run.peak_kib), 1.2 * file_kib + (32 << 10));
#endif
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, testing::Values(&kSmol, &kGemma), [](const auto& i) {
    return i.index ? "gemma" : "smol";
});

}  // namespace
}  // namespace nib::test
