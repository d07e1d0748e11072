// SPDX-License-Identifier: MIT
// The library accepts connections and hands them to threads; ours reads requests from them, asks
// the handler, and lets the library write the answer: it is shown a made-up request line for a
// finished answer, so that nothing of a client's bytes reaches its parser.
#include "src/server/http.h"

#include "src/server/connection.h"
#include "src/server/threads.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <mutex>
#include <new>
#include <thread>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

// select() cannot watch descriptors above 1023; the default backlog is 5.
#define CPPHTTPLIB_USE_POLL
#define CPPHTTPLIB_LISTEN_BACKLOG 512
#include <httplib.h>

namespace nib {
namespace {

using Clock = std::chrono::steady_clock;
using ConnectionPtr = std::shared_ptr<Connection>;

// Descriptors that are not connections: the model, the log, the listeners.
constexpr rlim_t kOtherDescriptors = 64;
constexpr auto kReopenPause = std::chrono::milliseconds(100);

// The answer that the library is to write on this thread.
thread_local HttpResponse* pending_answer = nullptr;
thread_local bool pending_http10 = false;

constexpr const char* kUnixPeer = "unix";

std::string peer_address(int fd) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    char host[NI_MAXHOST] = "";
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
        if (address.ss_family == AF_UNIX) return kUnixPeer;
        getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, nullptr, 0,
                    NI_NUMERICHOST);
    }
    return host;
}

bool is_local(const std::string& address) {
    return address.rfind("127.", 0) == 0 || address == "::1" || address == kUnixPeer ||
           address.rfind("::ffff:127.", 0) == 0;
}

// Removes what a server that ended by force left at the path of its socket.
void remove_stale_socket(const std::string& path) {
    struct stat about {};
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path || lstat(path.c_str(), &about) != 0 ||
        !S_ISSOCK(about.st_mode)) {
        return;
    }
    path.copy(address.sun_path, path.size());
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    const int connected = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
    if (connected != 0 && errno == ECONNREFUSED) unlink(path.c_str());
    close(fd);
}

// What the library sees of a connection: the line that we made up, and a place to write to.
class Replay final : public httplib::Stream {
  public:
    Replay(Connection& connection, std::string line)
        : connection_(connection), line_(std::move(line)) {}

    bool is_readable() const override { return at_ < line_.size(); }
    bool is_writable() const override { return !connection_.is_gone(); }
    ssize_t read(char* bytes, size_t size) override {
        size = std::min(size, line_.size() - at_);
        std::memcpy(bytes, line_.data() + at_, size);
        at_ += size;
        return static_cast<ssize_t>(size);
    }
    ssize_t write(const char* bytes, size_t size) override {
        return connection_.write({bytes, size}) ? static_cast<ssize_t>(size) : -1;
    }
    void get_remote_ip_and_port(std::string&, int&) const override {}
    void get_local_ip_and_port(std::string&, int&) const override {}
    socket_t socket() const override { return connection_.fd(); }

  private:
    Connection& connection_;
    std::string line_;
    size_t at_ = 0;
};

// Copies our answer into the library's.
void hand_over(HttpResponse& answer, bool http10, httplib::Response& out) {
    out.status = answer.status;
    for (const auto& [name, value] : answer.headers)
        out.set_header(name, value);
    if (!answer.source) {
        out.set_content(std::move(answer.body), answer.content_type);
        return;
    }
    const auto pull = [source = answer.source](size_t, httplib::DataSink& sink) {
        std::string bytes;
        const bool more = source->next(bytes);
        if (!bytes.empty() && !sink.write(bytes.data(), bytes.size())) return false;
        if (!more) sink.done();
        return true;
    };
    answer.source.reset();
    if (http10) {
        out.set_content_provider(answer.content_type, pull);
    } else {
        out.set_chunked_content_provider(answer.content_type, pull);
    }
}

