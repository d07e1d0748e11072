// SPDX-License-Identifier: MIT
// HTTP/1.1 over sockets, and the one door to cpp-httplib. The library binds, accepts and writes
// answers; reading is ours: one Connection per client with its own buffer, a deadline per phase and
// a strict check of head and body before anything is believed (head_check.h, connection.h).
//
// A request meets the handler twice: admit() sees the head before the body is read and may refuse;
// handle() gets the whole. Always true: after a refusal or a framing error the connection ends;
// over the cap of connections idle ones go first, then newcomers get 503, and a few spare threads
// still answer what admit() lets pass for them. Threads: one per connection.
#pragma once
#include "ggml-like/result.h"
#include "src/server/head_check.h"
#include "src/server/limits.h"
#include "src/server/transport.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nib {

struct HttpRequest {
    RequestHead head;
    std::string body;
    std::string peer;               // address of the client
    std::function<bool()> is_gone;  // the client closed its side; valid until handle() returns

    std::string_view header(std::string_view name) const { return head.header(name); }
};

// An answer that comes piece by piece. next() waits a while for news and appends it to `out`, maybe
// nothing; false: that was all. The object is destroyed when the client is gone or has it all.
class BodySource {
  public:
    virtual ~BodySource() = default;
    virtual bool next(std::string& out) = 0;
};

struct HttpResponse {
    int status = 200;
    std::vector<std::pair<std::string, std::string>> headers;
    std::string content_type = "application/json; charset=utf-8";
    std::string body;
    std::shared_ptr<BodySource> source;  // instead of body
    bool close = false;                  // the connection ends after this answer

    void set_header(std::string name, std::string value) {
        headers.emplace_back(std::move(name), std::move(value));
    }
};

// What the server asks. Called by many threads.
class HttpHandler {
  public:
    virtual ~HttpHandler() = default;
    // An answer, if the request is refused or needs no body. spare: the server is full; only what
    // is quick may pass.
    virtual std::optional<HttpResponse> admit(const HttpRequest& request, bool spare) = 0;
    virtual HttpResponse handle(HttpRequest& request) = 0;
    // The body of an answer that the server gives by itself.
    virtual HttpResponse problem(int status, const std::string& message) = 0;
    // After the answer was written.
    virtual void log(const HttpRequest& request, int status, double ms) = 0;
};

struct HttpOptions {
    std::vector<std::string> hosts = {"127.0.0.1"};  // names, addresses, paths of Unix sockets
    int port = 0;                                    // 0: any free one
    std::shared_ptr<const TransportMaker> tls;       // null: bytes as they are
    uint64_t body_max = kBodyMaxDefault;
    uint64_t bodies_max = kBodiesMax;
    int connections_max = kConnectionsDefault;
    int head_timeout_ms = kHeadTimeoutMs;
    int body_grace_ms = kBodyGraceMs;
    int keep_alive_idle_ms = kKeepAliveIdleMs;
    int keep_alive_requests = kKeepAliveRequestsMax;
    int write_stall_ms = kWriteStallMs;
};

struct HttpCounters {
    int connections = 0;
    uint64_t accepted = 0, evicted = 0, refused = 0;
};

// A host that is the path of a Unix socket: it has a slash or ends with ".sock".
bool is_unix_path(const std::string& host);

class HttpServer {
  public:
    // Binds and listens; Io if an address is taken or unknown. A Unix socket that no server listens
    // on any more is replaced.
    static Result<std::unique_ptr<HttpServer>> open(const HttpOptions& options,
                                                    HttpHandler& handler);
    ~HttpServer();  // stop()
    int port() const;
    HttpCounters counters() const;
    // Connections whose request is being answered.
    int busy() const;
    // Ends connections that wait for a request; those at work go on.
    void close_idle();
    // Cuts every connection and waits for its thread.
    void stop();

    struct Impl;  // known to http.cpp only

  private:
    HttpServer();
    std::unique_ptr<Impl> impl_;
};

}  // namespace nib
