// SPDX-License-Identifier: MIT
#include "src/server/connection.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace nib {
namespace {

using std::chrono::milliseconds;

constexpr size_t kReadBytes = 16 << 10;
constexpr size_t kLingerBytes = 1 << 20;
constexpr int kLingerMs = 500;
constexpr size_t kTrailersMax = 4 << 10;

}  // namespace

Connection::Connection(int fd,
                       const HttpOptions& options,
                       std::string peer,
                       std::atomic<uint64_t>& bodies)
    : fd_(fd),
      options_(options),
      peer_(std::move(peer)),
      bodies_(bodies),
      transport_(options.tls ? options.tls->open(fd) : plain_transport(fd)),
      waiting_since_(Clock::now()) {}

Connection::~Connection() {
    forget_body();
    close(fd_);
}

void Connection::set_waiting(bool waiting) {
    waiting_since_ = waiting ? Clock::now() : Clock::time_point::max();
}

bool Connection::wait(short events, Clock::time_point deadline) const {
    while (!cut_) {
        const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
        if (left <= 0) return false;
        pollfd entry{fd_, events, 0};
        const int n = poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return false;
    }
    return false;
}

Connection::Filled Connection::fill(Clock::time_point deadline) {
    if (at_ > 0) {
        buffer_.erase(0, at_);
        at_ = 0;
    }
    short events = POLLIN;
    do {
        char bytes[kReadBytes];
        const ssize_t n = transport_->receive(bytes, sizeof bytes, events);
        if (n > 0) {
            buffer_.append(bytes, static_cast<size_t>(n));
            return Filled::Some;
        }
        if (n == 0) return Filled::End;
    } while (wait(events, deadline));
    return cut_ ? Filled::End : Filled::Late;
}

Connection::Got Connection::read_head(int idle_ms,
                                      int head_ms,
                                      RequestHead& head,
                                      HeadProblem& problem) {
    set_waiting(true);
    if (rest().empty()) {
        if (fill(Clock::now() + milliseconds(idle_ms)) != Filled::Some) return Got::Closed;
    }
    const auto deadline = Clock::now() + milliseconds(head_ms);
    HeadScan scan;
    while (true) {
        scan = scan_head(rest(), scan);
        problem = scan.problem;
        if (problem.status != 0) return Got::Problem;
        if (scan.end > 0) {
            problem = check_head(rest().substr(0, scan.end), head);
            at_ += scan.end;
            set_waiting(false);
            return problem.status == 0 ? Got::Request : Got::Problem;
        }
        const Filled filled = fill(deadline);
        if (filled == Filled::End) return Got::Closed;
        if (filled == Filled::Late) {
            problem = {408, "the head did not come in time"};
            return Got::Problem;
        }
    }
}

Connection::Got Connection::read_body(const RequestHead& head,
                                      std::string& body,
                                      HeadProblem& problem) {
    const uint64_t length = head.content_length.value_or(0);
    if (length > options_.body_max) {
        problem = {413, "the body is larger than " + std::to_string(options_.body_max) + " bytes"};
        return Got::Problem;
    }
    if (!head.chunked && length == 0) return Got::Request;
    body_start_ = Clock::now();
    if (head.expects_continue && rest().empty() && !write("HTTP/1.1 100 Continue\r\n\r\n")) {
        return Got::Closed;
    }
    return head.chunked ? read_chunks(body, problem) : read_sized(length, body, problem);
}

void Connection::forget_body() {
    bodies_ -= std::exchange(body_bytes_, 0);
}

Connection::Got Connection::need_more(HeadProblem& problem) {
    if (!rest().empty()) return Got::Request;
    const auto earned = body_bytes_ * 1000 / kBodyRateMin;
    const auto deadline = body_start_ + milliseconds(options_.body_grace_ms) +
                          milliseconds(static_cast<int64_t>(earned));
    const Filled filled = fill(deadline);
    if (filled == Filled::Some) return Got::Request;
    if (filled == Filled::End) return Got::Closed;
    problem = {408, "the body did not come in time"};
    return Got::Problem;
}

