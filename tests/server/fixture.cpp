// SPDX-License-Identifier: MIT
#include "tests/server/fixture.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <fstream>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nib::test {
namespace {

constexpr int kWaitMs = 60'000;

std::string lower_case(std::string text) {
    for (char& c : text)
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

TinyOptions model_with(const char* chat_template) {
    TinyOptions options{.type = "q8_0"};
    options.chat_template = chat_template;
    return options;
}

}  // namespace

std::string HttpAnswer::header(std::string_view name) const {
    for (const auto& [field, value] : headers) {
        if (field == name) return value;
    }
    return {};
}

bool HttpAnswer::has(std::string_view name) const {
    return std::any_of(headers.begin(), headers.end(),
                       [&](const auto& h) { return h.first == name; });
}

Json HttpAnswer::json() const {
    auto value = parse_json(body);
    EXPECT_TRUE(value.ok()) << "status " << status << ", not JSON: " << body.substr(0, 300);
    return value.ok() ? *value : Json::object();
}

std::vector<std::string> HttpAnswer::events() const {
    std::vector<std::string> events;
    size_t at = 0;
    while (at < body.size()) {
        const size_t end = body.find("\n\n", at);
        if (end == std::string::npos) {
            ADD_FAILURE() << "a stream ends inside an event: " << body.substr(at);
            break;
        }
        const std::string line = body.substr(at, end - at);
        at = end + 2;
        if (line == ":") continue;
        EXPECT_EQ(line.rfind("data: ", 0), 0u) << line;
        events.push_back(line.substr(std::min<size_t>(6, line.size())));
    }
    return events;
}

Streamed read_stream(const HttpAnswer& answer, std::string_view kind) {
    Streamed all;
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_TRUE(answer.whole);
    EXPECT_EQ(answer.header("content-type"), "text/event-stream");
    const auto events = answer.events();
    if (events.empty()) {
        ADD_FAILURE() << "no events";
        return all;
    }
    if (kind != "llama") {
        EXPECT_EQ(events.back(), "[DONE]");
    }
    for (const std::string& text : events) {
        if (text == "[DONE]") continue;
        auto event = parse_json(text);
        EXPECT_TRUE(event.ok()) << text;
        if (!event.ok()) continue;
        all.events++;
        all.last = *event;
        if (kind == "llama") {
            all.texts[0] += event->value("content", "");
            if (!event->value("stop", false)) continue;
            all.finishes[0] = event->value("stop_type", "");
            all.ends++;
            continue;
        }
        if (event->contains("usage") && !(*event)["usage"].is_null()) all.usage = (*event)["usage"];
        for (const Json& choice : (*event)["choices"]) {
            const int index = choice["index"];
            const Json& text_of = kind == "chat" ? choice["delta"] : choice;
            const char* field = kind == "chat" ? "content" : "text";
            if (text_of.contains(field) && text_of[field].is_string())
                all.texts[index] += text_of[field].get<std::string>();
            if (!choice["finish_reason"].is_string()) continue;
            all.finishes[index] = choice["finish_reason"];
            all.ends++;
        }
    }
    return all;
}

RawClient::RawClient(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}

RawClient::~RawClient() {
    close();
}

void RawClient::close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

void RawClient::finish_sending() {
    shutdown(fd_, SHUT_WR);
}

bool RawClient::send(std::string_view bytes) {
    while (!bytes.empty()) {
        pollfd entry{fd_, POLLOUT, 0};
        if (poll(&entry, 1, kWaitMs) <= 0) return false;
        const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n <= 0) return false;
        bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
}

bool RawClient::fill() {
    pollfd entry{fd_, POLLIN, 0};
    if (poll(&entry, 1, kWaitMs) <= 0) return false;
    char bytes[16384];
    const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
    if (n <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(n));
    return true;
}

std::string RawClient::read_bytes(size_t n) {
    while (buffer_.size() < n && fill()) {
    }
    return std::exchange(buffer_, {});
}

bool RawClient::is_closed() {
    pollfd entry{fd_, POLLIN, 0};
    while (poll(&entry, 1, kWaitMs) > 0) {
        char bytes[4096];
        if (recv(fd_, bytes, sizeof bytes, 0) <= 0) return true;
    }
    return false;
}

HttpAnswer RawClient::read() {
    HttpAnswer answer;
    size_t end;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
        if (!fill()) return answer;
    }
    const std::string head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    if (head.rfind("HTTP/1.1 ", 0) != 0) return answer;
    answer.status = std::stoi(head.substr(9, 3));
    for (size_t at = head.find("\r\n") + 2; at < head.size();) {
        const size_t stop = head.find("\r\n", at), colon = head.find(": ", at);
        answer.headers.emplace_back(lower_case(head.substr(at, colon - at)),
                                    head.substr(colon + 2, stop - colon - 2));
        at = stop + 2;
    }
    if (answer.status == 100) return read();
    if (answer.header("transfer-encoding") == "chunked") {
        for (;;) {
            size_t line;
            while ((line = buffer_.find("\r\n")) == std::string::npos) {
                if (!fill()) return answer;
            }
            size_t size = 0;
            std::from_chars(buffer_.data(), buffer_.data() + line, size, 16);
            while (buffer_.size() < line + 2 + size + 2) {
                if (!fill()) return answer;
            }
            answer.body += buffer_.substr(line + 2, size);
            buffer_.erase(0, line + 2 + size + 2);
            if (size == 0) break;
        }
        answer.whole = true;
        return answer;
    }
    const std::string length = answer.header("content-length");
    const size_t size = length.empty() ? 0 : std::stoul(length);
    while (buffer_.size() < size && fill()) {
    }
    answer.whole = buffer_.size() >= size;
    answer.body = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return answer;
}

