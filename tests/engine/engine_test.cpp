// SPDX-License-Identifier: MIT
// The engine on tiny random models: what a request gives does not depend on what was asked before,
// limits are errors with both numbers, text ends where it should.
#include "src/engine.h"

#include "src/stop_filter.h"
#include "tests/support/tiny_model.h"

#include <cmath>
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nib::test {
namespace {

using testing::HasSubstr;

class OnTiny : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        path_ = dir_.file("tiny.gguf");
        write_file(path_, tiny_gguf(*find_arch(GetParam()), {.type = "q8_0"}));
    }

    std::unique_ptr<Engine> open(EngineOptions o = {}) {
        o.model_path = path_;
        auto engine = Engine::create(o);
        EXPECT_TRUE(engine.ok()) << engine.error().message;
        return engine.ok() ? std::move(*engine) : nullptr;
    }

    static Request greedy(std::vector<Token> prompt, int32_t n) {
        Request r{.prompt = std::move(prompt), .max_tokens = n, .ignore_eos = true};
        r.sampling.temperature = 0;
        return r;
    }

    static std::vector<Token> tokens(int n, int seed = 1) {
        std::vector<Token> t;
        for (int i = 0; i < n; i++)
            t.push_back((i * 37 + seed * 101) % 256);
        return t;
    }

    TempDir dir_;
    std::string path_;
};

TEST_P(OnTiny, ColdAndWarmGiveTheSame) {
    const auto cold = open(), warm = open();
    ASSERT_TRUE(cold && warm);
    std::vector<Token> prompt = tokens(100);
    for (int turn = 0; turn < 4; turn++) {
        cold->clear_cache();
        const auto a = cold->generate(greedy(prompt, 12));
        const auto b = warm->generate(greedy(prompt, 12));
        ASSERT_TRUE(a.ok() && b.ok());
        EXPECT_EQ(a->tokens, b->tokens) << "turn " << turn;
        EXPECT_EQ(a->text, b->text);
        EXPECT_EQ(a->timings.cached_n, 0);
        EXPECT_EQ(b->timings.cached_n + b->timings.prompt_n, static_cast<int32_t>(prompt.size()));
        if (turn > 0) {
            EXPECT_GT(b->timings.cached_n, 100);
        }
        prompt.insert(prompt.end(), a->tokens.begin(), a->tokens.end());
        prompt.push_back(turn);
    }
    // An edit far back: correct, whatever could be kept.
    prompt[3] = 99;
    cold->clear_cache();
    const auto a = cold->generate(greedy(prompt, 12));
    const auto b = warm->generate(greedy(prompt, 12));
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(a->tokens, b->tokens);
}

TEST_P(OnTiny, TheSamePromptAgainComputesOneToken) {
    const auto engine = open();
    ASSERT_NE(engine, nullptr);
    const auto a = engine->generate(greedy(tokens(70), 1));
    const auto b = engine->generate(greedy(tokens(70), 1));
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(a->tokens, b->tokens);
    EXPECT_EQ(b->timings.prompt_n, 1);
}

TEST_P(OnTiny, TheContextEndsAnAnswerAndRefusesAPrompt) {
    const auto engine = open({.context = 64});
    ASSERT_NE(engine, nullptr);
    const auto full = engine->generate(greedy(tokens(60), -1));
    ASSERT_TRUE(full.ok()) << full.error().message;
    EXPECT_EQ(full->finish, FinishReason::Length);
    EXPECT_EQ(full->tokens.size(), 5u);  // the last one needs no place
    const auto exact = engine->generate(greedy(tokens(64), -1));
    ASSERT_TRUE(exact.ok());
    EXPECT_EQ(exact->tokens.size(), 1u);
    const auto error = engine->generate(greedy(tokens(65), 1));
    ASSERT_FALSE(error.ok());
    EXPECT_EQ(error.error().status, Status::TooLong);
    EXPECT_THAT(error.error().message, HasSubstr("65"));
    EXPECT_THAT(error.error().message, HasSubstr("64"));
    EXPECT_TRUE(engine->generate(greedy(tokens(10), 3)).ok());
}

TEST_P(OnTiny, BadPromptsAreRefused) {
    const auto engine = open();
    ASSERT_NE(engine, nullptr);
    for (const std::vector<Token>& bad : {std::vector<Token>{}, {-1}, {300}, {5, 2147483647}}) {
        const auto r = engine->generate(greedy(bad, 1));
        ASSERT_FALSE(r.ok());
        EXPECT_EQ(r.error().status, Status::BadRequest);
    }
}

