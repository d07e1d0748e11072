// SPDX-License-Identifier: MIT
#include "src/server/prompt_input.h"
#include "src/server/route.h"

namespace nib {
namespace {

HttpResponse handle(ServerState& server, HttpRequest& http) {
    return ServerState::answer_fields(http, [&](Fields& fields) {
        const ChatPrompt prompt = read_chat(fields, server);
        return json_response({{"prompt", prompt.text}});
    });
}

}  // namespace

extern const RouteDef route_apply_template = {
    .method = "POST",
    .paths = "/apply-template",
    .handle = handle,
};

}  // namespace nib
