// SPDX-License-Identifier: MIT
// Clients that leave, servers that end, more requests than there is room for.
#include "tests/server/fixture.h"

#include <atomic>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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

long resident_kib() {
    std::ifstream in("/proc/self/status");
    for (std::string line; std::getline(in, line);) {
        if (line.rfind("RssAnon:", 0) == 0) return std::stol(line.substr(8));
    }
    return 0;
}

TEST(Life, OverloadIsAnsweredAndLeavesNothingBehind) {
    TinyServer::Setup setup;
    setup.engine.parallel = 2;
    setup.engine.queue_limit = 4;
    TinyServer server(std::move(setup));
    std::atomic<int> good{0}, busy{0}, wrong{0};
    const auto storm = [&] {
        std::vector<std::thread> clients;
        for (int c = 0; c < 16; c++) {
            clients.emplace_back([&, c] {
                for (int i = 0; i < 16; i++) {
                    const auto answer = server.post(
                        "/v1/completions", {{"prompt", "client " + std::to_string(c * 100 + i)},
                                            {"max_tokens", 12},
                                            {"ignore_eos", true}});
                    if (answer.status == 200)
                        good++;
                    else if ((answer.status == 429 || answer.status == 503) &&
                             answer.has("retry-after"))
                        busy++;
                    else
                        wrong++;
                }
            });
        }
        for (auto& t : clients)
            t.join();
    };
    storm();
    ASSERT_TRUE(server.comes_to_rest());
    const long before = resident_kib();
    storm();
    ASSERT_TRUE(server.comes_to_rest());
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(good, 0);
    EXPECT_EQ(good + busy, 512);
    EXPECT_EQ(server.get("/health").status, 200);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "skipped the bound of memory: a sanitizer keeps what was freed (" << before
                 << " KiB before)";
#else
    EXPECT_LT(resident_kib() - before, 16 << 10);
#endif
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

// `nib serve` as a process of its own.
class Program {
  public:
    explicit Program(std::vector<std::string> args) {
        args.insert(args.begin(), {nib_path(), "serve"});
        int out[2];
        EXPECT_EQ(pipe(out), 0);
        pid_ = fork();
        if (pid_ == 0) {
            dup2(out[1], 2);
            ::close(out[0]);
            std::vector<char*> argv;
            for (auto& a : args)
                argv.push_back(a.data());
            argv.push_back(nullptr);
            execv(argv[0], argv.data());
            _exit(127);
        }
        ::close(out[1]);
        err_ = out[0];
    }
    ~Program() {
        if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
        ::close(err_);
    }
    // Reads stderr up to a line that holds the text; false at its end.
    bool wait_for(const std::string& text) {
        char c;
        while (seen_.find(text) == std::string::npos && read(err_, &c, 1) == 1)
            seen_ += c;
        return seen_.find(text) != std::string::npos;
    }
    void signal(int number) const { kill(pid_, number); }
    int exit_code() {
        int status = 0;
        waitpid(std::exchange(pid_, 0), &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    int port() {
        EXPECT_TRUE(wait_for("ready"));
        const size_t at = seen_.find("127.0.0.1:");
        return at == std::string::npos ? 0 : std::stoi(seen_.substr(at + 10));
    }

  private:
    pid_t pid_ = 0;
    int err_ = -1;
    std::string seen_;
};

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