TEST_P(OnTiny, NoTokensWantedIsNoTokens) {
    const auto engine = open();
    ASSERT_NE(engine, nullptr);
    const auto r = engine->generate(greedy(tokens(5), 0));
    ASSERT_TRUE(r.ok());
    EXPECT_TRUE(r->tokens.empty());
    EXPECT_EQ(r->finish, FinishReason::Length);
}

TEST_P(OnTiny, ACallbackMayStopAndStreamsTheWholeText) {
    const auto engine = open();
    ASSERT_NE(engine, nullptr);
    std::string streamed;
    const Request r = greedy(tokens(20), 30);
    const auto all = engine->generate(r, [&](std::string_view t) { return streamed += t, true; });
    ASSERT_TRUE(all.ok());
    EXPECT_EQ(streamed, all->text);
    int calls = 0;
    const auto some = engine->generate(r, [&](std::string_view) { return ++calls < 1; });
    ASSERT_TRUE(some.ok());
    EXPECT_EQ(some->finish, FinishReason::Cancelled);
    EXPECT_EQ(all->text.rfind(some->text, 0), 0u);
}

TEST_P(OnTiny, StopTextsEndTheAnswerAndAreNotShown) {
    const auto engine = open();
    ASSERT_NE(engine, nullptr);
    const auto all = engine->generate(greedy(tokens(20), 40));
    ASSERT_TRUE(all.ok());
    ASSERT_GT(all->text.size(), 12u);
    Request r = greedy(tokens(20), 40);
    r.stop = {all->text.substr(8, 3), "never in there"};
    const auto stopped = engine->generate(r);
    ASSERT_TRUE(stopped.ok());
    EXPECT_EQ(stopped->finish, FinishReason::Stop);
    EXPECT_EQ(stopped->text, all->text.substr(0, all->text.find(r.stop[0])));
}

TEST_P(OnTiny, SeedsDecideSampledText) {
    const auto engine = open();
    ASSERT_NE(engine, nullptr);
    const auto text = [&](uint64_t seed, int32_t top_k) {
        Request r{.prompt = tokens(9), .max_tokens = 20, .ignore_eos = true};
        r.sampling = {.temperature = 1.5f, .top_k = top_k, .top_p = 1, .min_p = 0, .seed = seed};
        const auto c = engine->generate(r);
        EXPECT_TRUE(c.ok());
        return c.ok() ? c->tokens : std::vector<Token>{};
    };
    int different = 0;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        EXPECT_EQ(text(seed, 0), text(seed, 0));
        EXPECT_EQ(text(seed, 0), text(seed, -1));
        EXPECT_EQ(text(seed, 0), text(seed, 300));
        EXPECT_EQ(text(seed, 1), text(99, 1));
        different += text(seed, 0) != text(seed + 1, 0);
    }
    EXPECT_GE(different, 8);
}

TEST_P(OnTiny, WeightsThatAreNotFiniteFailTheRequestOnly) {
    std::string bytes = tiny_gguf(*find_arch(GetParam()), {.type = "f32"});
    const float nan = std::nanf("");
    // The last tensor of the table belongs to the last layer.
    for (size_t i = 1; i < 500; i++)
        std::memcpy(bytes.data() + bytes.size() - 4 * i, &nan, 4);
    write_file(path_, bytes);
    const auto engine = open();
    ASSERT_NE(engine, nullptr);
    for (int i = 0; i < 2; i++) {
        const auto r = engine->generate(greedy(tokens(5), 3));
        ASSERT_FALSE(r.ok());
        EXPECT_THAT(r.error().message, HasSubstr("model_output_invalid"));
    }
    const auto checked = Engine::create({.model_path = path_, .check_tensors = true});
    ASSERT_FALSE(checked.ok());
    EXPECT_THAT(checked.error().message, HasSubstr("is not finite"));
}

TEST_P(OnTiny, ProgressReachesTheEndAndMayGiveUp) {
    double last = 0;
    EngineOptions o;
    o.progress = [&](double share) { return last = std::max(last, share), true; };
    ASSERT_NE(open(o), nullptr);
    EXPECT_NEAR(last, 1, 1e-3);
    o.model_path = path_;
    o.progress = [](double) { return false; };
    const auto given_up = Engine::create(o);
    ASSERT_FALSE(given_up.ok());
    EXPECT_EQ(given_up.error().status, Status::Cancelled);
}

INSTANTIATE_TEST_SUITE_P(Archs, OnTiny, testing::Values("llama", "gemma3"), [](const auto& i) {
    return std::string(i.param);
});

