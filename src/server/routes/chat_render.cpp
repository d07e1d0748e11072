// SPDX-License-Identifier: MIT
#include "src/server/prompt_input.h"
#include "src/server/route.h"

namespace nib {
namespace {

// What a chat request would be for the model, as text and as tokens.
HttpResponse handle(ServerState& server, HttpRequest& http) {
    return answer_chat_prompt(server, http, [](const ChatPrompt& prompt) -> Json {
        return {{"prompt", prompt.text}, {"token_ids", prompt.tokens}};
    });
}

}  // namespace

extern const RouteDef route_chat_render = {
    .method = "POST",
    .paths = "/v1/chat/completions/render",
    .handle = handle,
};

}  // namespace nib