std::string get_text(std::string_view path, std::string_view more_headers) {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" +
           std::string(more_headers) + "\r\n";
}

std::string post_text(std::string_view path, std::string_view body, std::string_view more_headers) {
    return "POST " + std::string(path) +
           " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n" + std::string(more_headers) + "\r\n" +
           std::string(body);
}

TestServer::TestServer(Options options, const HttpOptions& http, const EngineOptions& engine) {
    options.model = engine.model_path;
    open(std::move(options), http, engine, true);
}

void TestServer::open(Options options, HttpOptions http, const EngineOptions& engine, bool load) {
    options.parallel = engine.parallel;
    http.hosts = options.hosts;
    auto opened = Server::open(options, http);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    server_ = std::move(*opened);
    if (!load) return;
    auto made = Engine::create(engine);
    ASSERT_TRUE(made.ok()) << made.error().message;
    const auto loaded = server_->set_engine(std::move(*made));
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
}

TinyServer::TinyServer(Setup setup) : file_(setup.arch, model_with(setup.chat_template)) {
    setup.options.model = setup.engine.model_path = file_.path();
    open(std::move(setup.options), std::move(setup.http), setup.engine, setup.load);
}

HttpAnswer TestServer::send_to(int port, std::string_view bytes) {
    RawClient client(port);
    client.send(bytes);
    return client.read();
}

bool TestServer::wait_for(const std::function<bool(const EngineStats&)>& wanted) {
    for (int i = 0; i < 10'000; i++) {
        if (wanted(engine().stats())) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
}

bool TestServer::comes_to_rest() {
    return wait_for(
        [](const EngineStats& s) { return s.running + s.waiting == 0 && s.blocks_used == 0; });
}

Program::Program(std::vector<std::string> args) {
    args.insert(args.begin(), {nib_path(), "serve"});
    int out[2];
    EXPECT_EQ(pipe(out), 0);
    pid_ = fork();
    if (pid_ == 0) {
        dup2(out[1], 2);
        ::close(out[0]);
        std::vector<char*> argv;
        for (auto& a : args)
            argv.push_back(a.data());
        argv.push_back(nullptr);
        execv(argv[0], argv.data());
        _exit(127);
    }
    ::close(out[1]);
    err_ = out[0];
}

Program::~Program() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    ::close(err_);
}

bool Program::wait_for(const std::string& text) {
    char c;
    while (seen_.find(text) == std::string::npos && read(err_, &c, 1) == 1)
        seen_ += c;
    return seen_.find(text) != std::string::npos;
}

void Program::signal(int number) const {
    kill(pid_, number);
}

int Program::exit_code() {
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int Program::port() {
    EXPECT_TRUE(wait_for("ready"));
    const size_t at = seen_.find("127.0.0.1:");
    return at == std::string::npos ? 0 : std::stoi(seen_.substr(at + 10));
}

long resident_kib() {
    std::ifstream in("/proc/self/status");
    for (std::string line; std::getline(in, line);) {
        if (line.rfind("RssAnon:", 0) == 0) return std::stol(line.substr(8));
    }
    return 0;
}

}  // namespace nib::test