TEST(Engine, AHeadThatEqualsTheTableGivesTheSameText) {
    TempDir dir;
    // Two files: tied, and with output.weight as a copy of the table.
    TinyOptions options{.type = "q8_0", .tied = true};
    write_file(dir.file("tied.gguf"), tiny_gguf(*find_arch("llama"), options));
    options.copy_head = true;
    write_file(dir.file("copy.gguf"), tiny_gguf(*find_arch("llama"), options));
    std::vector<std::vector<Token>> texts;
    std::vector<uint64_t> bytes;
    for (const char* name : {"tied.gguf", "copy.gguf"}) {
        const auto engine = Engine::create({.model_path = dir.file(name)});
        ASSERT_TRUE(engine.ok()) << engine.error().message;
        Request r{.prompt = {1, 2, 3}, .max_tokens = 32, .ignore_eos = true};
        r.sampling.temperature = 0;
        const auto c = (*engine)->generate(r);
        ASSERT_TRUE(c.ok());
        texts.push_back(c->tokens);
        bytes.push_back((*engine)->model().weight_bytes);
    }
    EXPECT_EQ(texts[0], texts[1]);
    EXPECT_LT(bytes[0], bytes[1]);
}

TEST(Engine, MissingAndForeignFilesSayWhatIsWrong) {
    TempDir dir;
    auto missing = Engine::create({.model_path = dir.file("none.gguf")});
    ASSERT_FALSE(missing.ok());
    EXPECT_THAT(missing.error().message, HasSubstr("none.gguf"));
    EXPECT_EQ(exit_code(missing.error().status), 2);
    const auto folder = Engine::create({.model_path = dir.path()});
    ASSERT_FALSE(folder.ok());
    EXPECT_THAT(folder.error().message, HasSubstr("is a directory"));
    write_file(dir.file("m.gguf"), tiny_gguf(*find_arch("llama")));
    const auto level = Engine::create({.model_path = dir.file("m.gguf"), .cpu_level = "avx9000"});
    ASSERT_FALSE(level.ok());
    EXPECT_THAT(level.error().message, HasSubstr("avx9000"));
}

TEST(Engine, AChatTemplateThatIsNoTextIsIgnoredAloud) {
    TempDir dir;
    write_file(dir.file("m.gguf"),
               tiny_gguf(*find_arch("llama"), {.chat_template_is_number = true}));
    std::string warning;
    const auto engine =
        Engine::create({.model_path = dir.file("m.gguf"),
                        .log = [&](LogLevel, const std::string& text) { warning += text; }});
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    EXPECT_EQ((*engine)->model().chat_template, "");
    EXPECT_THAT(warning, HasSubstr("tokenizer.chat_template is not a string"));
}

TEST(Engine, APathMayHoldAnyCharacters) {
    TempDir dir;
    const std::string bytes = tiny_gguf(*find_arch("llama"));
    std::string folder = dir.file("mod\xC3\xA8le \xE6\xA8\xA1\xE5\x9E\x8B \xF0\x9F\x98\x80");
    for (int i = 0; i < 2; i++) {
        std::filesystem::create_directory(folder);
        write_file(folder + "/m odel.gguf", bytes);
        EXPECT_TRUE(Engine::create({.model_path = folder + "/m odel.gguf"}).ok()) << folder;
        folder += "/" + std::string(200, 'x');  // a path of more than 250 characters
    }
    std::filesystem::create_symlink(folder.substr(0, folder.size() - 201) + "/m odel.gguf",
                                    dir.file("link.gguf"));
    EXPECT_TRUE(Engine::create({.model_path = dir.file("link.gguf")}).ok());
}

TEST(StopFilter, HoldsBackOnlyWhatMayBecomeAStop) {
    const auto joined = [](std::vector<std::string> stops, const std::vector<std::string>& pieces) {
        StopFilter f(std::move(stops));
        std::string out;
        for (const auto& p : pieces)
            out += f.push(p);
        return out + (f.stopped() ? "|" : f.finish());
    };
    const std::vector<std::string> uno = {"U", "NO", " DU", "E T", "RE"};
    EXPECT_EQ(joined({"TRE\nAAAAAAAA"}, uno), "UNO DUE TRE");
    EXPECT_EQ(joined({"DUE"}, uno), "UNO |");
    EXPECT_EQ(joined({"O D"}, uno), "UN|");
    EXPECT_EQ(joined({"E"}, uno), "UNO DU|");
    EXPECT_EQ(joined({"UNO"}, uno), "|");
    EXPECT_EQ(joined({""}, uno), "UNO DUE TRE");
    EXPECT_EQ(joined({"TRE", "RE"}, uno), "UNO DUE |");
    EXPECT_EQ(joined({"X"}, uno), "UNO DUE TRE");
    EXPECT_EQ(joined({"aab"}, {"a", "a", "a", "b", "c"}), "a|");
}

}  // namespace
}  // namespace nib::test
