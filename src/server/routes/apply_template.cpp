// SPDX-License-Identifier: MIT
#include "src/server/prompt_input.h"
#include "src/server/route.h"

namespace nib {
namespace {

HttpResponse handle(ServerState& server, HttpRequest& http) {
    ApiError error;
    const auto body = ServerState::parse_body(http, error);
    if (!body) return error_response(error);
    Fields fields(*body);
    const ChatPrompt prompt = read_chat(fields, server);
    if (!fields.ok()) return error_response(fields.error());
    return json_response({{"prompt", prompt.text}});
}

}  // namespace

extern const RouteDef route_apply_template = {
    .method = "POST",
    .paths = "/apply-template",
    .handle = handle,
};

}  // namespace nib
