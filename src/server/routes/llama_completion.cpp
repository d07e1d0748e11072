// SPDX-License-Identifier: MIT
#include "src/server/generate.h"
#include "src/server/route.h"

namespace nib {
namespace {

HttpResponse handle(ServerState& server, HttpRequest& http) {
    return generate(server, http, Api::Llama);
}

}  // namespace

extern const RouteDef route_llama_completion = {
    .method = "POST",
    .paths = "/completion /completions",
    .makes_work = true,
    .handle = handle,
};

}  // namespace nib
