// SPDX-License-Identifier: MIT
// Many requests at once on tiny models: what each gives is what it gives alone, whatever is cached,
// shared, put back, cancelled or slow around it; blocks and counters add up.
#include "tests/engine/tiny_engine.h"

#include <atomic>
#include <random>
#include <thread>

#include <gmock/gmock.h>

namespace nib::test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

std::unique_ptr<Stream> start(Engine& engine, Request request) {
    auto stream = engine.submit(std::move(request));
    EXPECT_TRUE(stream.ok()) << stream.error().message;
    return stream.ok() ? std::move(*stream) : nullptr;
}

// Waits until the engine is as wanted; false after ten seconds.
template <class F>
bool wait_for(const Engine& engine, F wanted) {
    for (int i = 0; i < 10'000; i++) {
        if (wanted(engine.stats())) return true;
        std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
}

// Keeps the engine thread busy while it lives, so that what is submitted arrives together.
class Hold {
  public:
    explicit Hold(Engine& engine)
        : thread_([this, &engine] {
              const auto wait = [this](int32_t, std::span<const float>) {
                  held_ = true;
                  while (!released_)
                      std::this_thread::sleep_for(milliseconds(1));
              };
              EXPECT_TRUE(engine.score(some_tokens(1), wait).ok());
          }) {
        while (!held_)
            std::this_thread::sleep_for(milliseconds(1));
    }
    ~Hold() {
        released_ = true;
        thread_.join();
    }

  private:
    std::atomic<bool> held_{false}, released_{false};
    std::thread thread_;
};

void expect_at_rest(const Engine& engine) {
    const EngineStats s = engine.stats();
    EXPECT_EQ(s.running + s.waiting, 0);
    EXPECT_EQ(s.blocks_used, 0);
}

class Many : public testing::TestWithParam<const char*> {
  protected:
    TinyFile file_{GetParam()};
};

TEST_P(Many, TogetherIsAsAlone) {
    const auto alone = file_.open(), together = file_.open({.parallel = 6});
    ASSERT_TRUE(alone && together);
    std::vector<Request> requests;
    for (int i = 0; i < 12; i++) {
        // Pairs share beginnings of many lengths; half of them are drawn at random.
        std::vector<Token> prompt = some_tokens(30 + 17 * (i / 2), 1 + i / 4);
        for (const Token t : some_tokens(5 + i, 50 + i))
            prompt.push_back(t);
        requests.push_back(i % 2 ? greedy_request(prompt, 20 + i)
                                 : sampled_request(prompt, 20 + i, 7));
    }
    std::vector<std::unique_ptr<Stream>> streams;
    for (const Request& r : requests)
        streams.push_back(start(*together, r));
    for (size_t i = 0; i < requests.size(); i++) {
        alone->clear_cache();
        const auto expected = alone->generate(requests[i]);
        ASSERT_TRUE(expected.ok());
        const Answer got = read_all(*streams[i]);
        EXPECT_EQ(got.tokens, expected->tokens) << i;
        EXPECT_EQ(got.text, expected->text) << i;
        EXPECT_EQ(got.last.finish, FinishReason::Length);
    }
    expect_at_rest(*together);
}

TEST_P(Many, ASharedPrefixIsComputedOnce) {
    const auto engine = file_.open({.ubatch = 64, .parallel = 8});
    ASSERT_NE(engine, nullptr);
    const std::vector<Token> prefix = some_tokens(500);
    std::vector<std::unique_ptr<Stream>> streams;
    {
        const Hold hold(*engine);
        for (int i = 0; i < 8; i++) {
            std::vector<Token> prompt = prefix;
            prompt.push_back(200 + i), prompt.push_back(3), prompt.push_back(i);
            streams.push_back(start(*engine, greedy_request(prompt, 30)));
        }
    }
    int32_t cached = 0, computed = 0;
    for (auto& s : streams) {
        const Answer a = read_all(*s);
        cached += a.last.timings.cached_n;
        computed += a.last.timings.prompt_n;
    }
    EXPECT_EQ(cached + computed, 8 * 503);
    // The prefix once, and of each what follows it.
    EXPECT_LE(computed, 503 + 7 * 3);
    const EngineStats stats = engine->stats();
    EXPECT_EQ(stats.cached_tokens, static_cast<uint64_t>(cached));
    EXPECT_EQ(stats.prompt_tokens, static_cast<uint64_t>(computed));
    EXPECT_GT(stats.prefix_waits, 0u);
}

TEST_P(Many, ChoicesOfOnePromptShareItAndDiffer) {
    const auto engine = file_.open({.parallel = 4});
    ASSERT_NE(engine, nullptr);
    std::vector<std::unique_ptr<Stream>> streams;
    for (uint64_t choice = 0; choice < 4; choice++) {
        Request r = sampled_request(some_tokens(100), 24, 11);
        r.sequence = choice;
        streams.push_back(start(*engine, r));
    }
    std::vector<std::vector<Token>> answers;
    int32_t computed = 0;
    for (auto& s : streams) {
        const Answer a = read_all(*s);
        answers.push_back(a.tokens);
        computed += a.last.timings.prompt_n;
    }
    EXPECT_EQ(computed, 100 + 3);  // the last token of each is computed for its logits
    for (size_t i = 1; i < answers.size(); i++)
        EXPECT_NE(answers[i], answers[0]);
}

TEST_P(Many, PutBackAndResumedIsAsUndisturbed) {
    // Blocks for one context and little more: four requests of half a context push each other out.
    const auto roomy = file_.open({.context = 512});
    ASSERT_NE(roomy, nullptr);
    const uint64_t one = roomy->stats().kv_bytes_total;
    const auto tight = file_.open({.context = 512, .parallel = 4, .kv_bytes = one});
    ASSERT_NE(tight, nullptr);
    std::vector<Request> requests;
    std::vector<std::unique_ptr<Stream>> streams;
    for (int i = 0; i < 4; i++)
        requests.push_back(sampled_request(some_tokens(40, i + 1), 260, 5));
    {
        const Hold hold(*tight);
        for (const Request& r : requests)
            streams.push_back(start(*tight, r));
    }
    for (size_t i = 0; i < requests.size(); i++) {
        const Answer got = read_all(*streams[i]);
        EXPECT_FALSE(got.last.error.has_value());
        const auto expected = roomy->generate(requests[i]);
        ASSERT_TRUE(expected.ok());
        EXPECT_EQ(got.tokens, expected->tokens) << i;
    }
    if (std::string(GetParam()) == "llama") {
        EXPECT_GT(tight->stats().preemptions, 0u);
    }
    expect_at_rest(*tight);
}

TEST_P(Many, CancelledWhereverItIsGivesItsBlocksBack) {
    const auto engine = file_.open({.context = 16384, .ubatch = 16, .parallel = 2});
    ASSERT_NE(engine, nullptr);
    auto first = start(*engine, greedy_request(some_tokens(50, 1), -1));
    auto second = start(*engine, greedy_request(some_tokens(50, 2), -1));
    auto queued = start(*engine, greedy_request(some_tokens(50, 3), -1));
    ASSERT_TRUE(wait_for(*engine, [](const EngineStats& s) { return s.running == 2; }));
    EXPECT_EQ(engine->stats().waiting, 1);
    queued->cancel();
    EXPECT_EQ(read_all(*queued).last.finish, FinishReason::Cancelled);
    first.reset();  // who drops a stream cancels it
    ASSERT_TRUE(wait_for(*engine, [](const EngineStats& s) { return s.running == 1; }));
    engine->cancel();
    EXPECT_EQ(read_all(*second).last.finish, FinishReason::Cancelled);
    expect_at_rest(*engine);
    EXPECT_EQ(engine->stats().requests_cancelled, 3u);
    EXPECT_TRUE(engine->generate(greedy_request(some_tokens(9), 3)).ok());
}

TEST_P(Many, AFullQueueRefuses) {
    const auto engine = file_.open({.parallel = 1, .queue_limit = 2});
    ASSERT_NE(engine, nullptr);
    std::vector<std::unique_ptr<Stream>> streams;
    {
        const Hold hold(*engine);
        for (int i = 0; i < 3; i++)
            streams.push_back(start(*engine, greedy_request(some_tokens(20, i), -1)));
        const auto refused = engine->submit(greedy_request(some_tokens(20), 1));
        ASSERT_FALSE(refused.ok());
        EXPECT_EQ(refused.error().status, Status::Busy);
    }
    EXPECT_EQ(engine->stats().requests_refused, 1u);
    streams.clear();
    ASSERT_TRUE(wait_for(*engine, [](const EngineStats& s) { return s.running + s.waiting == 0; }));
    EXPECT_TRUE(engine->generate(greedy_request(some_tokens(9), 3)).ok());
}

TEST_P(Many, ADeadlineEndsWithWhatThereIs) {
    const auto engine = file_.open({.context = 16384});
    ASSERT_NE(engine, nullptr);
    Request r = greedy_request(some_tokens(20), -1);
    r.deadline = std::chrono::steady_clock::now() + milliseconds(30);
    const Answer a = read_all(*start(*engine, r));
    EXPECT_EQ(a.last.finish, FinishReason::Length);
    EXPECT_LT(a.tokens.size(), 16'000u);
    r.deadline = std::chrono::steady_clock::now() - milliseconds(1);
    EXPECT_TRUE(read_all(*start(*engine, r)).tokens.empty());
    expect_at_rest(*engine);
}

TEST_P(Many, ClientsWithoutACommonSaltShareNothing) {
    const auto engine = file_.open({.parallel = 2});
    ASSERT_NE(engine, nullptr);
    Request r = greedy_request(some_tokens(200), 2);
    r.cache_salt = 1;
    EXPECT_EQ(read_all(*start(*engine, r)).last.timings.cached_n, 0);
    r.cache_salt = 2;
    EXPECT_EQ(read_all(*start(*engine, r)).last.timings.cached_n, 0);
    EXPECT_EQ(read_all(*start(*engine, r)).last.timings.cached_n, 199);
    r.cache_prompt = false;
    EXPECT_EQ(read_all(*start(*engine, r)).last.timings.cached_n, 0);
}

TEST_P(Many, LogProbabilitiesAreThoseOfTheModel) {
    const auto engine = file_.open();
    ASSERT_NE(engine, nullptr);
    std::vector<float> logits;
    const auto prompt = some_tokens(12);
    ASSERT_TRUE(engine
                    ->score(prompt,
                            [&](int32_t at, std::span<const float> row) {
                                if (at == 11) logits.assign(row.begin(), row.end());
                            })
                    .ok());
    std::vector<float> logprobs(logits.size());
    log_softmax(logits, logprobs);
    Request r = greedy_request(prompt, 2);
    r.n_probs = 5;
    std::vector<GeneratedToken> tokens;
    const auto stream = start(*engine, r);
    for (bool done = false; !done;) {
        auto event = stream->next(std::chrono::seconds(60));
        ASSERT_TRUE(event.has_value());
        for (auto& t : event->tokens)
            tokens.push_back(t);
        done = event->done;
    }
    ASSERT_EQ(tokens.size(), 2u);
    ASSERT_EQ(tokens[0].top.size(), 5u);
    EXPECT_EQ(tokens[0].top[0].id, tokens[0].id);  // greedy
    for (size_t i = 0; i < 5; i++) {
        const TokenScore& s = tokens[0].top[i];
        EXPECT_NEAR(s.logprob, logprobs[static_cast<size_t>(s.id)], 1e-5);
        if (i) {
            EXPECT_LE(s.logprob, tokens[0].top[i - 1].logprob);
        }
    }
    EXPECT_FLOAT_EQ(tokens[0].logprob, tokens[0].top[0].logprob);
}

TEST_P(Many, EmbeddingsDoNotDependOnChunksOrNeighbours) {
    const auto one = file_.open({.ubatch = 512});
    const auto many = file_.open({.ubatch = 7, .parallel = 4});
    ASSERT_TRUE(one && many);
    for (const Pooling pooling : {Pooling::Mean, Pooling::Last}) {
        Request r{.prompt = some_tokens(150)};
        r.pooling = pooling;
        const auto expected = read_all(*start(*one, r)).last.embedding;
        ASSERT_EQ(expected.size(), static_cast<size_t>(one->model().n_embd));
        auto stream = start(*many, greedy_request(some_tokens(20, 4), 40));
        std::vector<std::unique_ptr<Stream>> same;
        for (int i = 0; i < 3; i++)
            same.push_back(start(*many, r));
        for (auto& s : same) {
            const Answer a = read_all(*s);
            EXPECT_EQ(a.last.finish, FinishReason::Stop);
            EXPECT_EQ(a.last.embedding, expected);
        }
        read_all(*stream);
    }
}

TEST_P(Many, AReaderThatIsBehindIsPausedAndOthersGoOn) {
    const auto engine = file_.open({.context = 4096, .parallel = 2});
    ASSERT_NE(engine, nullptr);
    Request loud = greedy_request(some_tokens(10), -1);
    loud.n_probs = 256;  // two KiB a token: the limit is near
    auto slow = start(*engine, loud);
    const auto steps = [&] { return engine->stats().steps; };
    uint64_t before = UINT64_MAX;
    // No step for a while: it is paused.
    for (int i = 0; i < 2000 && before != steps(); i++) {
        before = steps();
        std::this_thread::sleep_for(milliseconds(100));
    }
    EXPECT_EQ(engine->stats().running, 1);
    EXPECT_TRUE(engine->generate(greedy_request(some_tokens(10, 3), 20)).ok());
    const Answer a = read_all(*slow);  // and goes on when it is read
    EXPECT_EQ(a.tokens.size(), 4096u - 10 + 1);
}

TEST_P(Many, ThreadsOfClientsGetTheirOwnAnswers) {
    const auto engine = file_.open({.ubatch = 32, .parallel = 4, .queue_limit = 100});
    ASSERT_NE(engine, nullptr);
    std::vector<std::vector<Token>> expected(6);
    const auto request = [](int k) {
        return sampled_request(some_tokens(20 + 31 * k, k), 12, static_cast<uint64_t>(k));
    };
    for (int k = 0; k < 6; k++)
        expected[static_cast<size_t>(k)] = engine->generate(request(k))->tokens;
    std::atomic<int> wrong{0};
    std::vector<std::thread> clients;
    for (int c = 0; c < 6; c++) {
        clients.emplace_back([&, c] {
            std::mt19937 random(static_cast<uint32_t>(c));
            for (int i = 0; i < 15; i++) {
                const int k = static_cast<int>(random() % 6);
                auto stream = engine->submit(request(k));
                if (!stream.ok()) {
                    wrong++;
                } else if (random() % 4 == 0) {
                    (*stream)->next(milliseconds(2));  // and away
                } else {
                    wrong += read_all(**stream).tokens != expected[static_cast<size_t>(k)];
                }
            }
        });
    }
    for (std::thread& t : clients)
        t.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_TRUE(wait_for(*engine, [](const EngineStats& s) { return s.running == 0; }));
    expect_at_rest(*engine);
}

TEST_P(Many, AClosingEngineEndsItsStreams) {
    auto engine = file_.open({.context = 16384, .parallel = 2});
    ASSERT_NE(engine, nullptr);
    std::vector<std::unique_ptr<Stream>> streams;
    for (int i = 0; i < 4; i++)
        streams.push_back(start(*engine, greedy_request(some_tokens(20, i), -1)));
    engine.reset();
    for (auto& s : streams)
        EXPECT_EQ(read_all(*s).last.finish, FinishReason::Cancelled);
}

INSTANTIATE_TEST_SUITE_P(Archs, Many, testing::Values("llama", "gemma3"), [](const auto& i) {
    return std::string(i.param);
});

TEST(EngineOptions, OutOfRangeIsRefusedByName) {
    const TinyFile file;
    for (const auto& [options, name] :
         {std::pair{EngineOptions{.parallel = 0}, "parallel"},
          std::pair{EngineOptions{.queue_limit = 0}, "queue_limit"},
          std::pair{EngineOptions{.cache_policy = "random"}, "cache_policy"}}) {
        EngineOptions o = options;
        o.model_path = file.path();
        const auto engine = Engine::create(o);
        ASSERT_FALSE(engine.ok());
        EXPECT_THAT(engine.error().message, HasSubstr(name));
    }
}

}  // namespace
}  // namespace nib::test
