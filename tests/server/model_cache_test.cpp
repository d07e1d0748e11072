// SPDX-License-Identifier: MIT
// What the KV cache and the batch may not change on real models, seen from outside: a text is the
// same with a full cache, a longer or shorter prefix in it, other steps, other neighbours; and a
// turn of a conversation computes its own tokens only, also where layers have a window.
#include "tests/server/model_server.h"

#include <cmath>
#include <random>
#include <thread>

namespace nib::test {
namespace {

using testing::HasSubstr;
using testing::Not;

Json cold(Json body) {
    body["cache_prompt"] = false;
    return body;
}

// What must be equal to the last bit.
std::string heart(const Json& answer) {
    Json both = {answer["content"], answer.value("completion_probabilities", Json())};
    return dump_json(both);
}

int computed(const Json& answer) {
    return answer["timings"]["prompt_n"];
}

int cached(const Json& answer) {
    return answer["timings"]["cache_n"];
}

TEST_F(ModelServer, ANewConversationFindsRoomWhenTheCacheIsFull) {
    NEEDS_MODEL(smol_path())
    const auto server = smol({.context = 512, .parallel = 1});
    const auto fresh = smol({.context = 512, .parallel = 1});
    for (int round = 0; round < 3; round++) {
        const Json long_one = ask(*server, greedy(prose(*server, 50 * round, 420), 400));
        EXPECT_EQ(long_one["stop_type"], "limit");
        EXPECT_EQ(long_one["tokens_predicted"], 93);  // the last token needs no place
        const Json other = greedy(prose(*server, 1000 + 50 * round, 200), 30);
        const Json answer = ask(*server, other);
        EXPECT_EQ(answer["tokens_predicted"], 30);
        EXPECT_EQ(heart(answer), heart(ask(*fresh, cold(other))));
    }
    EXPECT_TRUE(server->comes_to_rest());
}

// Requests of many lengths, some of them left by their clients, each as it is alone.
TEST_F(ModelServer, ManyLengthsAtOnceAreEachAsAlone) {
    NEEDS_MODEL(smol_path())
    EngineOptions tight{.context = 1024, .parallel = 4};
    tight.kv_bytes = uint64_t{1024 + 512} * 23040;  // less than four of the longest
    const auto server = smol(tight);
    const auto alone = smol({.context = 1024, .parallel = 1});
    std::mt19937 random(7);
    const auto upto = [&](int low, int high) {
        return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
    };
    std::vector<Json> bodies;
    std::vector<std::string> want;
    for (int i = 0; i < 16; i++) {
        bodies.push_back(greedy(prose(*server, upto(0, 900), upto(5, 200)), upto(5, 24)));
        want.push_back(heart(ask(*alone, bodies.back())));
    }
    std::vector<std::thread> clients;
    for (unsigned c = 0; c < 6; c++) {
        clients.emplace_back([&, c] {
            for (size_t i = 0; i < 12; i++) {
                const size_t at = (i * 7 + c * 5) % bodies.size();
                if ((i + c) % 5 == 0) {
                    RawClient leaves(server->port());
                    leaves.send(post_text("/completion", dump_json(bodies[at])));
                    std::this_thread::sleep_for(std::chrono::milliseconds(5 * i));
                    leaves.close();
                    continue;
                }
                EXPECT_EQ(heart(ask(*server, bodies[at])), want[at]) << at;
            }
        });
    }
    for (auto& client : clients)
        client.join();
    EXPECT_TRUE(server->comes_to_rest());
}

TEST_F(ModelServer, APromptThatIsCachedWholeIsStillLookedAt) {
    NEEDS_MODEL(smol_path())
    const auto server = smol();
    const auto tokens = prose(*server, 0, 100);
    auto half = tokens, more = tokens;
    half.resize(50);
    more.push_back(87);
    const auto both = [&](const std::vector<Token>& prompt, int want_computed) {
        const Json body = greedy(prompt, 12, {{"n_probs", 5}});
        const Json warm = ask(*server, body), afresh = ask(*server, cold(body));
        EXPECT_EQ(heart(warm), heart(afresh));
        EXPECT_EQ(computed(warm), want_computed);
        EXPECT_EQ(cached(warm), static_cast<int>(prompt.size()) - want_computed);
        EXPECT_EQ(computed(afresh), static_cast<int>(prompt.size()));
    };
    both(tokens, 100);
    both(tokens, 1);
    both(half, 1);
    both(more, 1);
}

// The whole answer is equal with any step size and any part of the prompt in the cache.
TEST_F(ModelServer, StepsAndCachedPrefixesDoNotChangeAnswers) {
    NEEDS_MODEL(smol_path())
    std::string want;
    for (const int ubatch : {512, 16, 1}) {
        for (const size_t prefix : {0, 150, 299}) {
            const auto server = smol({.ubatch = ubatch});
            const auto tokens = prose(*server, 20, 300);
            if (prefix > 0) {
                const std::vector<Token> start(tokens.begin(),
                                               tokens.begin() + static_cast<ptrdiff_t>(prefix));
                ask(*server, greedy(start, 1));
            }
            const Json answer = ask(*server, greedy(tokens, 24, {{"n_probs", 10}}));
            EXPECT_EQ(cached(answer), static_cast<int>(prefix));
            if (want.empty()) want = heart(answer);
            EXPECT_EQ(heart(answer), want) << ubatch << " rows, " << prefix << " cached";
        }
    }
}

double perplexity(const std::string& path, const char* cache_type, int n) {
    EngineOptions options{.model_path = path, .context = 2048};
    options.cache_type_k = options.cache_type_v = cache_type;
    TestServer server(Options{}, HttpOptions{}, options);
    const auto tokens = prose(server, 0, n);
    double sum = 0;
    const auto done = server.engine().score(tokens, [&](int32_t position, auto logits) {
        const auto next = static_cast<size_t>(position) + 1;
        if (next >= tokens.size()) return;
        double most = logits[0], all = 0;
        for (const float l : logits)
            most = std::max(most, static_cast<double>(l));
        for (const float l : logits)
            all += std::exp(static_cast<double>(l) - most);
        sum +=
            most + std::log(all) - static_cast<double>(logits[static_cast<size_t>(tokens[next])]);
    });
    EXPECT_TRUE(done.ok()) << done.error().message;
    const Json answer = ask(server, greedy(prose(server, 300, 1100), 24));
    EXPECT_EQ(answer["tokens_predicted"], 24);
    EXPECT_THAT(text_of(answer), Not(HasSubstr("<unused")));
    return std::exp(sum / (n - 1));
}

TEST_F(ModelServer, KeysAndValuesInBytesAreNearlyAsGood) {
    NEEDS_MODEL(smol_path())
    NEEDS_MODEL(gemma_path())
    for (const auto& [path, n] : {std::pair{smol_path(), 1600}, {gemma_path(), 800}}) {
        const double f16 = perplexity(path, "f16", n), q8_0 = perplexity(path, "q8_0", n);
        EXPECT_NEAR(q8_0 / f16, 1, 0.01) << path << ": " << f16 << " and " << q8_0;
    }
    for (const char* type : {"q9_9", "q4_0"}) {
        const auto refused = run_process(
            {nib_path(), "serve", "-m", smol_path(), "--port", "0", "--cache-type-v", type});
        expect_error(refused, 2, "q8_0");
    }
}

// A conversation of three windows and more.
class Conversation {
  public:
    Conversation(TestServer& server, int n) : server_(server), prompt(prose(server, 0, n)) {}
    Json say() {
        return ask(server_, greedy(prompt, 12, {{"return_tokens", true}, {"n_probs", 3}}));
    }
    // The next prompt: what was, its answer, and n words more.
    void add(const Json& answer, int n) {
        const auto reply = answer["tokens"].get<std::vector<Token>>();
        prompt.insert(prompt.end(), reply.begin(), reply.end());
        const auto more = prose(server_, 700 + static_cast<int>(prompt.size()), n + 1);
        prompt.insert(prompt.end(), more.begin() + 1, more.end());
    }
    std::string afresh() { return heart(ask(server_, cold(greedy(prompt, 12, {{"n_probs", 3}})))); }

