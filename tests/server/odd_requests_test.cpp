// SPDX-License-Identifier: MIT
// Requests and templates that are meant to cost more than they say: each is answered, others are
// served meanwhile, and an answer costs the same for each of its tokens.
#include "tests/server/fixture.h"

#include <algorithm>
#include <thread>

#include <gmock/gmock.h>

namespace nib::test {
namespace {

using testing::HasSubstr;

const Json kHello = {{{"role", "user"}, {"content", "hello"}}};

TEST(OddRequests, TemplatesWithoutAnEndAreStopped) {
    for (const char* text :
         {"{% for i in range(1000000000) %}{% endfor %}",
          "{% for a in range(999) %}{% for b in range(999) %}{% for c in range(999) %}x{% endfor %}"
          "{% endfor %}{% endfor %}",
          "{{ 'a' * 4000000000 }}", "{{ range(99999999)|list|length }}",
          "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"}) {
        TinyServer::Setup setup;
        setup.chat_template = text;
        const TinyServer server(std::move(setup));
        RawClient chat(server.port());
        chat.send(post_text("/v1/chat/completions", dump_json({{"messages", kHello}})));
        EXPECT_EQ(server.get("/health").status, 200);
        EXPECT_EQ(server.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}}).status, 200);
        const HttpAnswer answer = chat.read();
        EXPECT_EQ(answer.status, 400) << text;
        EXPECT_THAT(answer.body, HasSubstr("template")) << text;
        EXPECT_LT(answer.body.size(), 2000u);
    }
}

TEST(OddRequests, NumbersOfAContextShiftAreCheckedAndOtherwiseWithoutEffect) {
    const TinyServer server;
    const Json plain = {
        {"prompt", "abc"}, {"n_predict", 4}, {"temperature", 0}, {"ignore_eos", true}};
    const Json want = server.post("/completion", plain).json()["content"];
    for (const char* name : {"n_keep", "n_discard"}) {
        for (const int64_t value : {int64_t{2147483647}, int64_t{-2147483648}, int64_t{-2},
                                    int64_t{-1}, int64_t{0}, int64_t{128}, int64_t{1} << 40}) {
            Json body = plain;
            body[name] = value;
            const HttpAnswer answer = server.post("/completion", body);
            const int64_t least = std::string_view(name) == "n_keep" ? -1 : 0;
            const bool fits = value >= least && value <= 2147483647;
            EXPECT_EQ(answer.status, fits ? 200 : 400) << name << value;
            if (fits) {
                EXPECT_EQ(answer.json()["content"], want);
            } else {
                EXPECT_EQ(answer.json()["error"]["param"], name);
            }
        }
    }
}

TEST(OddRequests, FormsOfHttpThatClientsUse) {
    const TinyServer server;
    const std::string body = R"({"content": "ab"})";
    const auto tokenize = [&](const std::string& fields, const char* version = "HTTP/1.1") {
        return server.send(std::string("POST /tokenize ") + version + "\r\n" + fields +
                           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    };
    const std::string host = "Host: localhost\r\n";
    EXPECT_EQ(tokenize(host + "Content-Type: application/json; charset=utf-8\r\n").status, 200);
    EXPECT_EQ(tokenize(host).status, 200);
    EXPECT_EQ(tokenize("Content-Type: application/json\r\n", "HTTP/1.0").status, 200);
    EXPECT_EQ(tokenize(host + "Content-Type: application/json\r\nExpect: 100-continue\r\n").status,
              200);
    for (const char* path : {"/v1/nope", "/v1/models/", "/../../etc/passwd"}) {
        const HttpAnswer answer = server.post(path, Json::object());
        EXPECT_EQ(answer.status, 404) << path;
        EXPECT_TRUE(answer.json()["error"]["message"].is_string());
    }
    const HttpAnswer wrong = server.get("/v1/chat/completions");
    EXPECT_EQ(wrong.status, 405);
    EXPECT_EQ(wrong.header("allow"), "POST");
    EXPECT_TRUE(wrong.json()["error"]["message"].is_string());
}

// A reply that was read again from its start for each token would cost more and more.
TEST(OddRequests, ALongStreamSaysOnlyWhatIsNew) {
    TinyServer::Setup setup;
    setup.engine.context = 4500;
    const TinyServer server(std::move(setup));
    const Json tool = {{"type", "function"}, {"function", {{"name", "f"}}}};
    const HttpAnswer answer = server.post("/v1/chat/completions", {{"messages", kHello},
                                                                   {"tools", {tool}},
                                                                   {"stop", {"never to be seen"}},
                                                                   {"max_tokens", 4000},
                                                                   {"ignore_eos", true},
                                                                   {"stream", true}});
    const auto events = answer.events();
    ASSERT_GT(events.size(), 100u);
    const auto longest = [&](size_t from, size_t to) {
        size_t most = 0;
        for (size_t i = from; i < to; i++)
            most = std::max(most, events[i].size());
        return most;
    };
    // Bytes of a tiny model's text may be held back, and come as one or several at a time.
    EXPECT_LE(longest(events.size() / 2, events.size()), 2 * longest(0, events.size() / 8));
    EXPECT_EQ(read_stream(answer, "chat").finishes.at(0), "length");
}

}  // namespace
}  // namespace nib::test
