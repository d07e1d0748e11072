// SPDX-License-Identifier: MIT
#include "src/server/prompt_input.h"
#include "src/server/route.h"

namespace nib {
namespace {

// What a chat request would be for the model, as text and as tokens.
HttpResponse handle(ServerState& server, HttpRequest& http) {
    ApiError error;
    const auto body = ServerState::parse_body(http, error);
    if (!body) return error_response(error);
    Fields fields(*body);
    server.check_model(fields);
    ChatPrompt prompt;
    if (fields.ok()) prompt = read_chat(fields, server);
    if (!fields.ok()) return error_response(fields.error());
    return json_response({{"prompt", prompt.text}, {"token_ids", prompt.tokens}});
}

}  // namespace

extern const RouteDef route_chat_render = {
    .method = "POST",
    .paths = "/v1/chat/completions/render",
    .handle = handle,
};

}  // namespace nib
