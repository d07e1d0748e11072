// SPDX-License-Identifier: MIT
// nib serve: the HTTP server as a program. It listens at once, loads the model beside that, and
// waits for a signal. The first one drains: new work is refused, answers finish or are ended at
// --drain-timeout; the second ends at once. A signal during the load gives up loading.
#include "src/cli/model.h"
#include "src/cli/output.h"
#include "src/command.h"
#include "src/server/server.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace nib {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kLastMoment = milliseconds(800);  // after the second signal
constexpr auto kStreamEnds = milliseconds(2000);

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): a handler has no other way.
int signal_pipe[2] = {-1, -1};

void on_signal(int) {
    const int saved = errno;
    const char byte = 's';
    if (write(signal_pipe[1], &byte, 1) < 0) errno = saved;  // full: enough signals are in it
    errno = saved;
}

Result<void> catch_signals() {
    if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        return Error{Status::Io, "no pipe for signals"};
    }
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (const int number : {SIGINT, SIGTERM, SIGHUP})
        sigaction(number, &action, nullptr);
    return {};
}

// Whether a signal came, within the time; negative: for ever.
bool signal_within(int ms) {
    pollfd entry{signal_pipe[0], POLLIN, 0};
    if (poll(&entry, 1, ms) <= 0) return false;
    char byte;
    return read(signal_pipe[0], &byte, 1) == 1;
}

EngineOptions server_engine_options(const Options& options, std::atomic<bool>& give_up) {
    EngineOptions engine = engine_options(options);
    engine.parallel = options.parallel;
    engine.queue_limit =
        options.queue_limit > 0 ? options.queue_limit : std::max(64, 4 * options.parallel);
    engine.kv_bytes = static_cast<uint64_t>(options.cache_ram_mib) << 20;
    engine.cache_policy = options.kv_policy;
    engine.max_stall_ms = options.max_stall_ms;
    engine.state_folder = options.slot_save_path;
    engine.build = NIB_BUILD;
    engine.progress = [&give_up](double) { return !give_up.load(); };
    engine.log = [](LogLevel level, const std::string& message) {
        if (level == LogLevel::Warning) write_stderr("warning: " + message + "\n");
    };
    return engine;
}

// Loads on a thread of its own, so that signals and requests are served meanwhile.
class Loader {
  public:
    Loader(const Options& options, Server& server)
        : thread_([this, &options, &server] {
              auto engine = Engine::create(server_engine_options(options, give_up_));
              result_ = engine ? server.set_engine(std::move(engine).value()) : engine.error();
              done_ = true;
          }) {}
    ~Loader() {
        if (thread_.joinable()) thread_.join();
    }
    Loader(const Loader&) = delete;
    Loader& operator=(const Loader&) = delete;

    bool done() const { return done_; }
    void give_up() { give_up_ = true; }
    const Result<void>& result() const { return result_; }

  private:
    std::atomic<bool> give_up_{false}, done_{false};
    Result<void> result_;
    std::thread thread_;  // last: it uses the rest
};

void print_banner(const Options& options, Server& server) {
    const ModelInfo& model = server.state().engine()->model();
    const EngineStats stats = server.state().engine()->stats();
    char text[512];
    std::snprintf(
        text, sizeof text, "model: %s (%s), context %d, %d parallel, KV cache %.0f MiB, %s\n",
        server.state().model_id().c_str(), model.type_name.c_str(), model.n_ctx, options.parallel,
        static_cast<double>(stats.kv_bytes_total) / (1 << 20), model.backend.c_str());
    write_stderr(text);
    if (!server.state().chat_template()) {
        write_stderr("warning: " + server.state().template_problem() + "\n");
    }
    write_stderr("ready: " + server.address() + "\n");
}

// The program ends although a thread does not: nothing of it can be waited for any longer.
[[noreturn]] void end_now(int code) {
    _exit(code);
}

// Until nothing is being answered; false if the time is over or another signal came.
bool wait_idle(const Server& server, Clock::time_point until, bool& signalled) {
    while (!server.is_idle()) {
        if (Clock::now() >= until) return false;
        if (signal_within(20)) {
            signalled = true;
            return false;
        }
    }
    return true;
}

void drain(const Options& options, Server& server) {
    write_stderr("draining: answers have " + std::to_string(options.drain_timeout) + " s\n");
    server.begin_drain();
    bool again = false;
    wait_idle(server, Clock::now() + std::chrono::seconds(options.drain_timeout), again);
    server.end_streams();
    bool ignored = false;
    const bool quiet =
        wait_idle(server, Clock::now() + (again ? kLastMoment : kStreamEnds), ignored);
    if (!quiet && again) end_now(0);
    server.stop();
}

Result<int> serve(const Options& options) {
    if (options.print_limits) {
        NIB_TRY(write_stdout(limits_text()));
        return 0;
    }
    NIB_TRY(check_model_exists(options));
    NIB_TRY(catch_signals());
    NIB_ASSIGN(const auto server,
               Server::open(options, [](const std::string& line) { write_stderr(line + "\n"); }));
    write_stderr("listening on " + server->address() + ", loading the model\n");
    Loader loader(options, *server);
    while (!loader.done()) {
        if (!signal_within(50)) continue;
        loader.give_up();
        const auto until = Clock::now() + kLastMoment;
        while (!loader.done() && Clock::now() < until)
            std::this_thread::sleep_for(milliseconds(10));
        if (!loader.done()) end_now(0);
        server->stop();
        return 0;
    }
    if (!loader.result()) return loader.result().error();
    print_banner(options, *server);
    while (!signal_within(-1)) {
    }
    drain(options, *server);
    return 0;
}

int run(const Options& options) {
    const auto code = serve(options);
    return code ? code.value() : fail(code.error());
}

}  // namespace

extern const CommandDef command_serve = {
    .name = "serve",
    .aliases = "server",
    .summary = "answer requests over HTTP",
    .usage = "",
    .args_max = 0,
    .flags = kModelFlags | kEngineFlags | kSamplingFlags | kServerFlags,
    .run = run,
};

}  // namespace nib
