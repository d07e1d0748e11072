// SPDX-License-Identifier: MIT
// The server: HTTP in front, routes behind it, and between them what is the same for every request:
// who may ask, which route, which form, and whether the server is ready. It answers from the moment
// it is opened; the engine is given to it when it is loaded.
#pragma once
#include "src/server/http.h"
#include "src/server/route.h"
#include "src/server/state.h"

#include <functional>
#include <memory>
#include <string>

namespace nib {

class Server final : public HttpHandler {
  public:
    // Checks the flags and listens. Errors: BadRequest for flags that do not go together, Io if an
    // address is taken. log: one line for each request if --verbose.
    static Result<std::unique_ptr<Server>> open(const Options& options,
                                                std::function<void(const std::string&)> log = {});
    // The same with other limits, for tests.
    static Result<std::unique_ptr<Server>> open(const Options& options,
                                                const HttpOptions& http,
                                                std::function<void(const std::string&)> log = {});
    ~Server() override;

    Result<void> set_engine(std::unique_ptr<Engine> engine) {
        return state_.set_engine(std::move(engine));
    }
    ServerState& state() { return state_; }
    int port() const { return http_->port(); }
    HttpCounters http_counters() const { return http_->counters(); }
    // "http://127.0.0.1:8080", one for each address; "unix:PATH" for a Unix socket.
    std::string address() const;

    // No new work. True when nothing is being answered any more.
    void begin_drain();
    bool is_idle() const { return http_->busy() == 0; }
    // What still runs gets its last event.
    void end_streams() { state_.set_phase(ServerPhase::Ending); }
    void stop() { http_->stop(); }

    std::optional<HttpResponse> admit(const HttpRequest& request, bool spare) override;
    HttpResponse handle(HttpRequest& request) override;
    HttpResponse problem(int status, const std::string& message) override;
    void log(const HttpRequest& request, int status, double ms) override;

  private:
    Server(const Options& options, ApiKeys keys, std::function<void(const std::string&)> log);
    std::optional<ApiError> check_access(const HttpRequest& request, const RouteDef* route) const;
    HttpResponse refuse(const ApiError& error);
    HttpResponse preflight(const HttpRequest& request) const;
    void finish(const HttpRequest& request, HttpResponse& response);

    ServerState state_;
    PeerPolicy policy_;
    std::function<void(const std::string&)> log_;
    std::unique_ptr<HttpServer> http_;  // last: its threads use the rest
};

// The limits of connections that the flags ask for.
HttpOptions http_options(const Options& options);

}  // namespace nib
