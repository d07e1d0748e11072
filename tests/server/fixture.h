// SPDX-License-Identifier: MIT
// A server in the test's own process, on a loopback port of its own, with an engine on a tiny
// random model or on a file; and a client that sends bytes as they are and reads one answer at a
// time.
#pragma once
#include "src/json/json.h"
#include "src/server/server.h"
#include "tests/engine/tiny_engine.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nib::test {

inline constexpr const char* kTinyTemplate =
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}";

struct HttpAnswer {
    int status = 0;  // 0: the connection ended without one
    std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
    std::string body;                                          // chunks joined
    bool whole = false;                                        // the end came as announced

    std::string header(std::string_view name) const;
    bool has(std::string_view name) const;
    Json json() const;  // fails the test if it is none
    // The data of each event of an event stream.
    std::vector<std::string> events() const;
};

// The deltas of a stream, joined for each choice. kind: "chat", "completion" or "llama".
struct Streamed {
    std::map<int, std::string> texts, finishes;
    Json usage, last;  // last: the last event that is JSON
    size_t events = 0;
    size_t ends = 0;  // events with a reason to finish
};
Streamed read_stream(const HttpAnswer& answer, std::string_view kind);

// A socket. Every wait ends after a minute.
class RawClient {
  public:
    explicit RawClient(int port);
    ~RawClient();
    RawClient(const RawClient&) = delete;
    RawClient& operator=(const RawClient&) = delete;

    bool send(std::string_view bytes);
    HttpAnswer read();
    // At least n bytes of what comes, or what came until the end.
    std::string read_bytes(size_t n);
    bool is_closed();  // waits for the other side's end
    void finish_sending();
    void close();
    int fd() const { return fd_; }

  private:
    bool fill();
    int fd_ = -1;
    std::string buffer_;
};

std::string get_text(std::string_view path, std::string_view more_headers = {});
std::string post_text(std::string_view path,
                      std::string_view body,
                      std::string_view more_headers = {});

class TestServer {
  public:
    // On the model of engine.model_path.
    TestServer(Options options, const HttpOptions& http, const EngineOptions& engine);

    Server& server() { return *server_; }
    Engine& engine() { return *server_->state().engine(); }
    int port() const { return server_->port(); }
    // On a connection of its own.
    HttpAnswer send(std::string_view bytes) const { return send_to(port(), bytes); }
    static HttpAnswer send_to(int port, std::string_view bytes);
    static HttpAnswer get_of(int port, std::string_view path) {
        return send_to(port, get_text(path));
    }
    HttpAnswer get(std::string_view path, std::string_view headers = {}) const {
        return send(get_text(path, headers));
    }
    HttpAnswer post(std::string_view path, const Json& body, std::string_view headers = {}) const {
        return send(post_text(path, dump_json(body), headers));
    }
    // Nothing runs or waits, and no block is held.
    bool comes_to_rest();
    bool wait_for(const std::function<bool(const EngineStats&)>& wanted);

  protected:
    TestServer() = default;
    void open(Options options, HttpOptions http, const EngineOptions& engine, bool load);

  private:
    std::unique_ptr<Server> server_;
};

class TinyServer : public TestServer {
  public:
    static EngineOptions small_engine() {
        EngineOptions options;
        options.context = 512;
        options.parallel = 4;
        return options;
    }
    struct Setup {
        Options options = {};
        HttpOptions http = {};
        EngineOptions engine = small_engine();
        const char* chat_template = kTinyTemplate;
        const char* arch = "llama";
        bool load = true;  // else it stays as it is while the model loads
    };
    TinyServer() : TinyServer(Setup{}) {}
    explicit TinyServer(Setup setup);

  private:
    TinyFile file_;
};

// `nib serve` as a process of its own.
class Program {
  public:
    explicit Program(std::vector<std::string> args);
    ~Program();
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    // Reads stderr up to a line that holds the text; false at its end.
    bool wait_for(const std::string& text);
    void signal(int number) const;
    int exit_code();
    int port();

  private:
    int pid_ = 0;
    int err_ = -1;
    std::string seen_;
};

// Memory of this process that no file backs.
long resident_kib();

}  // namespace nib::test