  private:
    TestServer& server_;

  public:
    std::vector<Token> prompt;
};

TEST_F(ModelServer, TurnsComputeTheirOwnTokensAlsoBehindAWindow) {
    NEEDS_MODEL(gemma_path())
    const auto server = gemma({.context = 4096, .parallel = 2});
    Conversation talk(*server, 1600);
    Json answer = talk.say();
    EXPECT_EQ(computed(answer), 1600);
    for (int turn = 0; turn < 6; turn++) {
        talk.add(answer, 30);
        answer = talk.say();
        // The last token of the answer was never computed.
        EXPECT_EQ(computed(answer), 31) << "turn " << turn;
    }
    const std::string want = talk.afresh();
    EXPECT_EQ(heart(answer), want);
    // The last answer again.
    const Json again = talk.say();
    EXPECT_EQ(computed(again), 1);
    EXPECT_EQ(heart(again), want);
    // An edit 100 tokens back computes no more than what follows it.
    talk.prompt[talk.prompt.size() - 100] ^= 1;
    const Json edited = talk.say();
    EXPECT_EQ(computed(edited), 100);
    EXPECT_EQ(heart(edited), talk.afresh());
}

// Longer than the window: in steps of any size, from inside of the window on, and token by token.
TEST_F(ModelServer, AWindowIsTheSameInStepsAndTokenByToken) {
    NEEDS_MODEL(gemma_path())
    std::string want;
    for (const int ubatch : {512, 64}) {
        const auto server = gemma({.context = 1024, .ubatch = ubatch});
        const auto tokens = prose(*server, 0, 700);
        const Json body = greedy(tokens, 8, {{"n_probs", 10}});
        const std::string whole = heart(ask(*server, cold(body)));
        if (want.empty()) want = whole;
        EXPECT_EQ(whole, want) << ubatch;
        // The last of it one by one, the way answers are computed.
        for (size_t n = 670; n <= 700; n++) {
            const std::vector<Token> start(tokens.begin(),
                                           tokens.begin() + static_cast<ptrdiff_t>(n));
            const Json answer = ask(*server, greedy(start, n == 700 ? 8 : 0, {{"n_probs", 10}}));
            if (n < 700) continue;
            EXPECT_EQ(heart(answer), want) << ubatch << " token by token";
        }
        // The first token is out of every window and still seen by the layers without one.
        auto other = tokens;
        other[1] ^= 1;
        EXPECT_NE(heart(ask(*server, greedy(other, 8, {{"n_probs", 10}}))), want);
    }
}

TEST_F(ModelServer, WindowsOfSeveralSequencesAreTheirOwn) {
    NEEDS_MODEL(gemma_path())
    const auto server = gemma({.context = 2048, .parallel = 3});
    std::vector<Json> bodies;
    std::vector<std::string> want;
    for (int i = 0; i < 3; i++) {
        bodies.push_back(cold(greedy(prose(*server, 500 * i, 700), 16, {{"n_probs", 3}})));
        want.push_back(heart(ask(*server, bodies.back())));
    }
    const auto together = ask_at_once(*server, bodies);
    for (size_t i = 0; i < 3; i++)
        EXPECT_EQ(heart(together[i]), want[i]) << i;
    // One after the other, each when the one before is somewhere inside its prompt.
    std::vector<std::thread> clients;
    for (size_t i = 0; i < 3; i++) {
        const uint64_t before = server->engine().stats().prompt_tokens;
        clients.emplace_back([&, i] { EXPECT_EQ(heart(ask(*server, bodies[i])), want[i]) << i; });
        EXPECT_TRUE(
            server->wait_for([&](const EngineStats& s) { return s.prompt_tokens > before + 100; }));
    }
    for (auto& client : clients)
        client.join();
}

}  // namespace
}  // namespace nib::test