void raise_descriptor_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int connection_cap(int wanted) {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
    const rlim_t reserved = kOtherDescriptors + kSpareConnections;
    if (limit.rlim_cur <= reserved + 1) return 1;
    return static_cast<int>(
        std::min<rlim_t>(static_cast<rlim_t>(wanted), limit.rlim_cur - reserved));
}

class Acceptor;

}  // namespace

struct HttpServer::Impl {
    HttpOptions options;
    HttpHandler& handler;
    ElasticThreads threads;
    int port = 0;
    std::atomic<bool> stopping{false};
    std::atomic<uint64_t> accepted{0}, evicted{0}, refused{0};
    std::atomic<uint64_t> bodies{0};  // bytes that connections hold
    std::mutex mutex;
    std::list<ConnectionPtr> open;
    std::list<std::unique_ptr<Acceptor>> acceptors;  // old ones too: connections refer to theirs
    std::vector<std::thread> listeners;
    std::vector<std::string> unix_paths;  // of sockets that are ours

    Impl(const HttpOptions& o, HttpHandler& h)
        : options(o), handler(h), threads(o.connections_max + kSpareConnections) {}

    Result<void> listen_on(const std::string& host);
    void keep_listening(const std::string& host, Acceptor* acceptor);
    // False: over the cap, and nobody could be put out.
    bool enter(const ConnectionPtr& connection);
    void leave(const ConnectionPtr& connection);
    void serve(Acceptor& acceptor, Connection& connection, bool spare);
    bool answer_one(Acceptor& acceptor, Connection& connection, bool spare, bool last);
};

namespace {

class Acceptor final : public httplib::Server {
  public:
    explicit Acceptor(HttpServer::Impl& server);
    // The port (0: any free one), or -1 with errno.
    int bind(const std::string& host, int port);
    // Writes the answer; false if the client did not take it.
    bool write(Connection& connection, HttpResponse answer, const RequestHead& head, bool keep);
    // Unlike the library's stop(), also before it listens.
    void end();

  private:
    bool process_and_close_socket(socket_t socket) override;
    HttpServer::Impl& server_;
};

// The library's view of our threads. They outlive the acceptor, so shutdown() has nothing to do.
class Queue final : public httplib::TaskQueue {
  public:
    explicit Queue(ElasticThreads& threads) : threads_(threads) {}
    bool enqueue(std::function<void()> job) override { return threads_.run(std::move(job)); }
    void shutdown() override {}

