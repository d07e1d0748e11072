// SPDX-License-Identifier: MIT
// From an OpenAI-style request to the prompt: messages are brought into the form that chat
// templates expect, then the template is rendered with them. Everything wrong in a request is
// BadRequest and names its place.
#pragma once
#include "ggml-like/result.h"
#include "src/chat/chat_template.h"
#include "src/json/json.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace nib {

// A template that comes with nib, by name ("chatml"); empty if there is none of that name.
std::string_view builtin_template(std::string_view name);

// messages: an array of objects with a role. What changes: text parts become one string (a newline
// between them); the content of an assistant that is null or absent becomes ""; arguments of tool
// calls that are a JSON object in a string become that object ("" becomes {}; other strings stay).
Result<Json> normalize_messages(const Json& messages);

struct ChatRequest {
    Json messages;
    Json tools;  // null: absent
    bool add_generation_prompt = true;
    Json kwargs;  // null, or an object with more variables for the template
    std::string bos_token, eos_token;
};

// If the template cannot render arguments of tool calls as objects, they are given to it as the
// JSON text that the request had.
Result<Rendered> render_chat(const ChatTemplate& chat_template,
                             const ChatRequest& request,
                             int64_t now_unix,
                             const RenderLimits& limits = {});

}  // namespace nib
