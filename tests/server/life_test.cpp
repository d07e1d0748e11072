// SPDX-License-Identifier: MIT
// Clients that leave, servers that end, more requests than there is room for.
#include "tests/server/fixture.h"

#include <thread>

#include <gmock/gmock.h>
#include <signal.h>

namespace nib::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

const char* const kEndless = R"({"prompt": "abc", "ignore_eos": true, "max_tokens": 16000})";
const char* const kEndlessStream =
    R"({"prompt": "abc", "ignore_eos": true, "max_tokens": 16000, "stream": true})";
const char* const kShortStream =
    R"({"prompt": "abc", "ignore_eos": true, "max_tokens": 400, "stream": true})";

// A model that is slow enough to be met at work.
TinyServer::Setup slow(int parallel = 2) {
    TinyServer::Setup setup;
    setup.engine.parallel = parallel;
    setup.engine.context = 16384;
    setup.engine.cpu_level = "scalar";
    setup.engine.threads = 1;
    return setup;
}

TEST(Life, AClientThatLeavesTakesItsWorkWithIt) {
    for (const char* body : {kEndless, kEndlessStream}) {
        for (const bool half : {false, true}) {
            TinyServer server(slow());
            RawClient client(server.port());
            client.send(post_text("/v1/completions", body));
            ASSERT_TRUE(server.wait_for([](const EngineStats& s) { return s.running == 1; }));
            if (half)
                client.finish_sending();  // counts as leaving
            else
                client.close();
            const auto start = steady_clock::now();
            ASSERT_TRUE(server.comes_to_rest());
            EXPECT_LT(steady_clock::now() - start, milliseconds(2000));
            EXPECT_EQ(server.engine().stats().requests_cancelled, 1u);
        }
    }
}

TEST(Life, AClientThatLeavesTheQueueIsForgotten) {
    TinyServer server(slow(1));
    RawClient first(server.port()), second(server.port());
    first.send(post_text("/v1/completions", kEndless));
    ASSERT_TRUE(server.wait_for([](const EngineStats& s) { return s.running == 1; }));
    second.send(post_text("/v1/completions", kEndless));
    ASSERT_TRUE(server.wait_for([](const EngineStats& s) { return s.waiting == 1; }));
    second.close();
    EXPECT_TRUE(server.wait_for([](const EngineStats& s) { return s.waiting == 0; }));
    EXPECT_EQ(server.engine().stats().running, 1);
    first.close();
    EXPECT_TRUE(server.comes_to_rest());
}

TEST(Life, DrainingFinishesWhatRunsAndRefusesWhatComes) {
    TinyServer server(slow());
    RawClient client(server.port());
    client.send(post_text("/v1/completions", kShortStream));
    ASSERT_TRUE(server.wait_for([](const EngineStats& s) { return s.running == 1; }));
    RawClient late(server.port());
    server.server().begin_drain();
    const auto refused = server.post("/v1/completions", {{"prompt", "a"}});
    EXPECT_EQ(refused.status, 503);
    EXPECT_TRUE(refused.has("retry-after"));
    EXPECT_EQ(server.get("/health").status, 503);
    const auto answer = client.read();
    EXPECT_TRUE(answer.whole);
    EXPECT_EQ(answer.events().back(), "[DONE]");
}

TEST(Life, AnEndedStreamSaysSoAndIsWellFormed) {
    TinyServer server(slow());
    RawClient client(server.port());
    client.send(post_text("/v1/completions", kEndlessStream));
    ASSERT_TRUE(server.wait_for([](const EngineStats& s) { return s.running == 1; }));
    server.server().begin_drain();
    server.server().end_streams();
    const auto answer = client.read();
    EXPECT_TRUE(answer.whole);
    if (answer.status == 200) {
        EXPECT_EQ(answer.events().back(), "[DONE]");
        EXPECT_THAT(answer.body, HasSubstr("server_shutdown"));
    } else {
        EXPECT_EQ(answer.status, 503);  // it had not begun
    }
    EXPECT_TRUE(server.comes_to_rest());
}

TEST(Life, ASlowReaderDoesNotHoldUpOthers) {
    TinyServer::Setup setup;
    setup.engine.context = 4096;
    TinyServer server(std::move(setup));
    RawClient sleeper(server.port());  // never reads
    sleeper.send(post_text("/completion",
                           R"({"prompt": "a", "ignore_eos": true, "n_predict": 4000, )"
                           R"("stream": true, "n_probs": 50})"));
    ASSERT_TRUE(server.wait_for([](const EngineStats& s) { return s.steps > 5; }));
    for (int i = 0; i < 5; i++) {
        EXPECT_EQ(server.post("/v1/completions", {{"prompt", "abc"}, {"max_tokens", 5}}).status,
                  200);
    }
    sleeper.close();
    EXPECT_TRUE(server.comes_to_rest());
}

TEST(ServeProgram, SigtermMidStreamEndsWellAndExitsWithZero) {
    const TinyFile model("llama", {.type = "f32", .chat_template = kTinyTemplate});
    Program program({"-m", model.path(), "--port", "0", "-t", "1", "-c", "16384", "--cpu-level",
                     "scalar", "--drain-timeout", "1"});
    const int port = program.port();
    ASSERT_GT(port, 0);
    RawClient client(port);
    client.send(post_text("/v1/completions", kEndlessStream));
    while (TinyServer::get_of(port, "/slots").body.find("\"is_processing\":true") ==
           std::string::npos)
        std::this_thread::sleep_for(milliseconds(5));
    const auto start = steady_clock::now();
    program.signal(SIGTERM);
    const auto answer = client.read();
    EXPECT_EQ(answer.status, 200);
    EXPECT_TRUE(answer.whole);
    EXPECT_EQ(answer.events().back(), "[DONE]");
    EXPECT_THAT(answer.body, HasSubstr("server_shutdown"));
    EXPECT_EQ(program.exit_code(), 0);
    EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(8));
}

TEST(ServeProgram, WhatIsWrongIsSaidInOneLine) {
    const TinyFile model("llama");
    const auto run = [](std::vector<std::string> args) {
        args.insert(args.begin(), {nib_path(), "serve"});
        return run_process(args, {}, {}, 20);
    };
    expect_error(run({"-m", model.path(), "--port", "70000"}), 2, "--port");
    expect_error(run({"-m", "/nowhere.gguf", "--port", "0"}), 2, "/nowhere.gguf");
    expect_error(run({"-m", model.path(), "--host", "0.0.0.0", "--port", "0"}), 2, "--api-key");
    const TinyServer other;
    expect_error(run({"-m", model.path(), "--port", std::to_string(other.port())}), 1,
                 std::to_string(other.port()));
    const auto limits = run({"--print-limits"});
    EXPECT_EQ(limits.exit_code, 0);
    EXPECT_THAT(limits.out, HasSubstr("max"));
}

}  // namespace
}  // namespace nib::test
