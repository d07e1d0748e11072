// SPDX-License-Identifier: MIT
// Real models with many clients: who waits for whom, whose text is whose, clients that break off,
// memory, signals. What is awaited is counted in tokens and steps, not in time.
#include "tests/server/model_server.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include <sched.h>
#include <signal.h>
#include <sys/socket.h>

namespace nib::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

// Reads a stream of /completion on a thread of its own and counts its events as they come.
class Reader {
  public:
    Reader(int port, const Json& body)
        : client_(port), thread_([this, bytes = post_text("/completion", dump_json(body))] {
              client_.send(bytes);
              std::string text;
              size_t at = 0;
              for (;;) {
                  const std::string more = client_.read_bytes(1);
                  if (more.empty()) break;
                  text += more;
                  for (size_t next; (next = text.find("\"stop\":false", at)) != std::string::npos;
                       at = next + 1)
                      events_++;
              }
          }) {}
    ~Reader() {
        shutdown(client_.fd(), SHUT_RDWR);
        thread_.join();
    }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    size_t events() const { return events_; }
    bool comes_to(size_t events) const {
        for (int i = 0; i < 60'000 && events_ < events; i++)
            std::this_thread::sleep_for(milliseconds(1));
        return events_ >= events;
    }

  private:
    RawClient client_;
    std::atomic<size_t> events_{0};
    std::thread thread_;  // last: it uses the rest
};

TEST_F(ModelServer, ALongPromptLetsOthersGoOn) {
    NEEDS_MODEL(smol_path())
    const auto server = smol({.context = 4096, .ubatch = 64, .parallel = 2});
    const Reader stream(server->port(), greedy("Once upon a time", 4000, {{"stream", true}}));
    ASSERT_TRUE(stream.comes_to(5));
    const Json prompt = greedy(prose(*server, 0, 1000), 1, {{"cache_prompt", false}});
    std::atomic<bool> done{false};
    size_t events_before = stream.events(), events_after = 0, looks = 0;
    std::thread other([&] {
        ask(*server, prompt);
        events_after = stream.events();
        done = true;
    });
    while (!done) {
        EXPECT_EQ(server->get("/health").status, 200);
        EXPECT_EQ(server->get("/slots").json().size(), 2u);
        looks++;
        std::this_thread::sleep_for(milliseconds(50));
    }
    other.join();
    std::printf("1000 tokens of a prompt: %zu tokens of the other stream, %zu looks\n",
                events_after - events_before, looks);
    EXPECT_GE(events_after - events_before, 1000u / 64);
    EXPECT_GE(looks, 4u);
    // A prompt that its client leaves in the middle goes with the step that it is in.
    const auto at_work = [&](const EngineStats& s) {
        return s.running == 2 && s.requests[1].prompt_done > 0;
    };
    const uint64_t before = server->engine().stats().prompt_tokens;
    RawClient leaver(server->port());
    leaver.send(post_text("/completion", dump_json(prompt)));
    ASSERT_TRUE(server->wait_for(at_work));
    leaver.close();
    ASSERT_TRUE(server->wait_for([](const EngineStats& s) { return s.running == 1; }));
    EXPECT_LT(server->engine().stats().prompt_tokens - before, 1000u);
    EXPECT_TRUE(stream.comes_to(stream.events() + 20));
}

TEST_F(ModelServer, AnswersAreThoseOfTheirOwnPrompts) {
    NEEDS_MODEL(smol_path())
    const auto server = smol({.context = 512, .parallel = 4});
    const auto body = [](size_t n) {
        const std::string word = "ZK-" + std::to_string(1000 + 37 * n);
        Json b = greedy("The code word is " + word + ". Again, the code word is", 16);
        b["max_tokens"] = 16;
        if (n % 3 == 1) b["stop"] = {"."};
        if (n % 3 == 2) b["stream"] = true;
        return b;
    };
    const auto text_at = [&](const Json& b, std::string* id) {
        const HttpAnswer answer = server->post("/v1/completions", b);
        EXPECT_EQ(answer.status, 200) << answer.body;
        if (!b.contains("stream")) {
            const Json json = answer.json();
            if (id) *id = json["id"];
            return json["choices"][0]["text"].get<std::string>();
        }
        Streamed streamed = read_stream(answer, "completion");
        if (id) *id = streamed.last["id"];
        return streamed.texts[0];
    };
    constexpr size_t kTexts = 24;
    std::vector<std::string> want;
    for (size_t n = 0; n < kTexts; n++)
        want.push_back(text_at(body(n), nullptr));
    EXPECT_GE(std::set<std::string>(want.begin(), want.end()).size(), kTexts / 2);
    server->engine().clear_cache();
    std::vector<std::string> ids(16 * 6);
    std::vector<std::thread> clients;
    for (size_t c = 0; c < 16; c++) {
        clients.emplace_back([&, c] {
            for (size_t i = 0; i < 6; i++) {
                const size_t n = (c * 5 + i * 7) % kTexts;
                EXPECT_EQ(text_at(body(n), &ids[c * 6 + i]), want[n]) << n;
                if (i % 3 > 0) continue;
                RawClient leaver(server->port());
                leaver.send(post_text("/v1/completions", dump_json(body(n + 1))));
            }
        });
    }
    for (auto& client : clients)
        client.join();
    EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), ids.size());
    EXPECT_TRUE(server->comes_to_rest());
}

