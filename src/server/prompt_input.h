// SPDX-License-Identifier: MIT
// Prompts as requests have them: a text, token ids, texts and ids mixed, or a list of those; and
// conversations, rendered with the chat template. Ids are checked against the vocabulary.
#pragma once
#include "src/server/generation_request.h"

#include <functional>
#include <string>
#include <vector>

namespace nib {

struct PromptList {
    std::vector<std::vector<Token>> tokens;
    std::vector<std::string> texts;  // of the same number; empty where ids were sent
};

// Reads `name` of the request. Marks in texts become control tokens: who sends raw prompts writes
// the model's own format.
PromptList read_prompts(Fields& fields, const ServerState& server, const char* name, size_t max);
// A list of ids; each must be in the vocabulary.
std::vector<Token> read_ids(Fields& fields,
                            const Json& list,
                            int32_t n_vocab,
                            const std::string& where);

struct ChatPrompt {
    std::string text;
    std::vector<Token> tokens;
};

// messages, tools, chat_template_kwargs, add_generation_prompt, continue_final_message. Marks in
// messages stay text.
ChatPrompt read_chat(Fields& fields, const ServerState& server);
// Answers a chat request with what `respond` tells of its prompt, without generating.
HttpResponse answer_chat_prompt(const ServerState& server,
                                const HttpRequest& http,
                                const std::function<Json(const ChatPrompt&)>& respond);

}  // namespace nib
