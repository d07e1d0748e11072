// SPDX-License-Identifier: MIT
// Answers of /v1/chat/completions: messages, and deltas that join to them.
#include "src/server/format_openai.h"
#include "src/server/sse.h"

namespace nib {
namespace {

Json content_scores(const AnswerContext& context, std::span<const GeneratedToken> tokens) {
    Json content = Json::array();
    for (const GeneratedToken& token : tokens) {
        Json entry = token_json(context.tokenizer(), token.id, token.logprob);
        entry["top_logprobs"] = Json::array();
        for (const TokenScore& top : token.top) {
            entry["top_logprobs"].push_back(token_json(context.tokenizer(), top.id, top.logprob));
        }
        content.push_back(std::move(entry));
    }
    return {{"content", std::move(content)}};
}

class ChatFormat final : public OpenAiFormat {
  public:
    ChatFormat() : OpenAiFormat("chat.completion", "chat.completion.chunk") {}

  private:
    Json message(const AnswerContext&, const Choice& choice) override {
        return {{"message", {{"role", "assistant"}, {"content", choice.text}}}};
    }
    Json piece(const std::string* text) override {
        return {{"delta", text ? Json{{"content", *text}} : Json::object()}};
    }
    std::string open(const AnswerContext& context,
                     const Choice& choice,
                     std::string& out) override {
        const Json role = {{"role", "assistant"}, {"content", nullptr}};
        append_event(out, chunk(context, choice.index, {{"delta", role}}));
        return {};
    }
    Json scores(const AnswerContext& context,
                const Choice&,
                std::span<const GeneratedToken> tokens) override {
        return content_scores(context, tokens);
    }
};

}  // namespace

std::unique_ptr<AnswerFormat> make_chat_format() {
    return std::make_unique<ChatFormat>();
}

}  // namespace nib
