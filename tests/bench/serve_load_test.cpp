// SPDX-License-Identifier: MIT
// The load generator against a server that says what the test tells it to say, in pieces as the
// test cuts them.
#include "src/bench/serve_load.h"

#include "src/bench/http_stream.h"
#include "src/json/json.h"

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace nib::bench {
namespace {

using testing::HasSubstr;

// Answers every request with the pieces that `script` makes of its body; closes the connection
// after one answer if told so.
class ScriptedServer {
  public:
    using Script = std::function<std::vector<std::string>(const std::string& body)>;

    explicit ScriptedServer(Script script, bool close_after = false)
        : script_(std::move(script)), close_after_(close_after) {
        fd_ = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
        EXPECT_EQ(listen(fd_, 64), 0);
        getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
        port_ = ntohs(address.sin_port);
        accepting_ = std::thread([this] { accept_all(); });
    }
    ~ScriptedServer() {
        shutdown(fd_, SHUT_RDWR);
        accepting_.join();
        for (std::thread& thread : threads_)
            thread.join();
        close(fd_);
    }
    std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
    std::vector<std::string> bodies() const { return bodies_; }  // after the load
    std::string last_head() const { return last_head_; }
    int connections() const { return connections_; }

  private:
    void accept_all() {
        for (int client; (client = accept(fd_, nullptr, nullptr)) >= 0;) {
            connections_++;
            threads_.emplace_back([this, client] { serve(client); });
        }
    }

    void serve(int client) {
        const int on = 1;
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        std::string data;
        char bytes[4096];
        for (;;) {
            const size_t head = data.find("\r\n\r\n");
            const size_t mark = data.find("Content-Length: ");
            if (head != std::string::npos && mark != std::string::npos) {
                const size_t length = std::stoul(data.substr(mark + 16));
                if (data.size() >= head + 4 + length) {
                    const std::string body = data.substr(head + 4, length);
                    note(data.substr(0, head + 4), body);
                    data.erase(0, head + 4 + length);
                    answer(client, body);
                    if (close_after_) break;
                    continue;
                }
            }
            const ssize_t count = recv(client, bytes, sizeof bytes, 0);
            if (count <= 0) break;
            data.append(bytes, static_cast<size_t>(count));
        }
        close(client);
    }

    void note(const std::string& head, const std::string& body) {
        const std::lock_guard lock(mutex_);
        last_head_ = head;
        bodies_.push_back(body);
    }

    void answer(int client, const std::string& body) {
        for (const std::string& piece : script_(body)) {
            send(client, piece.data(), piece.size(), MSG_NOSIGNAL);
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
    }

    Script script_;
    bool close_after_;
    int fd_ = -1;
    uint16_t port_ = 0;
    std::atomic<int> connections_{0};
    std::mutex mutex_;
    std::vector<std::string> bodies_;
    std::string last_head_;
    std::vector<std::thread> threads_;
    std::thread accepting_;
};

constexpr const char* kHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string chunk(const std::string& text) {
    char size[32];
    std::snprintf(size, sizeof size, "%zx\r\n", text.size());
    return size + text + "\r\n";
}

std::string event(const std::string& text) {
    return chunk("data: {\"choices\":[{\"delta\":{\"content\":\"" + text +
                 "\"},\"finish_reason\":null}]}\n\n");
}

std::string last_events(int tokens) {
    return chunk(
               "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"
               "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":" +
               std::to_string(tokens) +
               ",\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\ndata: [DONE]\n\n") +
           "0\r\n\r\n";
}

std::vector<std::string> good_answer(const std::string&) {
    return {kHead, event("a"), event("b"), event("c"), last_events(3)};
}

ServeLoadReport load(const ServeLoadRequest& request) {
    auto report = measure_serving(request);
    EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message);
    return report.ok() ? std::move(*report) : ServeLoadReport{};
}

// The one kind of failure that a load of two requests on such answers has.
std::string failure_with(const ScriptedServer::Script& script) {
    ScriptedServer server(script, true);
    const ServeLoadReport report = load({.url = server.url(), .clients = 1, .requests = 2});
    EXPECT_EQ(report.done, 0);
    EXPECT_EQ(report.errors.size(), 1u);
    if (report.errors.size() != 1) return "";
    EXPECT_EQ(report.errors.begin()->second, 2);
    return report.errors.begin()->first;
}

TEST(ServeLoad, CountsWhatCame) {
    ScriptedServer server(good_answer);
    const ServeLoadReport report = load({.url = server.url(), .clients = 3, .requests = 7});
    EXPECT_EQ(report.done, 7);
    EXPECT_TRUE(report.errors.empty());
    EXPECT_EQ(report.tokens, 21u);
    EXPECT_EQ(report.prompt_tokens, 70u);
    EXPECT_EQ(report.cached_tokens, 28u);
    EXPECT_EQ(report.first_token.count, 7u);
    EXPECT_EQ(report.gap.count, 14u);
    EXPECT_GT(report.gap.max, 0.0015);
    EXPECT_GE(report.gap.max, report.gap.p99);
    EXPECT_GT(report.tokens_per_s(), 0);
    EXPECT_LE(server.connections(), 4);  // one looks whether the server is there
}

TEST(ServeLoad, CutsAndConnectionsDoNotMatter) {
    std::string whole = kHead;
    for (const char* text : {"a", "b"})
        whole += event(text);
    whole += last_events(2);
    const auto bytewise = [&](const std::string&) {
        std::vector<std::string> pieces;
        for (size_t at = 0; at < whole.size(); at += 29)
            pieces.push_back(whole.substr(at, 29));
        return pieces;
    };
    ScriptedServer cut(bytewise);
    EXPECT_EQ(load({.url = cut.url(), .clients = 2, .requests = 4}).tokens, 8u);
    ScriptedServer closing(good_answer, true);  // without a word of it in the head
    EXPECT_EQ(load({.url = closing.url(), .clients = 2, .requests = 6}).done, 6);
    ScriptedServer until_close(
        [](const std::string&) {
            return std::vector<std::string>{
                "HTTP/1.1 200 OK\r\n\r\n",
                "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}"
                "\r\n\r\ndata: [DONE]\r\n\r\n"};
        },
        true);
    EXPECT_EQ(load({.url = until_close.url(), .clients = 2, .requests = 4}).tokens, 4u);
}

TEST(ServeLoad, RequestsAreWhatWasAsked) {
    ScriptedServer server(good_answer);
    load({.url = server.url(),
          .key = "a key",
          .clients = 2,
          .requests = 5,
          .tokens = 17,
          .prompt_chars = 120,
          .shared_prefix_chars = 300,
          .warm = true});
    EXPECT_THAT(server.last_head(), HasSubstr("\r\nAuthorization: Bearer a key\r\n"));
    const std::vector<std::string> bodies = server.bodies();
    ASSERT_EQ(bodies.size(), 6u);  // one to warm up
    std::set<std::string> questions, rules;
    for (const std::string& body : bodies) {
        const auto json = parse_json(body);
        ASSERT_TRUE(json.ok()) << body;
        EXPECT_TRUE((*json)["stream"].get<bool>());
        rules.insert((*json)["messages"][0]["content"].get<std::string>());
        questions.insert((*json)["messages"][1]["content"].get<std::string>());
    }
    EXPECT_EQ(rules.size(), 1u);
    EXPECT_EQ(rules.begin()->size(), 300u);
    EXPECT_EQ(questions.size(), 6u);
    EXPECT_EQ(questions.begin()->size(), 120u);
    EXPECT_THAT(bodies[1], HasSubstr("\"max_tokens\":17"));
    EXPECT_EQ(load_prompt(1, 3, 90), load_prompt(1, 3, 90));
    EXPECT_NE(load_prompt(1, 3, 90), load_prompt(2, 3, 90));
    EXPECT_EQ(load_prompt(1, 3, 90), load_prompt(1, 3, 200).substr(0, 90));
}

TEST(ServeLoad, FailuresHaveNames) {
    EXPECT_EQ(failure_with([](const std::string&) {
                  return std::vector<std::string>{
                      "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\n{}"};
              }),
              "HTTP 429");
    EXPECT_THAT(failure_with([](const std::string&) {
                    return std::vector<std::string>{kHead, event("a")};
                }),
                HasSubstr("closed before the answer ended"));
    EXPECT_THAT(failure_with([](const std::string&) {
                    return std::vector<std::string>{kHead, event("a"), "0\r\n\r\n"};
                }),
                HasSubstr("an answer without an end"));
    EXPECT_THAT(failure_with([](const std::string&) {
                    return std::vector<std::string>{
                        kHead, chunk("data: {\"error\":{\"message\":\"no memory\"}}\n\n")};
                }),
                HasSubstr("no memory"));
    EXPECT_THAT(failure_with([](const std::string&) {
                    return std::vector<std::string>{kHead, "ffffffffffffffffff\r\n"};
                }),
                HasSubstr("a chunk without a size"));
    EXPECT_THAT(failure_with([](const std::string&) {
                    return std::vector<std::string>{"SSH-2.0-nothing here\r\n"};
                }),
                HasSubstr("not HTTP/1.1"));
    EXPECT_THAT(failure_with([](const std::string&) {
                    return std::vector<std::string>{"HTTP/1.1 200 " + std::string(1 << 17, 'x')};
                }),
                HasSubstr("a line without an end"));
    EXPECT_THAT(failure_with([](const std::string&) {
                    return std::vector<std::string>{kHead, chunk("data: [1,\n\n")};
                }),
                HasSubstr("JSON"));
}

TEST(ServeLoad, LongPromptSplitsTheGaps) {
    const auto script = [](const std::string& body) {
        const bool is_long = body.size() > 4000;
        std::vector<std::string> pieces = {kHead};
        for (int i = 0; i < (is_long ? 1 : 60); ++i)
            pieces.push_back(event("x"));
        if (is_long) pieces.insert(pieces.begin() + 1, 10, chunk(":\n\n"));
        pieces.push_back(last_events(is_long ? 1 : 60));
        return pieces;
    };
    ScriptedServer server(script);
    const ServeLoadReport report = load({.url = server.url(),
                                         .clients = 2,
                                         .requests = 2,
                                         .tokens = 60,
                                         .long_prompt_chars = 5000});
    EXPECT_EQ(report.done, 2);
    EXPECT_EQ(report.tokens, 120u);  // the long one does not count
    EXPECT_GT(report.long_first_token, 0.02);
    EXPECT_GE(report.gap_before.count, 28u);
    EXPECT_GE(report.gap_during.count, 8u);
    EXPECT_LE(report.gap_before.count + report.gap_during.count, report.gap.count);
}

TEST(ServeLoad, AddressesAreChecked) {
    for (const char* bad : {"", "localhost", "https://a", "http://", "http://a:0", "http://a:65536",
                            "http://a:x", "http://[::1", "http://a b", "http://:80"}) {
        EXPECT_FALSE(parse_url(bad).ok()) << bad;
    }
    const auto url = parse_url("http://[::1]:8080/sub/");
    ASSERT_TRUE(url.ok());
    EXPECT_EQ(url->host, "::1");
    EXPECT_EQ(url->port, "8080");
    EXPECT_EQ(url->prefix, "/sub");
    EXPECT_EQ(parse_url("http://host")->port, "80");
    const auto nobody = measure_serving({.url = "http://127.0.0.1:1"});
    ASSERT_FALSE(nobody.ok());
    EXPECT_THAT(nobody.error().message, HasSubstr("127.0.0.1:1"));
}

TEST(ServeLoad, RanksAreNearest) {
    std::vector<double> many;
    for (int i = 200; i >= 1; --i)
        many.push_back(i);
    const Latency l = latency_of(many);
    EXPECT_EQ(l.p50, 100);
    EXPECT_EQ(l.p99, 198);
    EXPECT_EQ(l.max, 200);
    std::vector<double> one = {5};
    EXPECT_EQ(latency_of(one).p99, 5);
    std::vector<double> none;
    EXPECT_EQ(latency_of(none).count, 0u);
}

}  // namespace
}  // namespace nib::bench
