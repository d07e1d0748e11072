// SPDX-License-Identifier: MIT
// A route: one file in src/server/routes/ that ends with `extern const RouteDef route_<stem>`.
// CMake writes the list. What is the same for all routes (keys, hosts, content types, loading,
// draining) is done before the handler in server.cpp.
#pragma once
#include "src/server/http.h"

#include <span>

namespace nib {

class ServerState;

struct RouteDef {
    const char* method;  // GET or POST; GET also answers HEAD
    const char* paths;   // separated by blanks; "/a/*": all with one part behind /a/
    bool open = false;   // needs no key
    bool quick = false;  // answered at once from what is at hand, also when the server is full
    bool needs_engine = true;  // refused while the model loads
    bool makes_work = false;   // refused while the server drains
    HttpResponse (*handle)(ServerState& server, HttpRequest& request);
};

std::span<const RouteDef* const> all_routes();

}  // namespace nib
