// SPDX-License-Identifier: MIT
#include "src/server/answer.h"
#include "src/server/prompt_input.h"
#include "src/server/route.h"

namespace nib {
namespace {

HttpResponse handle(ServerState& server, HttpRequest& http) {
    ApiError error;
    const auto body = ServerState::parse_body(http, error);
    if (!body) return error_response(error);
    Fields fields(*body);
    GenerationRequest request;
    read_generation(fields, server, http, Api::Chat, request);
    if (fields.ok()) request.prompts.push_back(read_chat(fields, server).tokens);
    check_generation(fields, server, request);
    if (!fields.ok()) return error_response(fields.error());
    return answer(server, http, std::move(request), "chatcmpl-", make_chat_format());
}

}  // namespace

extern const RouteDef route_chat_completions = {
    .method = "POST",
    .paths = "/v1/chat/completions /chat/completions",
    .makes_work = true,
    .handle = handle,
};

}  // namespace nib