size_t open_files() {
    size_t n = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
        n++;
    return n;
}

// Sends some of a request and cuts the connection so that the server gets a reset.
void cut_somewhere(const TestServer& server, std::mt19937& random) {
    const std::string bytes =
        post_text("/completion", dump_json(greedy("Say", 200, {{"stream", random() % 2 == 0}})));
    RawClient client(server.port());
    client.send(std::string_view(bytes).substr(0, random() % 2 ? bytes.size() : random() % 200));
    if (random() % 4 == 0) client.finish_sending();
    std::this_thread::sleep_for(milliseconds(random() % 20));
    const linger at_once{1, 0};
    setsockopt(client.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

TEST_F(ModelServer, ResetConnectionsLeaveNothingBehind) {
    NEEDS_MODEL(smol_path())
    const auto server = smol({.context = 512, .parallel = 2});
    const Json control = greedy("The sun is", 4);
    const std::string want = text_of(ask(*server, control));
    const size_t files = open_files();
    {
        std::vector<std::unique_ptr<RawClient>> idle;
        for (int i = 0; i < 50; i++) {
            idle.push_back(std::make_unique<RawClient>(server->port()));
            idle.back()->send(get_text("/health"));
            EXPECT_EQ(idle.back()->read().status, 200);
        }
        std::vector<std::thread> storm;
        for (unsigned c = 0; c < 8; c++) {
            storm.emplace_back([&, c] {
                std::mt19937 random(c);
                for (int i = 0; i < 25; i++)
                    cut_somewhere(*server, random);
            });
        }
        for (int i = 0; i < 10; i++)
            EXPECT_EQ(text_of(ask(*server, control)), want);
        for (auto& client : storm)
            client.join();
        EXPECT_TRUE(server->comes_to_rest());
        EXPECT_EQ(text_of(ask(*server, control)), want);
        for (auto& client : idle) {
            client->send(get_text("/health"));
            EXPECT_EQ(client->read().status, 200);
        }
    }
    for (int i = 0; i < 10'000 && server->server().http_counters().connections > 0; i++)
        std::this_thread::sleep_for(milliseconds(1));
    EXPECT_LE(open_files(), files + 2);
}

// One of six kinds; 400, a stream that is left, scores, stops.
void one_request(const TestServer& server, int i) {
    Json body = greedy("Request number " + std::to_string(i % 10), 8);
    const int kind = i % 6;
    if (kind == 1) body["n_probs"] = 20;
    if (kind == 2) body["stop"] = {"a", "the"};
    if (kind == 3) body["temperature"] = -1;
    if (kind >= 4) body["stream"] = true;
    RawClient client(server.port());
    client.send(post_text("/completion", dump_json(body)));
    if (kind == 5) {
        client.read_bytes(1);
        return;
    }
    EXPECT_EQ(client.read().status, kind == 3 ? 400 : 200);
}

TEST_F(ModelServer, MemoryDoesNotGrowWithRequests) {
    NEEDS_MODEL(smol_path())
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "skipped: a sanitizer keeps memory";
#endif
    EngineOptions small{.context = 256, .parallel = 4};
    small.kv_bytes = uint64_t{4 * 256} * 23040;  // so that the cache is full soon
    const auto server = smol(small);
    const auto many = [&](int from, int to) {
        std::vector<std::thread> clients;
        for (int c = 0; c < 4; c++) {
            clients.emplace_back([&, c] {
                for (int i = from + c; i < to; i += 4)
                    one_request(*server, i);
            });
        }
        for (auto& client : clients)
            client.join();
        EXPECT_TRUE(server->comes_to_rest());
    };
    many(0, 100);
    const long before = resident_kib();
    many(100, 300);
    std::printf("200 requests more: %ld KiB more\n", resident_kib() - before);
    EXPECT_LT(resident_kib() - before, 2 << 10);
}

TEST_F(ModelServer, SignalsEndStreamsWellAndTheProgramWithZero) {
    NEEDS_MODEL(smol_path())
    struct Case {
        int signal, times;
        const char* drain;
    };
    for (const auto& [number, times, drain] : {Case{SIGTERM, 1, "1"}, Case{SIGINT, 1, "1"},
                                               Case{SIGHUP, 1, "0"}, Case{SIGINT, 2, "30"}}) {
        Program program({"-m", smol_path(), "--port", "0", "-c", "8192", "--drain-timeout", drain});
        const int port = program.port();
        ASSERT_GT(port, 0);
        RawClient client(port);
        client.send(
            post_text("/v1/completions",
                      dump_json(greedy("Once", 8000, {{"max_tokens", 8000}, {"stream", true}}))));
        while (TestServer::get_of(port, "/slots").body.find("\"is_processing\":true") ==
               std::string::npos)
            std::this_thread::sleep_for(milliseconds(5));
        const auto start = steady_clock::now();
        for (int i = 0; i < times; i++) {
            program.signal(number);
            std::this_thread::sleep_for(milliseconds(100));
        }
        const auto answer = client.read();
        EXPECT_EQ(answer.status, 200);
        EXPECT_TRUE(answer.whole);
        const Streamed streamed = read_stream(answer, "completion");
        EXPECT_EQ(streamed.ends, 1u);
        EXPECT_THAT(answer.body, HasSubstr("server_shutdown"));
        EXPECT_EQ(program.exit_code(), 0);
        EXPECT_LT(steady_clock::now() - start, seconds(6)) << number;
    }
}

TEST_F(ModelServer, ASignalGivesUpLoading) {
    NEEDS_MODEL(gemma_path())
    Program program({"-m", gemma_path(), "--port", "0"});
    ASSERT_TRUE(program.wait_for("loading"));
    const auto start = steady_clock::now();
    program.signal(SIGTERM);
    EXPECT_EQ(program.exit_code(), 0);
    EXPECT_LT(steady_clock::now() - start, seconds(5));
}

int threads_of_a_server() {
    Program program({"-m", smol_path(), "--port", "0", "-c", "64"});
    const Json props = TestServer::get_of(program.port(), "/props").json();
    const std::string backend = props.value("build_info", "");  // "nib, cpu avx512, 2 threads"
    const size_t comma = backend.rfind(", ");
    program.signal(SIGTERM);
    EXPECT_EQ(program.exit_code(), 0);
    return comma == std::string::npos ? 0 : std::atoi(backend.c_str() + comma + 2);
}

TEST_F(ModelServer, ThreadsAreWhatTheProcessMayUse) {
    NEEDS_MODEL(smol_path())
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    const int n = threads_of_a_server();
    EXPECT_GE(n, 1);
    EXPECT_LE(n, CPU_COUNT(&all));
    int first = 0;
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(threads_of_a_server(), 1);
    ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
    for (const char* bad : {"abc", "-5", "100000"}) {
        expect_error(
            run_process({nib_path(), "serve", "-m", smol_path(), "--port", "0", "-t", bad}), 2,
            "-t");
    }
}

// A body as large as the server takes, all of it line ends, is read, counted and refused.
TEST_F(ModelServer, MegabytesOfLineEndsAreRefusedForTheirTokens) {
    NEEDS_MODEL(smol_path())
    const auto server = smol({.context = 512});
    const std::string lines(15 << 20, '\n');
    const HttpAnswer answer = server->post("/completion", greedy(lines, 1));
    EXPECT_TRUE(answer.status == 400 || answer.status == 413) << answer.status;
    EXPECT_LT(answer.body.size(), 1000u);
    EXPECT_EQ(server->send(post_text("/completion", std::string(64 << 20, '\n'))).status, 413);
    EXPECT_EQ(text_of(ask(*server, greedy("The sun is", 4))).empty(), false);
}

}  // namespace
}  // namespace nib::test