  private:
    ElasticThreads& threads_;
};

Acceptor::Acceptor(HttpServer::Impl& server) : server_(server) {
    new_task_queue = [this] { return new Queue(server_.threads); };
    set_tcp_nodelay(true);
    set_keep_alive_timeout(std::max(1, server_.options.keep_alive_idle_ms / 1000));
    set_keep_alive_max_count(static_cast<size_t>(server_.options.keep_alive_requests));
    // Not SO_REUSEPORT, which the library sets by itself: a second server on a port must fail.
    set_socket_options([](socket_t socket) {
        const int on = 1;
        setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    set_pre_routing_handler([](const httplib::Request&, httplib::Response& out) {
        hand_over(*pending_answer, pending_http10, out);
        return HandlerResponse::Handled;
    });
}

int Acceptor::bind(const std::string& host, int port) {
    errno = 0;
    if (is_unix_path(host)) {
        remove_stale_socket(host);
        errno = 0;
        set_address_family(AF_UNIX);
        return bind_to_port(host, 1) ? port : -1;
    }
    if (port == 0) return bind_to_any_port(host);
    return bind_to_port(host, port) ? port : -1;
}

bool Acceptor::write(Connection& connection,
                     HttpResponse answer,
                     const RequestHead& head,
                     bool keep) {
    const std::string line = head.method == "HEAD" ? "HEAD" : "GET";
    Replay replay(connection, line + " / HTTP/1.1\r\n\r\n");
    pending_answer = &answer;
    pending_http10 = head.http10;
    bool closed = false;
    const bool written = process_request(replay, "", 0, "", 0, !keep, closed, nullptr);
    pending_answer = nullptr;
    return written;
}

void Acceptor::end() {
    const socket_t socket = svr_sock_.exchange(INVALID_SOCKET);
    if (socket == INVALID_SOCKET) return;
    shutdown(socket, SHUT_RDWR);
    close(socket);
}

bool Acceptor::process_and_close_socket(socket_t socket) {
    try {
        const auto connection = std::make_shared<Connection>(socket, server_.options,
                                                             peer_address(socket), server_.bodies);
        server_.accepted++;
        const bool inside = server_.enter(connection);
        try {
            server_.serve(*this, *connection, !inside);
        } catch (...) {
            // Out of memory or the like: this connection ends, the others go on.
            server_.refused++;
        }
        server_.leave(connection);
    } catch (const std::exception&) {
        server_.refused++;
    }
    return true;
}

}  // namespace

bool HttpServer::Impl::enter(const ConnectionPtr& connection) {
    const std::lock_guard lock(mutex);
    open.push_back(connection);
    if (stopping) connection->cut();
    if (!is_local(connection->peer())) {
        const auto same = std::count_if(open.begin(), open.end(), [&](const ConnectionPtr& c) {
            return c->peer() == connection->peer();
        });
        if (same > kConnectionsPerPeer) return false;
    }
    if (open.size() <= static_cast<size_t>(options.connections_max)) return true;
    const auto longest = std::min_element(open.begin(), std::prev(open.end()),
                                          [](const ConnectionPtr& a, const ConnectionPtr& b) {
                                              return a->waiting_since() < b->waiting_since();
                                          });
    if ((*longest)->waiting_since() == Clock::time_point::max()) return false;
    (*longest)->set_waiting(false);  // nobody puts it out twice
    (*longest)->cut();
    evicted++;
    return true;
}

void HttpServer::Impl::leave(const ConnectionPtr& connection) {
    const std::lock_guard lock(mutex);
    open.remove(connection);
}

void HttpServer::Impl::serve(Acceptor& acceptor, Connection& connection, bool spare) {
    const int most = spare ? 1 : options.keep_alive_requests;
    for (int i = 1; i <= most && !stopping; i++) {
        if (!answer_one(acceptor, connection, spare, i == most)) break;
    }
    connection.set_waiting(true);
    connection.linger();
}

// True if the connection goes on.
bool HttpServer::Impl::answer_one(Acceptor& acceptor,
                                  Connection& connection,
                                  bool spare,
                                  bool last) {
    HttpRequest request;
    HeadProblem problem;
    const int idle_ms = spare ? kSpareHeadTimeoutMs : options.keep_alive_idle_ms;
    const int head_ms = spare ? kSpareHeadTimeoutMs : options.head_timeout_ms;
    const auto got = connection.read_head(idle_ms, head_ms, request.head, problem);
    if (got == Connection::Got::Closed) return false;
    const auto start = Clock::now();
    connection.set_waiting(false);
    request.peer = connection.peer();
    request.is_gone = [&connection] { return connection.is_gone(); };
    HttpResponse answer;
    bool keep = request.head.keep_alive && !last && !stopping;
    const auto refuse = [&](int status, const std::string& message) {
        answer = handler.problem(status, message);
        keep = false;
    };
    const auto proceed = [&] {
        if (got == Connection::Got::Problem) return refuse(problem.status, problem.message);
        if (auto early = handler.admit(request, spare)) {
            answer = std::move(*early);
            const bool has_body = request.head.chunked || request.head.content_length.value_or(0);
            keep = keep && !has_body;  // it stays unread
            return;
        }
        const auto read = connection.read_body(request.head, request.body, problem);
        if (read == Connection::Got::Problem) return refuse(problem.status, problem.message);
        if (read == Connection::Got::Closed) return refuse(400, "the body is shorter than it says");
        answer = handler.handle(request);
    };
    try {
        proceed();
    } catch (const std::bad_alloc&) {
        refuse(503, "out of memory");
    } catch (const std::exception&) {
        refuse(500, "internal error");
    }
    request.body = {};  // a long stream does not hold it
    connection.forget_body();
    if (answer.status == 503 && spare) refused++;
    if (answer.close || (answer.source && request.head.http10)) keep = false;
    const int status = answer.status;
    const bool written = acceptor.write(connection, std::move(answer), request.head, keep);
    const std::chrono::duration<double, std::milli> took = Clock::now() - start;
    handler.log(request, status, took.count());
    return written && keep;
}

Result<void> HttpServer::Impl::listen_on(const std::string& host) {
    auto acceptor = std::make_unique<Acceptor>(*this);
    const int bound = acceptor->bind(host, port);
    if (bound < 0) {
        const std::string reason = errno != 0 ? std::strerror(errno) : "no such address";
        const std::string place = is_unix_path(host) ? host : host + ":" + std::to_string(port);
        return Error{Status::Io, "cannot listen on " + place + ": " + reason};
    }
    port = bound;
    if (is_unix_path(host)) unix_paths.push_back(host);
    Acceptor* first = acceptor.get();
    const std::lock_guard lock(mutex);  // the listeners of other hosts may open theirs again now
    acceptors.push_back(std::move(acceptor));
    listeners.emplace_back([this, host, first] { keep_listening(host, first); });
    return {};
}

// The library gives a listening socket up on errors that pass, so it is opened again.
void HttpServer::Impl::keep_listening(const std::string& host, Acceptor* acceptor) {
    while (!stopping) {
        if (acceptor) acceptor->listen_after_bind();
        if (stopping) return;
        std::this_thread::sleep_for(kReopenPause);
        auto next = std::make_unique<Acceptor>(*this);
        acceptor = next->bind(host, port) >= 0 ? next.get() : nullptr;
        const std::lock_guard lock(mutex);
        if (acceptor) acceptors.push_back(std::move(next));
    }
}

bool is_unix_path(const std::string& host) {
    return host.find('/') != std::string::npos || host.ends_with(".sock");
}

HttpServer::HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::open(const HttpOptions& options,
                                                     HttpHandler& handler) {
    raise_descriptor_limit();
    HttpOptions checked = options;
    checked.connections_max = connection_cap(options.connections_max);
    std::unique_ptr<HttpServer> server(new HttpServer);
    server->impl_ = std::make_unique<Impl>(checked, handler);
    server->impl_->port = options.port;
    for (const std::string& host : options.hosts)
        NIB_TRY(server->impl_->listen_on(host));
    return server;
}

HttpServer::~HttpServer() {
    stop();
}

int HttpServer::port() const {
    return impl_->port;
}

HttpCounters HttpServer::counters() const {
    HttpCounters counters;
    counters.accepted = impl_->accepted;
    counters.evicted = impl_->evicted;
    counters.refused = impl_->refused;
    const std::lock_guard lock(impl_->mutex);
    counters.connections = static_cast<int>(impl_->open.size());
    return counters;
}

int HttpServer::busy() const {
    const std::lock_guard lock(impl_->mutex);
    return static_cast<int>(std::count_if(
        impl_->open.begin(), impl_->open.end(),
        [](const ConnectionPtr& c) { return c->waiting_since() == Clock::time_point::max(); }));
}

void HttpServer::close_idle() {
    const std::lock_guard lock(impl_->mutex);
    for (const ConnectionPtr& connection : impl_->open) {
        if (connection->waiting_since() != Clock::time_point::max()) connection->cut();
    }
}

void HttpServer::stop() {
    if (impl_->stopping.exchange(true)) return;
    {
        const std::lock_guard lock(impl_->mutex);
        for (const auto& acceptor : impl_->acceptors)
            acceptor->end();
        for (const ConnectionPtr& connection : impl_->open)
            connection->cut();
    }
    for (std::thread& listener : impl_->listeners)
        listener.join();
    for (const std::string& path : impl_->unix_paths)
        unlink(path.c_str());
    impl_->threads.join();
}

}  // namespace nib
