// SPDX-License-Identifier: MIT
#include "src/server/generate.h"
#include "src/server/route.h"

namespace nib {
namespace {

HttpResponse handle(ServerState& server, HttpRequest& http) {
    return generate(server, http, Api::Chat);
}

}  // namespace

extern const RouteDef route_chat_completions = {
    .method = "POST",
    .paths = "/v1/chat/completions /chat/completions",
    .makes_work = true,
    .handle = handle,
};

}  // namespace nib