Connection::Got Connection::read_sized(uint64_t size, std::string& body, HeadProblem& problem) {
    const size_t end = body.size() + size;
    while (body.size() < end) {
        const Got got = need_more(problem);
        if (got != Got::Request) return got;
        const std::string_view piece = rest().substr(0, end - body.size());
        body_bytes_ += piece.size();
        if (bodies_.fetch_add(piece.size()) + piece.size() > options_.bodies_max) {
            problem = {503, "the server holds too many bytes of other requests"};
            return Got::Problem;
        }
        body.append(piece);
        at_ += piece.size();
    }
    return Got::Request;
}

Connection::Got Connection::take_line(std::string& line, HeadProblem& problem) {
    line.clear();
    while (true) {
        const Got got = need_more(problem);
        if (got != Got::Request) return got;
        const char c = buffer_[at_++];
        line += c;
        const size_t n = line.size();
        if (c == '\n') {
            if (n < 2 || line[n - 2] != '\r') break;
            line.resize(n - 2);
            return Got::Request;
        }
        if (n > kChunkLineMax || (n > 1 && line[n - 2] == '\r')) break;
    }
    problem = {400, "chunked body: expected a line that ends with CRLF"};
    return Got::Problem;
}

Connection::Got Connection::read_chunks(std::string& body, HeadProblem& problem) {
    std::string line;
    while (true) {
        Got got = take_line(line, problem);
        if (got != Got::Request) return got;
        const auto size = read_chunk_size(line);
        if (!size) {
            problem = {400, "chunked body: expected a size in hexadecimal digits"};
            return Got::Problem;
        }
        if (*size == 0) break;
        if (*size > options_.body_max || body.size() + *size > options_.body_max) {
            problem = {413,
                       "the body is larger than " + std::to_string(options_.body_max) + " bytes"};
            return Got::Problem;
        }
        got = read_sized(*size, body, problem);
        if (got == Got::Request) got = take_line(line, problem);
        if (got != Got::Request) return got;
        if (!line.empty()) {
            problem = {400, "chunked body: a chunk is longer than it says"};
            return Got::Problem;
        }
    }
    // Trailers are read and forgotten.
    size_t trailers = 0;
    do {
        const Got got = take_line(line, problem);
        if (got != Got::Request) return got;
        trailers += line.size();
        if (trailers > kTrailersMax) {
            problem = {431, "chunked body: too many trailers"};
            return Got::Problem;
        }
    } while (!line.empty());
    return Got::Request;
}

bool Connection::write(std::string_view bytes) {
    auto deadline = Clock::now() + milliseconds(options_.write_stall_ms);
    while (!bytes.empty()) {
        short events = POLLOUT;
        const ssize_t n = transport_->send(bytes.data(), bytes.size(), events);
        if (n > 0) {
            bytes.remove_prefix(static_cast<size_t>(n));
            deadline = Clock::now() + milliseconds(options_.write_stall_ms);
        } else if (n == 0 || !wait(events, deadline)) {
            return false;
        }
    }
    return true;
}

bool Connection::is_gone() const {
    if (cut_) return true;
    pollfd entry{fd_, POLLRDHUP, 0};
    return poll(&entry, 1, 0) > 0;
}

void Connection::linger() {
    transport_->finish();
    shutdown(fd_, SHUT_WR);
    const auto deadline = Clock::now() + milliseconds(kLingerMs);
    for (size_t seen = 0; seen < kLingerBytes; seen += buffer_.size()) {
        at_ = buffer_.size();
        if (fill(deadline) != Filled::Some) return;
    }
}

void Connection::cut() {
    cut_ = true;
    shutdown(fd_, SHUT_RDWR);
}

}  // namespace nib
