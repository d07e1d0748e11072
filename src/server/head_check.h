// SPDX-License-Identifier: MIT
// The head of an HTTP/1 request, checked to the letter: lines end with CRLF, names are tokens,
// nothing is folded, one Host, one length that is digits only or exactly `chunked`, sizes within
// limits.h. What is not clear is refused, so that no two readers can disagree about where a request
// ends. Pure: bytes in, a head or a problem out. Also pure: who may speak to us (Host, Origin).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nib {

struct RequestHead {
    std::string method, path, query;  // as sent; not decoded
    bool http10 = false;
    bool keep_alive = true;
    bool chunked = false;
    bool expects_continue = false;
    std::optional<uint64_t> content_length;
    std::string host;                                          // with the port, as sent
    std::vector<std::pair<std::string, std::string>> headers;  // names in lower case

    // The first value of a field; empty if there is none.
    std::string_view header(std::string_view name) const;
};

// status 0: fine. Else the answer's status and one sentence; the connection ends after it.
struct HeadProblem {
    int status = 0;
    std::string message;
};

// Looks at the bytes that came so far. end: bytes of the head with its empty line, 0 while it is
// not complete. A problem that is visible early is told early. `before`, what the last look at
// fewer of these bytes gave: no byte is looked at twice.
struct HeadScan {
    size_t end = 0;
    HeadProblem problem;
    size_t seen = 0, line = 0;  // where it goes on; where the line begins that is not complete
};
HeadScan scan_head(std::string_view bytes, const HeadScan& before = {});

// bytes: a complete head as scan_head found it.
HeadProblem check_head(std::string_view bytes, RequestHead& head);

// A line that says how long the next chunk is, without its CRLF; nothing if it is not hexadecimal
// digits with an optional extension, or the number does not fit.
std::optional<uint64_t> read_chunk_size(std::string_view line);

struct PeerPolicy {
    std::vector<std::string> hosts;    // names that a Host may have, lower case; "*": any
    bool any_address = false;          // a Host that is an IP address passes
    std::vector<std::string> origins;  // of other sites that may read answers; "*": any
};

// 403 if the Host is not ours or the Origin is another site's that is not allowed. A page that this
// server gave out has the Origin of its Host and passes.
HeadProblem check_peer(const RequestHead& head, const PeerPolicy& policy);
// Whether the Origin of the head is another site's that may read the answer.
bool is_cross_origin(const RequestHead& head);

}  // namespace nib
