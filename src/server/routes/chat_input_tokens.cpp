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
    server.check_model(fields);
    ChatPrompt prompt;
    if (fields.ok()) prompt = read_chat(fields, server);
    if (!fields.ok()) return error_response(fields.error());
    return json_response(
        {{"object", "response.input_tokens"}, {"input_tokens", prompt.tokens.size()}});
}

}  // namespace

extern const RouteDef route_chat_input_tokens = {
    .method = "POST",
    .paths = "/v1/chat/completions/input_tokens",
    .handle = handle,
};

}  // namespace nib
