// SPDX-License-Identifier: MIT
#include "src/server/prompt_input.h"
#include "src/server/route.h"

namespace nib {
namespace {

HttpResponse handle(ServerState& server, HttpRequest& http) {
    return answer_chat_prompt(server, http, [](const ChatPrompt& prompt) -> Json {
        return {{"object", "response.input_tokens"}, {"input_tokens", prompt.tokens.size()}};
    });
}

}  // namespace

extern const RouteDef route_chat_input_tokens = {
    .method = "POST",
    .paths = "/v1/chat/completions/input_tokens /chat/completions/input_tokens",
    .handle = handle,
};

}  // namespace nib
