// SPDX-License-Identifier: MIT
#include "src/server/server.h"

#include "src/option_values.h"
#include "src/server/tls.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace nib {
namespace {

// Names that mean this machine on its own; they cannot be taken over by another site's DNS.
constexpr const char* kOwnNames[] = {"localhost", "127.0.0.1", "::1"};

bool is_local_host(const std::string& host) {
    return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0 || is_unix_path(host);
}

bool has_word(std::string_view words, std::string_view word) {
    while (!words.empty()) {
        const size_t end = std::min(words.find(' '), words.size());
        if (words.substr(0, end) == word) return true;
        words.remove_prefix(std::min(end + 1, words.size()));
    }
    return false;
}

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return out;
}

// The path without the prefix of all paths; nothing if it lacks it.
std::optional<std::string_view> route_path(const HttpRequest& request, const Options& options) {
    std::string_view path = request.head.path;
    if (options.api_prefix.empty()) return path;
    if (path.rfind(options.api_prefix, 0) != 0) return std::nullopt;
    path.remove_prefix(options.api_prefix.size());
    return path.empty() ? "/" : path;
}

bool method_fits(const RouteDef& route, std::string_view method) {
    return method == route.method || (method == "HEAD" && std::string_view("GET") == route.method);
}

// "/slots/*" has all paths with one more part.
bool fits(std::string_view paths, std::string_view path) {
    if (has_word(paths, path)) return true;
    const size_t slash = path.rfind('/');
    return slash > 0 && slash + 1 < path.size() &&
           has_word(paths, std::string(path.substr(0, slash + 1)) + "*");
}

// The route, or why there is none. allow: the methods that the path has.
const RouteDef* find_route(const HttpRequest& request, const Options& options, std::string& allow) {
    const auto path = route_path(request, options);
    if (!path) return nullptr;
    for (const RouteDef* route : all_routes()) {
        if (!fits(route->paths, *path)) continue;
        if (method_fits(*route, request.head.method)) return route;
        if (!allow.empty()) allow += ", ";
        allow += std::string_view(route->method) == "GET" ? "GET, HEAD" : route->method;
    }
    return nullptr;
}

ApiError plain_error(int status, std::string message, std::string code) {
    ApiError error;
    error.status = status;
    error.message = std::move(message);
    error.code = std::move(code);
    error.retry_after = 1;
    return error;
}

// The body must be JSON as it is: no other type, no coding.
std::optional<ApiError> check_form(const HttpRequest& request) {
    const std::string coding = lower(request.header("content-encoding"));
    if (!coding.empty() && coding != "identity") {
        return plain_error(415, "Content-Encoding: expected none", "unsupported_encoding");
    }
    std::string type = lower(request.header("content-type"));
    type = type.substr(0, type.find(';'));
    while (!type.empty() && type.back() == ' ')
        type.pop_back();
    if (type.empty() || type == "application/json" || type.ends_with("+json")) return std::nullopt;
    return plain_error(415, "Content-Type: expected application/json", "unsupported_type");
}

// A request id from a client is sent back only if it is plain.
bool is_plain_id(std::string_view id) {
    return !id.empty() && id.size() <= kRequestIdMax &&
           id.find_first_not_of(
               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
               "0123456789._-") == std::string_view::npos;
}

Result<void> check_exposure(const Options& options, const ApiKeys& keys) {
    for (const std::string& host : options.hosts) {
        if (is_local_host(host) || !keys.empty() || options.allow_public) continue;
        return Error{Status::BadRequest,
                     "--host " + host +
                         " can be reached from other machines: expected --api-key, "
                         "--api-key-file or --allow-public with it"};
    }
    return {};
}

