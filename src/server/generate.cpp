// SPDX-License-Identifier: MIT
#include "src/server/generate.h"

#include "src/server/answer.h"
#include "src/server/prompt_input.h"

namespace nib {
namespace {

void read_prompts_of(Fields& fields, const ServerState& server, Api api, GenerationRequest& out) {
    if (api == Api::Chat) {
        out.prompts.push_back(read_chat(fields, server).tokens);
        return;
    }
    PromptList prompts = read_prompts(fields, server, "prompt", kGenerationsMax);
    out.prompts = std::move(prompts.tokens);
    out.prompt_texts = std::move(prompts.texts);
}

std::unique_ptr<AnswerFormat> format_of(Api api) {
    switch (api) {
    case Api::Chat:
        return make_chat_format();
    case Api::Completions:
        return make_completion_format();
    case Api::Llama:
        break;
    }
    return make_llama_format();
}

}  // namespace

HttpResponse generate(ServerState& server, HttpRequest& http, Api api) {
    return ServerState::answer_fields(http, [&](Fields& fields) -> HttpResponse {
        GenerationRequest request;
        read_generation(fields, server, http, api, request);
        if (fields.ok()) read_prompts_of(fields, server, api, request);
        check_generation(fields, server, request);
        if (!fields.ok()) return {};
        const char* prefix = api == Api::Chat ? "chatcmpl-" : "cmpl-";
        return answer(server, http, std::move(request), prefix, format_of(api));
    });
}

}  // namespace nib
