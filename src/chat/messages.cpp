// SPDX-License-Identifier: MIT
#include "src/chat/messages.h"

#include <algorithm>
#include <exception>

namespace nib {
namespace {

constexpr size_t kKwargsBytesMax = 1u << 20;
constexpr uint64_t kKwargsValuesMax = 100'000;

constexpr std::string_view kChatMl =
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

constexpr std::string_view kRoles[] = {"system",    "developer", "user",
                                       "assistant", "tool",      "function"};

constexpr std::string_view kReserved[] = {"messages",  "tools",     "add_generation_prompt",
                                          "bos_token", "eos_token", "tokenize"};

enum class Arguments { AsObjects, AsTexts };

Error wrong(const std::string& where, const std::string& what) {
    return Error{Status::BadRequest, where + ": " + what};
}

const Json* member(const Json& object, const char* key) {
    const auto at = object.find(key);
    return at == object.end() ? nullptr : &*at;
}

Result<Json> joined_parts(const Json& parts, const std::string& where) {
    std::string text;
    for (size_t i = 0; i < parts.size(); ++i) {
        const std::string here = where + "[" + std::to_string(i) + "]";
        const Json& part = parts[i];
        if (!part.is_object()) return wrong(here, "expected an object with a type");
        const Json* type = member(part, "type");
        if (!type || !type->is_string()) return wrong(here + ".type", "expected a string");
        if (*type != "text") {
            const std::string name = type->get<std::string>().substr(0, 40);
            return wrong(here + ".type", "expected text, got " + dump_json(Json(name)));
        }
        const Json* piece = member(part, "text");
        if (!piece || !piece->is_string()) return wrong(here + ".text", "expected a string");
        if (i > 0) text += '\n';
        text += piece->get_ref<const std::string&>();
    }
    return Json(std::move(text));
}

Result<Json> normalized_content(const Json* content, bool may_be_absent, const std::string& where) {
    if (!content || content->is_null()) {
        if (!may_be_absent) return wrong(where, "expected a string or an array of text parts");
        return Json("");
    }
    if (content->is_string()) return *content;
    if (content->is_array()) return joined_parts(*content, where);
    return wrong(where, "expected a string or an array of text parts");
}

Result<void> normalize_call(Json& call, Arguments form, const std::string& where) {
    if (!call.is_object()) return wrong(where, "expected an object");
    const auto function = call.find("function");
    if (function == call.end() || !function->is_object()) {
        return wrong(where + ".function", "expected an object");
    }
    const Json* name = member(*function, "name");
    if (!name || !name->is_string()) return wrong(where + ".function.name", "expected a string");
    Json& arguments = (*function)["arguments"];
    if (arguments.is_null()) arguments = Json::object();
    if (form == Arguments::AsTexts) {
        if (!arguments.is_string()) arguments = dump_json(arguments);
        return {};
    }
    if (!arguments.is_string()) return {};
    const std::string& text = arguments.get_ref<const std::string&>();
    if (text.empty()) {
        arguments = Json::object();
        return {};
    }
    Result<Json> parsed = parse_json(text);
    if (parsed.ok() && parsed->is_object()) arguments = std::move(parsed).value();
    return {};
}

Result<void> normalize_message(Json& message, Arguments form, const std::string& where) {
    if (!message.is_object()) return wrong(where, "expected an object");
    const Json* role = member(message, "role");
    const auto* known = role && role->is_string() ? std::find(std::begin(kRoles), std::end(kRoles),
                                                              role->get_ref<const std::string&>())
                                                  : std::end(kRoles);
    if (known == std::end(kRoles)) {
        return wrong(where + ".role",
                     "expected system, developer, user, assistant, tool or function");
    }
    const bool is_assistant = *known == "assistant";
    NIB_ASSIGN(message["content"],
               normalized_content(member(message, "content"), is_assistant, where + ".content"));
    const auto calls = message.find("tool_calls");
    if (calls == message.end()) return {};
    if (calls->is_null()) {
        message.erase("tool_calls");
        return {};
    }
    if (!is_assistant) return wrong(where + ".tool_calls", "only an assistant calls tools");
    if (!calls->is_array()) return wrong(where + ".tool_calls", "expected an array");
    for (size_t i = 0; i < calls->size(); ++i) {
        NIB_TRY(
            normalize_call((*calls)[i], form, where + ".tool_calls[" + std::to_string(i) + "]"));
    }
    return {};
}

Result<Json> normalized(const Json& messages, Arguments form) {
    if (!messages.is_array() || messages.empty()) {
        return wrong("messages", "expected an array that is not empty");
    }
    Json out = messages;
    for (size_t i = 0; i < out.size(); ++i) {
        NIB_TRY(normalize_message(out[i], form, "messages[" + std::to_string(i) + "]"));
    }
    return out;
}

bool has_calls(const Json& messages) {
    return std::any_of(messages.begin(), messages.end(), [](const Json& message) {
        return message.is_object() && message.contains("tool_calls");
    });
}

// Text and values of a tree; counting stops above the limits.
void measure(const Json& json, uint64_t& bytes, uint64_t& values, uint32_t depth) {
    ++values;
    if (json.is_string()) bytes += json.get_ref<const std::string&>().size();
    if (!json.is_structured() || depth > 200 || values > kKwargsValuesMax) return;
    for (auto item = json.begin(); item != json.end(); ++item) {
        if (json.is_object()) bytes += item.key().size();
        measure(*item, bytes, values, depth + 1);
    }
}

Result<void> add_kwargs(const Json& kwargs, Json& context) {
    if (kwargs.is_null()) return {};
    if (!kwargs.is_object()) return wrong("chat_template_kwargs", "expected an object");
    uint64_t bytes = 0, values = 0;
    measure(kwargs, bytes, values, 0);
    if (bytes > kKwargsBytesMax || values > kKwargsValuesMax) {
        return wrong("chat_template_kwargs", "expected at most " + std::to_string(kKwargsBytesMax) +
                                                 " bytes and " + std::to_string(kKwargsValuesMax) +
                                                 " values");
    }
    for (auto item = kwargs.begin(); item != kwargs.end(); ++item) {
        if (std::find(std::begin(kReserved), std::end(kReserved), item.key()) !=
            std::end(kReserved)) {
            return wrong("chat_template_kwargs", "'" + item.key() + "' is a reserved name");
        }
    }
    auto& members = context.get_ref<Json::object_t&>();
    for (const auto& [key, value] : kwargs.get_ref<const Json::object_t&>()) {
        members.emplace_back(key, value);
    }
    return {};
}

}  // namespace

std::string_view builtin_template(std::string_view name) {
    return name == "chatml" ? kChatMl : std::string_view();
}

Result<Json> normalize_messages(const Json& messages) {
    try {
        return normalized(messages, Arguments::AsObjects);
    } catch (const std::exception& problem) {
        return Error{Status::OutOfMemory, std::string("messages: ") + problem.what()};
    }
}

Result<Rendered> render_chat(const ChatTemplate& chat_template,
                             const ChatRequest& request,
                             int64_t now_unix,
                             const RenderLimits& limits) {
    try {
        Json context = Json::object();
        NIB_ASSIGN(context["messages"], normalized(request.messages, Arguments::AsObjects));
        if (!request.tools.is_null()) {
            if (!request.tools.is_array()) return wrong("tools", "expected an array");
            context["tools"] = request.tools;
        }
        context["add_generation_prompt"] = request.add_generation_prompt;
        context["bos_token"] = request.bos_token;
        context["eos_token"] = request.eos_token;
        NIB_TRY(add_kwargs(request.kwargs, context));
        Result<Rendered> rendered = chat_template.render(context, now_unix, limits);
        if (rendered.ok() || !has_calls(request.messages)) return rendered;
        NIB_ASSIGN(context["messages"], normalized(request.messages, Arguments::AsTexts));
        Result<Rendered> with_texts = chat_template.render(context, now_unix, limits);
        return with_texts.ok() ? std::move(with_texts) : std::move(rendered);
    } catch (const std::exception& problem) {
        return Error{Status::OutOfMemory, std::string("chat request: ") + problem.what()};
    }
}

}  // namespace nib
