// SPDX-License-Identifier: MIT
// One client's socket, read strictly: a buffer that keeps pipelined bytes for the next request, a
// deadline for each phase (waiting, head, body, writing) that a dripping client cannot push back.
// It owns the descriptor; bytes pass through a Transport, which may encrypt. Knows no library.
// Threads: one, but for cut(), which any thread may call.
#pragma once
#include "src/server/http.h"
#include "src/server/transport.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace nib {

class Connection {
  public:
    using Clock = std::chrono::steady_clock;
    enum class Got { Request, Closed, Problem };

    // bodies: bytes of bodies that all connections hold together.
    Connection(int fd, const HttpOptions& options, std::string peer, std::atomic<uint64_t>& bodies);
    ~Connection();  // closes
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // Waits for the next request at most idle_ms, then for the whole of its head.
    Got read_head(int idle_ms, int head_ms, RequestHead& head, HeadProblem& problem);
    // The body that the head announced. Sends "100 Continue" if the client waits for it.
    Got read_body(const RequestHead& head, std::string& body, HeadProblem& problem);
    // The body is not needed any more.
    void forget_body();
    // All of it; false if the client is gone or took nothing for too long.
    bool write(std::string_view bytes);
    // The client closed its side, or the connection is cut.
    bool is_gone() const;
    // Nothing more is sent; what the client still sends is read for a moment, so that it sees the
    // answer instead of a reset.
    void linger();
    // Ends every wait of the thread that serves it.
    void cut();

    int fd() const { return fd_; }
    const std::string& peer() const { return peer_; }
    // Since when it waits for a request or its head; max() while one is being answered.
    Clock::time_point waiting_since() const { return waiting_since_.load(); }
    void set_waiting(bool waiting);

  private:
    bool wait(short events, Clock::time_point deadline) const;
    enum class Filled { Some, End, Late };
    Filled fill(Clock::time_point deadline);
    Got read_sized(uint64_t size, std::string& body, HeadProblem& problem);
    Got read_chunks(std::string& body, HeadProblem& problem);
    Got take_line(std::string& line, HeadProblem& problem);
    // The next bytes of a body: from the buffer, else from the client in time.
    Got need_more(HeadProblem& problem);
    std::string_view rest() const { return std::string_view(buffer_).substr(at_); }

    const int fd_;
    const HttpOptions& options_;
    const std::string peer_;
    std::atomic<uint64_t>& bodies_;
    std::unique_ptr<Transport> transport_;
    std::string buffer_;
    size_t at_ = 0;  // what is before it has been used
    Clock::time_point body_start_;
    uint64_t body_bytes_ = 0;  // counted in bodies_
    std::atomic<bool> cut_{false};
    std::atomic<Clock::time_point> waiting_since_;
};

}  // namespace nib
