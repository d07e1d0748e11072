// SPDX-License-Identifier: MIT
// Requests as clients send them: what is normalised, what is refused, what the built-in template
// prints.
#include "src/chat/messages.h"

#include "tests/chat/support.h"

#include <gtest/gtest.h>

namespace nib::test {
namespace {

std::string normal(std::string_view messages) {
    const Result<Json> out = normalize_messages(json(messages));
    if (out.ok()) return dump_json(*out);
    EXPECT_EQ(out.error().status, Status::BadRequest);
    return "ERROR " + out.error().message;
}

TEST(Messages, ContentBecomesAString) {
    EXPECT_EQ(normal(R"([{"role":"user","content":"hi","x":1}])"),
              R"([{"role":"user","content":"hi","x":1}])");
    EXPECT_EQ(normal(R"([{"role":"user","content":[{"type":"text","text":"a"},)"
                     R"({"type":"text","text":"b"}]}])"),
              R"([{"role":"user","content":"a\nb"}])");
    EXPECT_EQ(normal(R"([{"role":"assistant","content":null}])"),
              R"([{"role":"assistant","content":""}])");
}

TEST(Messages, ArgumentsOfToolCallsBecomeObjects) {
    const auto arguments = [](const std::string& text) {
        Json messages = json(R"([{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}])");
        messages[0]["tool_calls"][0]["function"]["arguments"] = text;
        const Result<Json> out = normalize_messages(messages);
        return out.ok() ? dump_json((*out)[0]["tool_calls"][0]["function"]["arguments"])
                        : out.error().message;
    };
    EXPECT_EQ(arguments(R"({"b": 1, "a": [1.0]})"), R"({"b":1,"a":[1.0]})");
    EXPECT_EQ(arguments(""), "{}");
    EXPECT_EQ(arguments("not json"), "\"not json\"");
    EXPECT_EQ(arguments("[1]"), "\"[1]\"");
}

TEST(Messages, WrongOnesAreRefusedWithTheirPlace) {
    const char* const kWrong[] = {
        "[]",
        "[{}]",
        "5",
        "[5]",
        R"([{"role":5,"content":"x"}])",
        R"([{"role":"alien","content":"x"}])",
        R"([{"role":"user","content":5}])",
        R"([{"role":"user"}])",
        R"([{"role":"user","content":[null]}])",
        R"([{"role":"user","content":[{"type":"text"}]}])",
        R"([{"role":"user","content":[{"type":"image_url","image_url":)"
        R"({"url":"file:///etc/passwd"}}]}])",
        R"([{"role":"user","content":"x","tool_calls":[]}])",
        R"([{"role":"assistant","tool_calls":{}}])",
        R"([{"role":"assistant","tool_calls":[{}]}])",
        R"([{"role":"assistant","tool_calls":[{"function":{}}]}])",
    };
    for (const char* messages : kWrong)
        EXPECT_TRUE(fails(normal(messages))) << messages;
    EXPECT_EQ(normal(R"([{"role":"user","content":"a"},{"role":"user","content":[5]}])"),
              "ERROR messages[1].content[0]: expected an object with a type");
}

std::string chat(const ChatRequest& request, std::string_view source) {
    const auto parsed = ChatTemplate::parse(source);
    if (!parsed.ok()) return "ERROR " + parsed.error().message;
    const Result<Rendered> out = render_chat(**parsed, request, kClock);
    if (out.ok()) return out->text;
    EXPECT_EQ(out.error().status, Status::BadRequest);
    return "ERROR " + out.error().message;
}

ChatRequest hello() {
    ChatRequest request;
    request.messages = json(R"([{"role":"user","content":"hello"}])");
    return request;
}

TEST(Messages, BuiltinTemplate) {
    EXPECT_TRUE(builtin_template("nothing").empty());
    ChatRequest request = hello();
    EXPECT_EQ(chat(request, builtin_template("chatml")),
              "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n");
    request.add_generation_prompt = false;
    EXPECT_EQ(chat(request, builtin_template("chatml")), "<|im_start|>user\nhello<|im_end|>\n");
}

TEST(Messages, TemplatesSeeTheWholeRequest) {
    ChatRequest request = hello();
    request.bos_token = "<s>";
    request.kwargs = json(R"({"enable_thinking":false})");
    EXPECT_EQ(chat(request, "{{ bos_token }}{{ enable_thinking }}{{ tools is defined }}"),
              "<s>FalseFalse");
    request.tools = json(R"([{"a":1}])");
    EXPECT_EQ(chat(request, "{{ tools|tojson }}"), R"([{"a": 1}])");
}

TEST(Messages, KwargsMayNotReplaceTheRequest) {
    for (const char* name :
         {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "tokenize"}) {
        ChatRequest request = hello();
        request.kwargs = Json::object();
        request.kwargs[name] = true;
        EXPECT_TRUE(fails(chat(request, "x"))) << name;
    }
    ChatRequest request = hello();
    request.kwargs = json("[1]");
    EXPECT_TRUE(fails(chat(request, "x")));
    request.kwargs = Json::object();
    request.kwargs["big"] = std::string(10u << 20, 'a');
    EXPECT_TRUE(fails(chat(request, "x")));
}

TEST(Messages, TemplatesThatJoinArgumentsGetThemAsText) {
    ChatRequest request;
    request.messages = json(R"([{"role":"assistant","tool_calls":[{"function":)"
                            R"({"name":"f","arguments":"{\"a\":1}"}}]}])");
    EXPECT_EQ(chat(request, "{{ 'x' + messages[0].tool_calls[0].function.arguments }}"),
              "x{\"a\":1}");
    EXPECT_TRUE(fails(chat(request, "{{ raise_exception('never') }}")));
}

}  // namespace
}  // namespace nib::test