// Null without the flags.
Result<std::shared_ptr<const TransportMaker>> tls_of(const Options& options) {
    const bool cert = !options.ssl_cert_file.empty(), key = !options.ssl_key_file.empty();
    if (!cert && !key) return std::shared_ptr<const TransportMaker>();
    if (cert && key) return open_tls(options.ssl_cert_file, options.ssl_key_file);
    return Error{Status::BadRequest, cert ? "--ssl-cert-file: expected --ssl-key-file with it"
                                          : "--ssl-key-file: expected --ssl-cert-file with it"};
}

}  // namespace

HttpOptions http_options(const Options& options) {
    HttpOptions http;
    http.hosts = options.hosts;
    http.port = options.port;
    http.body_max = static_cast<uint64_t>(options.max_body_mib) << 20;
    http.connections_max = options.max_connections;
    http.body_grace_ms = options.timeout * 1000;
    http.write_stall_ms = options.timeout * 1000;
    return http;
}

Server::Server(const Options& options, ApiKeys keys, std::function<void(const std::string&)> log)
    : state_(options, std::move(keys)), log_(std::move(log)) {
    policy_.hosts.assign(std::begin(kOwnNames), std::end(kOwnNames));
    for (const std::string& host : options.hosts) {
        if (!is_unix_path(host)) policy_.hosts.push_back(lower(host));
        policy_.any_address = policy_.any_address || !is_local_host(host);
    }
    for (const std::string& host : options.allowed_hosts)
        policy_.hosts.push_back(lower(host));
    for (const std::string& origin : options.cors_origins)
        policy_.origins.push_back(lower(origin));
}

Result<std::unique_ptr<Server>> Server::open(const Options& options,
                                             std::function<void(const std::string&)> log) {
    return open(options, http_options(options), std::move(log));
}

Result<std::unique_ptr<Server>> Server::open(const Options& options,
                                             const HttpOptions& http,
                                             std::function<void(const std::string&)> log) {
    NIB_ASSIGN(ApiKeys keys, ApiKeys::read(options.api_keys, options.api_key_file));
    NIB_TRY(check_exposure(options, keys));
    HttpOptions with_tls = http;
    NIB_ASSIGN(with_tls.tls, tls_of(options));
    std::unique_ptr<Server> server(new Server(options, std::move(keys), std::move(log)));
    NIB_ASSIGN(server->http_, HttpServer::open(with_tls, *server));
    return server;
}

Server::~Server() {
    if (!http_) return;
    end_streams();
    http_->stop();
}

std::string Server::address() const {
    const std::string scheme = state_.options().ssl_cert_file.empty() ? "http://" : "https://";
    std::string text;
    for (const std::string& host : state_.options().hosts) {
        const bool v6 = host.find(':') != std::string::npos;
        if (!text.empty()) text += ", ";
        text += is_unix_path(host)
                    ? "unix:" + host
                    : scheme + (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port());
    }
    return text;
}

void Server::begin_drain() {
    state_.set_phase(ServerPhase::Draining);
    http_->close_idle();
}

std::optional<ApiError> Server::check_access(const HttpRequest& request,
                                             const RouteDef* route) const {
    if (state_.keys().empty() || (route && route->open)) return std::nullopt;
    const GivenKey given = given_key(request.head);
    if (state_.keys().accepts(given.key)) return std::nullopt;
    return plain_error(401,
                       given.given ? "the API key is not valid"
                                   : "an API key is needed: Authorization: Bearer KEY",
                       "invalid_api_key");
}

HttpResponse Server::refuse(const ApiError& error) {
    auto& counters = state_.counters;
    if (error.status == 401) counters.unauthorized++;
    if (error.status == 403) counters.forbidden++;
    if (error.status == 429) counters.busy++;
    if (error.status == 503) counters.unavailable++;
    return error_response(error);
}

HttpResponse Server::preflight(const HttpRequest& request) const {
    HttpResponse response;
    response.status = 204;
    response.content_type = "text/plain";
    response.set_header("Allow", "GET, HEAD, POST, OPTIONS");
    if (is_cross_origin(request.head)) {
        response.set_header("Access-Control-Allow-Methods", "GET, HEAD, POST");
        response.set_header("Access-Control-Allow-Headers",
                            "Authorization, Content-Type, X-Api-Key");
        response.set_header("Access-Control-Max-Age", "600");
    }
    return response;
}

