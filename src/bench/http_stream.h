// SPDX-License-Identifier: MIT
// A client's side of one HTTP/1.1 connection that hands on the body of an answer as it comes; plain
// sockets, for the load generator. What a server sends is bounded: head, lines of chunks, waiting.
//
//   connect -> post -> read_head -> read_body until it says false -> post again, or connect again
//   if !reusable()
#pragma once
#include "ggml-like/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace nib::bench {

struct Url {
    std::string host, port;
    std::string prefix;     // of paths: empty, or "/..." without a final slash
    std::string authority;  // as it stands in the Host header
};
// http://HOST[:PORT][/PREFIX]; HOST may be an IPv6 address in brackets.
Result<Url> parse_url(std::string_view text);

class HttpStream {
  public:
    HttpStream() = default;
    HttpStream(HttpStream&& other) noexcept { *this = std::move(other); }
    HttpStream& operator=(HttpStream&& other) noexcept;
    ~HttpStream() { close(); }

    static Result<HttpStream> connect(const Url& url, int timeout_seconds);
    // bearer: the key, or empty.
    Result<void> post(const std::string& path, std::string_view body, const std::string& bearer);
    // The status of the answer.
    Result<int> read_head();
    // Appends what has come, waiting for something; false once the body is over.
    Result<bool> read_body(std::string& out);
    // Whether another request may be sent on this connection.
    bool reusable() const { return fd_ >= 0 && body_ == Body::None && !close_after_; }

  private:
    enum class Body { None, Length, Chunked, UntilClose };

    void close();
    Result<void> send_all(std::string_view bytes);
    Result<bool> receive();  // false: the server closed the connection
    Result<std::string> line();
    Result<void> read_header(std::string_view name, std::string_view value);
    Result<void> open_chunk();

    int fd_ = -1;
    Url url_;
    std::string buffer_;  // received and not handed on
    Body body_ = Body::None;
    uint64_t left_ = 0;  // bytes of the body or of the chunk
    bool first_chunk_ = true;
    bool close_after_ = false;
};

}  // namespace nib::bench
