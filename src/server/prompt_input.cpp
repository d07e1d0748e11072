// SPDX-License-Identifier: MIT
#include "src/server/prompt_input.h"

#include "src/cli/chat_prompt.h"

#include <algorithm>
#include <ctime>

namespace nib {
namespace {

std::string indexed(const std::string& where, size_t i) {
    return where + "[" + std::to_string(i) + "]";
}

bool holds_lists(const Json& list) {
    return std::any_of(list.begin(), list.end(), [](const Json& v) { return v.is_array(); });
}

bool holds_numbers(const Json& list) {
    return std::any_of(list.begin(), list.end(), [](const Json& v) { return v.is_number(); });
}

bool read_id(Fields& fields,
             const Json& value,
             int32_t n_vocab,
             const std::string& where,
             std::vector<Token>& out) {
    if (const auto token = token_of(value, n_vocab)) {
        out.push_back(*token);
        return true;
    }
    fields.fail_value(where, "a token id from 0 to " + std::to_string(n_vocab - 1), value);
    return false;
}

// An empty text starts with the token that begins or separates texts.
void start_if_empty(Fields& fields,
                    const Tokenizer& tokenizer,
                    const std::string& where,
                    std::vector<Token>& tokens) {
    if (!tokens.empty() || !fields.ok()) return;
    const Token start = tokenizer.bos() != kNoToken ? tokenizer.bos() : tokenizer.eos();
    if (start != kNoToken) {
        tokens.push_back(start);
    } else {
        fields.fail(where, "expected at least one token, got none");
    }
}

class PromptReader {
  public:
    PromptReader(Fields& fields, const ServerState& server, PromptList& out)
        : fields_(fields), tokenizer_(server.tokenizer()), out_(out) {}

    // A text, a list of ids and texts, or llama-server's object with a text.
    void one(const Json& prompt, const std::string& where) {
        if (!fields_.ok()) return;
        const bool boxed = prompt.is_object() && prompt.contains("prompt_string");
        const Json& value = boxed ? prompt["prompt_string"] : prompt;
        if (boxed && prompt.value("multimodal_data", Json::array()) != Json::array()) {
            return fields_.fail(where + ".multimodal_data",
                                "expected none: the model reads texts only");
        }
        std::vector<Token> tokens;
        std::string text;
        if (value.is_string()) {
            text = value.get_ref<const std::string&>();
            tokens = tokenizer_.encode(text, true, true);
            start_if_empty(fields_, tokenizer_, where, tokens);
        } else if (value.is_array() && !value.empty() && !boxed) {
            mixed(value, where, tokens);
        } else {
            fields_.fail_value(where, "a text or token ids", value);
        }
        out_.tokens.push_back(std::move(tokens));
        out_.texts.push_back(std::move(text));
    }

  private:
    void mixed(const Json& list, const std::string& where, std::vector<Token>& tokens) {
        for (size_t i = 0; i < list.size() && fields_.ok(); i++) {
            if (list[i].is_string()) {
                const auto& text = list[i].get_ref<const std::string&>();
                const auto more = tokenizer_.encode(text, i == 0, true);
                tokens.insert(tokens.end(), more.begin(), more.end());
            } else {
                read_id(fields_, list[i], tokenizer_.n_vocab(), indexed(where, i), tokens);
            }
        }
        start_if_empty(fields_, tokenizer_, where, tokens);
    }

