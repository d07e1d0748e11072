// SPDX-License-Identifier: MIT
// Server-sent events: lines of text in a stream. An event is `data: JSON` and an empty line; a line
// that begins with a colon is a comment that keeps the connection from looking dead.
#pragma once
#include "src/json/json.h"

#include <string>

namespace nib {

inline constexpr const char* kEventStream = "text/event-stream";

inline void append_event(std::string& out, const Json& value) {
    out += "data: " + dump_json(value) + "\n\n";  // JSON has no raw newline
}

inline void append_done(std::string& out) {
    out += "data: [DONE]\n\n";
}

inline void append_ping(std::string& out) {
    out += ":\n\n";
}

}  // namespace nib
