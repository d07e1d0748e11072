// SPDX-License-Identifier: MIT
// Published templates: every stored conversation byte for byte, and every template cut short.
#include "src/chat/messages.h"
#include "tests/chat/support.h"
#include "tests/support/support.h"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

namespace nib::test {
namespace {

struct Published {
    std::string name, source, cases;
};

std::vector<Published> published() {
    std::vector<Published> out;
    const std::string folder = shared_data("templates");
    if (folder.empty()) return out;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".jinja") continue;
        const std::string stem = entry.path().stem().string();
        out.push_back({stem, read_file(entry.path().string()),
                       read_file(folder + "/" + stem + ".cases.json")});
    }
    std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return out;
}

TEST(Templates, StoredConversationsByteForByte) {
    const std::vector<Published> all = published();
    if (all.empty()) GTEST_SKIP() << "skipped: no reference data";
    size_t n_cases = 0;
    for (const Published& p : all) {
        for (const Json& c : json(p.cases)) {
            ++n_cases;
            const std::string got = render(p.source, c["context"]);
            const std::string where = p.name + " " + c["shape"].get<std::string>();
            if (c.contains("error")) {
                EXPECT_TRUE(fails(got)) << where << ": " << got;
                EXPECT_NE(got.find("line "), std::string::npos) << got;
            } else {
                EXPECT_EQ(got, c["expected"].get<std::string>()) << where;
            }
        }
    }
    EXPECT_GE(n_cases, 204u);
}

// Small templates at every byte, larger ones at about four hundred places.
TEST(Templates, CutAnywhereTheyParseOrSayWhere) {
    const std::vector<Published> all = published();
    if (all.empty()) GTEST_SKIP() << "skipped: no reference data";
    for (const Published& p : all) {
        const size_t stride = p.source.size() < 3000 ? 1 : p.source.size() / 400;
        for (size_t n = 0; n < p.source.size(); n += stride) {
            const auto parsed = ChatTemplate::parse(std::string_view(p.source).substr(0, n));
            if (parsed.ok()) continue;
            EXPECT_NE(parsed.error().message.find("line "), std::string::npos)
                << p.name << " " << n;
        }
    }
}

// The OpenAI form of a tool call (arguments in a string, content null) gives what the template
// would print for its own preferred form.
TEST(Templates, ToolCallsAsClientsSendThem) {
    const std::string source = shared_data("templates/Qwen-Qwen2.5-7B-Instruct.jinja");
    if (source.empty()) GTEST_SKIP() << "skipped: no reference data";
    const auto parsed = ChatTemplate::parse(read_file(source));
    ASSERT_TRUE(parsed.ok());
    const auto prompt = [&](const std::string& arguments) {
        ChatRequest request;
        request.messages = json(R"([{"role":"user","content":"q"},
            {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
             "function":{"name":"f","arguments":""}}]},
            {"role":"tool","tool_call_id":"c1","content":"42"}])");
        request.messages[1]["tool_calls"][0]["function"]["arguments"] = arguments;
        const Result<Rendered> rendered = render_chat(**parsed, request, kClock);
        return rendered.ok() ? rendered->text : "ERROR " + rendered.error().message;
    };
    const std::string text = prompt("{\"a\": 1, \"s\": \"\xc3\xa9\"}");
    EXPECT_NE(text.find("{\"name\": \"f\", \"arguments\": {\"a\": 1, \"s\": \"\xc3\xa9\"}}"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("<tool_response>\n42"), std::string::npos) << text;
    EXPECT_EQ(text.find("None"), std::string::npos) << text;
    EXPECT_NE(prompt("").find("\"arguments\": {}"), std::string::npos);
    EXPECT_NE(prompt("{}").find("\"arguments\": {}"), std::string::npos);
    EXPECT_NE(prompt("not json").find("\"arguments\": \"not json\""), std::string::npos);
}

}  // namespace
}  // namespace nib::test