    Fields& fields_;
    const Tokenizer& tokenizer_;
    PromptList& out_;
};

bool is_tool_name(const Json& name) {
    if (!name.is_string()) return false;
    const auto& text = name.get_ref<const std::string&>();
    return !text.empty() && text.size() <= kToolNameMax &&
           text.find_first_not_of(
               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
               "0123456789_-") == std::string::npos;
}

void check_tool(Fields& fields, const Json& tool, const std::string& where) {
    if (!tool.is_object()) return fields.fail_value(where, "an object", tool);
    const auto type = tool.find("type");
    if (type == tool.end() || *type != "function") {
        return fields.fail(where + ".type", "expected function");
    }
    const auto function = tool.find("function");
    if (function == tool.end() || !function->is_object()) {
        return fields.fail(where + ".function", "expected an object");
    }
    const auto name = function->find("name");
    if (name == function->end() || !is_tool_name(*name)) {
        return fields.fail(
            where + ".function.name",
            "expected up to " + std::to_string(kToolNameMax) + " letters, digits, _ and -");
    }
    const auto parameters = function->find("parameters");
    if (parameters != function->end() && !parameters->is_object() && !parameters->is_null()) {
        fields.fail_value(where + ".function.parameters", "an object", *parameters);
    }
}

// A reply that must call a tool needs a constraint, which is refused.
void check_tool_choice(Fields& fields, const Json* tools) {
    const Json* choice = fields.find("tool_choice");
    if (!choice || *choice == "auto" || *choice == "none") return;
    if (*choice != "required" && !choice->is_object()) {
        return fields.fail_value("tool_choice", "none, auto, required or a function", *choice);
    }
    if (choice->is_object()) {
        const auto function = choice->find("function");
        const Json* name = nullptr;
        if (function != choice->end() && function->is_object() && function->contains("name")) {
            name = &(*function)["name"];
        }
        const bool known =
            name && tools && std::any_of(tools->begin(), tools->end(), [&](const Json& tool) {
                return tool["function"]["name"] == *name;
            });
        if (!known) {
            return fields.fail("tool_choice", "expected the name of one of the tools");
        }
    } else if (!tools || tools->empty()) {
        return fields.fail("tool_choice", "required: expected tools with it");
    }
    fields.refuse_unless("tool_choice", {});
}

void read_tools(Fields& fields, ChatRequest& chat) {
    const Json* tools = fields.array("tools", kToolsMax);
    if (tools) {
        for (size_t i = 0; i < tools->size(); i++)
            check_tool(fields, (*tools)[i], indexed("tools", i));
    }
    if (!fields.ok()) return;
    check_tool_choice(fields, tools);
    fields.boolean("parallel_tool_calls", true);
    const Json* choice = fields.find("tool_choice");
    if (tools && !tools->empty() && !(choice && *choice == "none")) chat.tools = *tools;
}

void read_kwargs(Fields& fields, const ServerState& server, ChatRequest& chat) {
    chat.kwargs = server.template_kwargs();
    const std::string effort = fields.text("reasoning_effort", "", kToolNameMax);
    if (!effort.empty()) chat.kwargs["reasoning_effort"] = effort;
    const Json* kwargs = fields.object("chat_template_kwargs");
    if (kwargs) chat.kwargs.update(*kwargs);
}

// Cuts off what the template puts behind the text of the last message.
bool cut_after_last_message(const Json& messages, Rendered& rendered) {
    if (messages.back()["role"] != "assistant" || rendered.data.empty()) return false;
    rendered.text.resize(rendered.data.back().end);
    return true;
}

void fail_template(Fields& fields, const Error& error) {
    ApiError api = from_error(error, 1);
    api.code = "template_error";
    api.message = "chat template: " + error.message;
    if (error.message.rfind("messages", 0) == 0 || error.message.rfind("chat_", 0) == 0) {
        api = from_error(error, 1);
    }
    fields.fail(std::move(api));
}

}  // namespace

std::vector<Token> read_ids(Fields& fields,
                            const Json& list,
                            int32_t n_vocab,
                            const std::string& where) {
    std::vector<Token> ids;
    for (size_t i = 0; i < list.size(); i++) {
        if (!read_id(fields, list[i], n_vocab, indexed(where, i), ids)) break;
    }
    return ids;
}

PromptList read_prompts(Fields& fields, const ServerState& server, const char* name, size_t max) {
    PromptList out;
    const Json* value = fields.find(name);
    if (!value) {
        fields.fail(name, "expected a text, token ids or a list of those, got nothing");
        return out;
    }
    PromptReader reader(fields, server, out);
    const bool many = value->is_array() && (holds_lists(*value) || !holds_numbers(*value));
    if (!many) {
        reader.one(*value, name);
        return out;
    }
    if (value->empty() || value->size() > max) {
        fields.fail(name, "expected 1 to " + std::to_string(max) + " prompts, got " +
                              std::to_string(value->size()));
    }
    for (size_t i = 0; i < value->size() && fields.ok(); i++)
        reader.one((*value)[i], indexed(name, i));
    return out;
}

ChatPrompt read_chat(Fields& fields, const ServerState& server) {
    ChatPrompt out;
    const Json* messages = fields.array("messages", kMessagesMax);
    if (fields.ok() && !messages) fields.fail("messages", "expected an array, got nothing");
    ChatRequest chat;
    read_tools(fields, chat);
    read_kwargs(fields, server, chat);
    const bool goes_on = fields.boolean("continue_final_message", false);
    chat.add_generation_prompt = fields.boolean("add_generation_prompt", !goes_on);
    if (goes_on && chat.add_generation_prompt) {
        fields.fail("continue_final_message", "expected add_generation_prompt: false with it");
    }
    if (!fields.ok()) return out;
    if (!server.chat_template()) {
        ApiError error;
        error.message = server.template_problem();
        error.code = "template_error";
        fields.fail(std::move(error));
        return out;
    }
    const Tokenizer& tokenizer = server.tokenizer();
    chat.messages = *messages;
    chat.bos_token = mark_text(tokenizer, tokenizer.bos());
    chat.eos_token = mark_text(tokenizer, tokenizer.eos());
    auto rendered = render_chat(*server.chat_template(), chat, std::time(nullptr));
    if (!rendered) {
        fail_template(fields, rendered.error());
        return out;
    }
    if (goes_on && !cut_after_last_message(*messages, *rendered)) {
        fields.fail("continue_final_message", "expected a last message of the assistant");
        return out;
    }
    out.tokens = encode_rendered(tokenizer, *rendered);
    out.text = std::move(rendered->text);
    if (out.tokens.empty()) fields.fail("messages", "the chat template made no token of them");
    return out;
}

HttpResponse answer_chat_prompt(const ServerState& server,
                                const HttpRequest& http,
                                const std::function<Json(const ChatPrompt&)>& respond) {
    return ServerState::answer_fields(http, [&](Fields& fields) -> HttpResponse {
        server.check_model(fields);
        if (!fields.ok()) return {};
        return json_response(respond(read_chat(fields, server)));
    });
}

}  // namespace nib
