// SPDX-License-Identifier: MIT
// What comes over the wire: heads, bodies, methods, paths, hosts, keys. Every odd request has its
// answer, and the server is as it was afterwards.
#include "src/server/head_check.h"
#include "src/server/limits.h"
#include "tests/server/fixture.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>

namespace nib::test {
namespace {

using testing::HasSubstr;

std::string head(const std::string& more) {
    return "GET /health HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n";
}

int status_of(const std::string& bytes) {
    const HeadScan scan = scan_head(bytes);
    if (scan.problem.status) return scan.problem.status;
    if (!scan.end) return -1;  // more is needed
    RequestHead parsed;
    return check_head(std::string_view(bytes).substr(0, scan.end), parsed).status;
}

struct HeadCase {
    std::string bytes;
    int status;
};

std::vector<HeadCase> odd_heads() {
    const std::string long_name(kHeaderFieldMax + 10, 'a');
    std::string many;
    for (size_t i = 0; i <= kHeaderFieldsMax; i++)
        many += "X-" + std::to_string(i) + ": 1\r\n";
    return {
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
         400},
        {head("Content-Length: 1\r\nContent-Length: 1\r\n"), 400},
        {head("Transfer-Encoding: xchunked\r\n"), 400},
        {head("Transfer-Encoding: chunked, chunked\r\n"), 400},
        {head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
        {head("Content-Length: -1\r\n"), 400},
        {head("Content-Length: +5\r\n"), 400},
        {head("Content-Length: 0x5\r\n"), 400},
        {head("Content-Length: 100000000000000000000\r\n"), 413},
        {head("X-A : 1\r\n"), 400},
        {head("X-A: 1\r\n folded\r\n"), 400},
        {head(std::string("X-A: a\0b\r\n", 10)), 400},
        {"GET / HTTP/1.1\nHost: a\n\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/9.9\r\nHost: a\r\n\r\n", 400},
        {"GET / http/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET  HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"G\x01T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {head("X: " + long_name + "\r\n"), 431},
        {head(many), 431},
        {"GET /" + std::string(100'000, 'x') + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
        {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), 400},
        {head("Expect: 200-ok\r\n"), 417},
        {head(""), 0},
        {"GET / HTTP/1.0\r\n\r\n", 0},
    };
}

TEST(HeadCheck, OddHeadsAreRefusedWithTheirStatus) {
    for (const HeadCase& c : odd_heads())
        EXPECT_EQ(status_of(c.bytes), c.status) << c.bytes.substr(0, 120);
}

TEST(HeadCheck, CutAnywhereItWaitsOrSaysTheSame) {
    for (const HeadCase& c : odd_heads()) {
        if (c.bytes.size() > 2000) continue;
        for (size_t n = 0; n < c.bytes.size(); n++) {
            const int status = status_of(c.bytes.substr(0, n));
            EXPECT_TRUE(status == -1 || status == c.status) << c.bytes << " at " << n;
        }
    }
}

TEST(HeadCheck, ByteByByteItSeesTheSameAsAtOnce) {
    for (const HeadCase& c : odd_heads()) {
        if (c.bytes.size() > 60'000) continue;
        const HeadScan whole = scan_head(c.bytes);
        HeadScan scan;
        for (size_t n = 1; n <= c.bytes.size() && !scan.end && !scan.problem.status; n++)
            scan = scan_head(std::string_view(c.bytes).substr(0, n), scan);
        EXPECT_EQ(scan.end, whole.end) << c.bytes.substr(0, 120);
        EXPECT_EQ(scan.problem.status, whole.problem.status) << c.bytes.substr(0, 120);
    }
}

TEST(HeadCheck, ChunkSizesAreHexadecimalDigits) {
    EXPECT_EQ(read_chunk_size("1f"), 31u);
    EXPECT_EQ(read_chunk_size("5;name=value"), 5u);
    for (const char* bad : {"", "-1", "zz", "0x5", "5xyz", " 5", "ffffffffffffffffff", ";a"})
        EXPECT_FALSE(read_chunk_size(bad).has_value()) << bad;
}

TEST(Http, OddHeadsAreAnsweredAndTheConnectionEnds) {
    const TinyServer server;
    for (const HeadCase& c : odd_heads()) {
        if (c.status == 0) continue;
        RawClient client(server.port());
        client.send(c.bytes);
        const HttpAnswer answer = client.read();
        EXPECT_EQ(answer.status, c.status) << c.bytes.substr(0, 120);
        EXPECT_EQ(answer.header("connection"), "close");
        EXPECT_TRUE(answer.json()["error"]["message"].is_string());
        EXPECT_TRUE(client.is_closed());
    }
    EXPECT_EQ(server.get("/health").status, 200);
}

TEST(Http, BodiesOverTheLimitAreRefusedBeforeTheyAreRead) {
    TinyServer::Setup setup;
    setup.http.body_max = 1000;
    const TinyServer server(std::move(setup));
    const std::string start =
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    EXPECT_EQ(server.send(start + "Content-Length: 200000000\r\n\r\n").status, 413);
    EXPECT_EQ(server.send(start + "Content-Length: 1001\r\n\r\n").status, 413);
    const auto text = [](size_t n) { return dump_json({{"content", std::string(n - 14, 'a')}}); };
    EXPECT_EQ(text(1000).size(), 1000u);
    EXPECT_EQ(server.send(post_text("/tokenize", text(1000))).status, 200);
    EXPECT_EQ(server.send(post_text("/tokenize", text(1001))).status, 413);
    // Chunks: as good as a length, up to the same limit.
    const auto chunked = [&](const std::string& chunks) {
        return server.send(start + "Transfer-Encoding: chunked\r\n\r\n" + chunks).status;
    };
    EXPECT_EQ(chunked("9\r\n{\"content\r\n8\r\n\": \"ab\"}\r\n0\r\n\r\n"), 200);
    EXPECT_EQ(chunked("3e9\r\n"), 413);
    for (const char* bad : {"ffffffffffffffff\r\n", "-1\r\n", "-2\r\n", "zz\r\n", "0x5\r\n{},\r\n",
                            "5xyz\r\n", "2\r\n{}xx\r\n"}) {
        const int status = chunked(bad);
        EXPECT_TRUE(status == 400 || status == 413) << bad << ": " << status;
    }
    EXPECT_EQ(server.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 400);
    EXPECT_EQ(server.get("/health").status, 200);
}

TEST(Http, SlowHeadsAndBodiesAreCutAndOthersGoOn) {
    TinyServer::Setup setup;
    setup.http.head_timeout_ms = 300;
    setup.http.body_grace_ms = 300;
    const TinyServer server(std::move(setup));
    std::vector<std::unique_ptr<RawClient>> half_open;
    for (int i = 0; i < 64; i++) {
        half_open.push_back(std::make_unique<RawClient>(server.port()));
        half_open.back()->send("GET /health HT");
    }
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(server.get("/health").status, 200);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
    for (auto& client : half_open) {
        const int status = client->read().status;
        EXPECT_TRUE(status == 408 || status == 0) << status;
    }
    RawClient slow(server.port());
    slow.send(
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 100\r\n\r\n{");
    EXPECT_EQ(slow.read().status, 408);
}

TEST(Http, MethodsPathsAndForms) {
    const TinyServer server;
    for (const char* method : {"PUT", "DELETE", "TRACE", "PATCH"}) {
        const auto answer =
            server.send(std::string(method) + " /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
        EXPECT_EQ(answer.status, 405) << method;
        EXPECT_THAT(answer.header("allow"), HasSubstr("GET"));
    }
    for (const char* path :
         {"/v1/../slots", "/%2e%2e/", "//health", "/health%00", "/v1/nothing", "/v1/models/../.."})
        EXPECT_EQ(server.get(path).status, 404) << path;
    EXPECT_EQ(server.send("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 204);
    const auto with = [&](const std::string& header) {
        return server
            .send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n" + header +
                  "\r\n\r\n{}")
            .status;
    };
    EXPECT_EQ(with("Content-Type: text/plain"), 415);
    EXPECT_EQ(with("Content-Type: application/x-www-form-urlencoded"), 415);
    EXPECT_EQ(with("Content-Type: application/json\r\nContent-Encoding: gzip"), 415);
    EXPECT_EQ(with("Content-Type: application/json; charset=utf-8"), 400);  // read, and lacking
    RawClient client(server.port());  // HEAD has the length and no body
    client.send("HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n" + get_text("/health"));
    const std::string both = client.read_bytes(300);
    EXPECT_EQ(both.rfind("HTTP/1.1 200", 0), 0u);
}

TEST(Http, HostsAndOrigins) {
    TinyServer::Setup setup;
    setup.options.cors_origins = {"https://friend.example"};
    const TinyServer server(std::move(setup));
    const auto asked = [&](const std::string& host, const std::string& more = {}) {
        return server.send("GET /health HTTP/1.1\r\nHost: " + host + "\r\n" + more + "\r\n");
    };
    for (const char* good : {"localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080"})
        EXPECT_EQ(asked(good).status, 200) << good;
    for (const char* bad : {"evil.com", "127.0.0.1.evil.com", "localhost.evil.com:80", "[::1"}) {
        const auto answer = asked(bad);
        EXPECT_TRUE(answer.status == 403 || answer.status == 400) << bad << answer.status;
        EXPECT_FALSE(answer.has("access-control-allow-origin"));
    }
    for (const char* bad : {"http://evil.com", "null", "http://localhost.evil.com"}) {
        const auto answer = asked("localhost", std::string("Origin: ") + bad + "\r\n");
        EXPECT_EQ(answer.status, 403) << bad;
        EXPECT_EQ(answer.json()["error"]["type"], "permission_error");
        EXPECT_FALSE(answer.has("access-control-allow-origin"));
    }
    EXPECT_EQ(asked("localhost", "Origin: http://localhost\r\n").status, 200);  // our own page
    EXPECT_EQ(asked("localhost", "Origin: https://friend.example\r\n")
                  .header("access-control-allow-origin"),
              "https://friend.example");
}

TEST(Http, KeysAreWantedWhateverThePathIsSpelledLike) {
    TinyServer::Setup setup;
    setup.options.api_keys = {"first-key", "second-key"};
    const TinyServer server(std::move(setup));
    const auto with = [&](const std::string& field, const char* path = "/v1/models") {
        return server.get(path, field.empty() ? "" : field + "\r\n");
    };
    EXPECT_EQ(with("Authorization: Bearer second-key").status, 200);
    EXPECT_EQ(with("Authorization: bEARER first-key").status, 200);
    EXPECT_EQ(with("X-Api-Key: first-key").status, 200);
    for (const char* bad : {"", "Authorization: Bearer wrong", "Authorization: Bearer first-key1",
                            "Authorization: Bearer first-ke", "Authorization: Basic first-key",
                            "Authorization: ", "X-Api-Key: wrong", "X-Api-Key: Bearer first-key",
                            "Authorization: Bearer first-key\r\nAuthorization: Bearer first-key",
                            "Authorization: Bearer first-key\r\nX-Api-Key: first-key"}) {
        const auto answer = with(bad);
        EXPECT_EQ(answer.status, 401) << bad;
        EXPECT_THAT(answer.header("www-authenticate"), HasSubstr("Bearer"));
        EXPECT_THAT(answer.body, Not(HasSubstr("first-key")));
    }
    EXPECT_EQ(with("", "/v1/models?key=first-key").status, 401);
    EXPECT_EQ(with("", "/health").status, 200);
    for (const char* path : {"//v1/models", "/v1/models/", "/V1/models", "/v1/%6dodels"}) {
        const int status = with("", path).status;
        EXPECT_TRUE(status == 401 || status == 404) << path << status;
    }
    EXPECT_EQ(with("Authorization: Bearer " + std::string(30'000, 'k')).status, 431);
}

TEST(Http, RequestIdsComeBackOnlyIfTheyArePlain) {
    const TinyServer server;
    EXPECT_EQ(server.get("/health", "X-Request-Id: abc-123\r\n").header("x-request-id"), "abc-123");
    const auto made = server.get("/health", "X-Request-Id: a b<script>\r\n").header("x-request-id");
    EXPECT_THAT(made, HasSubstr("req-"));
    EXPECT_EQ(server.get("/health", "X-Request-Id: " + std::string(1 << 20, 'a') + "\r\n").status,
              431);
}

TEST(Http, PipelinedRequestsAreAnsweredInOrder) {
    const TinyServer server;
    RawClient client(server.port());
    std::string all;
    for (int i = 0; i < 100; i++)
        all += get_text("/health", "X-Request-Id: n" + std::to_string(i) + "\r\n");
    client.send(all);
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(client.read().header("x-request-id"), "n" + std::to_string(i));
}

TEST(Http, OverTheCapIdleOnesGoThenNewcomersGetAnAnswer) {
    TinyServer::Setup setup;
    setup.http.connections_max = 4;
    setup.engine = {.context = 16384, .threads = 1, .cpu_level = "scalar", .parallel = 8};
    TinyServer server(std::move(setup));
    // Idle ones make room.
    std::vector<std::unique_ptr<RawClient>> idle;
    for (int i = 0; i < 4; i++) {
        idle.push_back(std::make_unique<RawClient>(server.port()));
        idle.back()->send(get_text("/health"));
        EXPECT_EQ(idle.back()->read().status, 200);
    }
    EXPECT_EQ(server.get("/v1/models").status, 200);
    EXPECT_GE(server.server().http_counters().evicted, 1u);
    idle.clear();
    for (int i = 0; i < 10'000 && server.server().http_counters().connections > 0; i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_EQ(server.server().http_counters().connections, 0);
    // Busy ones do not.
    std::vector<std::unique_ptr<RawClient>> busy;
    for (int i = 0; i < 4; i++) {
        busy.push_back(std::make_unique<RawClient>(server.port()));
        busy.back()->send(post_text("/completion", R"({"prompt": "abc", "ignore_eos": true})"));
    }
    ASSERT_TRUE(server.wait_for([](const EngineStats& s) { return s.running == 4; }));
    const auto refused = server.get("/v1/models");
    EXPECT_EQ(refused.status, 503);
    EXPECT_TRUE(refused.has("retry-after"));
    EXPECT_EQ(server.get("/health").status, 200);
    EXPECT_EQ(server.engine().stats().running, 4);
    busy.clear();
    EXPECT_TRUE(server.comes_to_rest());
}

TEST(Http, WhileTheModelLoadsItSaysSo) {
    TinyServer::Setup setup;
    setup.load = false;
    const TinyServer server(std::move(setup));
    const auto health = server.get("/health");
    EXPECT_EQ(health.status, 503);
    EXPECT_EQ(health.json()["error"]["message"], "Loading model");
    const auto answer = server.post("/v1/completions", {{"prompt", "a"}});
    EXPECT_EQ(answer.status, 503);
    EXPECT_TRUE(answer.has("retry-after"));
    EXPECT_EQ(server.get("/").status, 200);
}

TEST(Http, LimitsAreShownAsTheyAre) {
    const TinyServer server;
    const Json limits = server.get("/props").json()["limits"];
    EXPECT_FALSE(limits.empty());
    for (const NamedLimit& limit : all_limits())
        EXPECT_EQ(limits[limit.name], limit.value) << limit.name;
    EXPECT_THAT(limits_text(), HasSubstr(std::to_string(kHeaderFieldsMax)));
}

}  // namespace
}  // namespace nib::test
