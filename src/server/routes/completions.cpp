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
    read_generation(fields, server, http, Api::Completions, request);
    if (fields.ok()) {
        PromptList prompts = read_prompts(fields, server, "prompt", kGenerationsMax);
        request.prompts = std::move(prompts.tokens);
        request.prompt_texts = std::move(prompts.texts);
    }
    check_generation(fields, server, request);
    if (!fields.ok()) return error_response(fields.error());
    return answer(server, http, std::move(request), "cmpl-", make_completion_format());
}

}  // namespace

extern const RouteDef route_completions = {
    .method = "POST",
    .paths = "/v1/completions",
    .makes_work = true,
    .handle = handle,
};

}  // namespace nib