std::optional<HttpResponse> Server::admit(const HttpRequest& request, bool spare) {
    const auto refused = [&](const ApiError& error) -> std::optional<HttpResponse> {
        HttpResponse response = refuse(error);
        finish(request, response);
        return response;
    };
    const HeadProblem stranger = check_peer(request.head, policy_);
    if (stranger.status != 0) {
        const auto error = plain_error(stranger.status, stranger.message, "not_allowed");
        return refuse(error);  // nothing about us for a stranger's page
    }
    if (request.head.method == "OPTIONS") {
        HttpResponse response = preflight(request);
        finish(request, response);
        return response;
    }
    std::string allow;
    const RouteDef* route = find_route(request, state_.options(), allow);
    if (spare && !(route && route->quick)) {
        return refused(plain_error(503, "too many connections", "too_many_connections"));
    }
    if (const auto denied = check_access(request, route)) return refused(*denied);
    if (!route && allow.empty()) {
        return refused(plain_error(404, "no such path: " + shown(request.head.path), "not_found"));
    }
    if (!route) {
        HttpResponse response =
            refuse(plain_error(405, "method: expected " + allow + ", got " + request.head.method,
                               "method_not_allowed"));
        response.set_header("Allow", allow);
        finish(request, response);
        return response;
    }
    const ServerPhase phase = state_.phase();
    if (route->needs_engine && !state_.engine()) {
        return refused(plain_error(503, "Loading model", "loading"));
    }
    if (route->makes_work && phase != ServerPhase::Ready) {
        return refused(plain_error(503, "the server is shutting down", "draining"));
    }
    if (request.head.method == "POST") {
        if (const auto wrong = check_form(request)) return refused(*wrong);
    }
    return std::nullopt;
}

HttpResponse Server::handle(HttpRequest& request) {
    const auto start = std::chrono::steady_clock::now();
    std::string allow;
    const RouteDef* route = find_route(request, state_.options(), allow);
    NIB_ASSERT(route);  // admit() found it
    HttpResponse response = route->handle(state_, request);
    if (response.status == 429) state_.counters.busy++;
    if (response.status == 503) state_.counters.unavailable++;
    if (response.status == 400) state_.counters.malformed++;
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    response.set_header("openai-processing-ms", std::to_string(static_cast<int64_t>(took.count())));
    finish(request, response);
    return response;
}

// Headers that every answer has.
void Server::finish(const HttpRequest& request, HttpResponse& response) {
    const std::string_view id = request.header("x-request-id");
    if (is_plain_id(id)) {
        response.set_header("x-request-id", std::string(id));
    } else {
        char made[32];
        std::snprintf(made, sizeof made, "req-%016llx",
                      static_cast<unsigned long long>(state_.next_id()));
        response.set_header("x-request-id", made);
    }
    if (is_cross_origin(request.head)) {
        response.set_header("Access-Control-Allow-Origin", std::string(request.header("origin")));
        response.set_header("Vary", "Origin");
    }
    response.set_header("X-Content-Type-Options", "nosniff");
    const ServerPhase phase = state_.phase();
    if (phase == ServerPhase::Draining || phase == ServerPhase::Ending) response.close = true;
}

HttpResponse Server::problem(int status, const std::string& message) {
    if (status == 400) state_.counters.malformed++;
    return refuse(plain_error(status, message, status >= 500 ? "server_error" : "bad_http"));
}

void Server::log(const HttpRequest& request, int status, double ms) {
    if (!log_ || !state_.options().verbose) return;
    char line[256];
    std::snprintf(line, sizeof line, "%s %s %d %.1f ms", shown(request.head.method).c_str(),
                  shown(request.head.path).c_str(), status, ms);
    log_(line);
}

}  // namespace nib
