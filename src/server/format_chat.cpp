// SPDX-License-Identifier: MIT
// Answers of /v1/chat/completions: one object, or chunks whose deltas join to it.
#include "src/server/answer.h"
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

class ChatFormat final : public AnswerFormat {
  public:
    Json whole(const AnswerContext& context, const std::vector<Choice>& choices) override {
        Json json = context.base("chat.completion");
        json["choices"] = Json::array();
        for (const Choice& choice : choices) {
            Json entry = {{"index", choice.index},
                          {"message", {{"role", "assistant"}, {"content", choice.text}}},
                          {"finish_reason", finish_text(choice)}};
            entry["logprobs"] =
                context.request.scores ? content_scores(context, choice.tokens) : Json(nullptr);
            if (context.request.return_tokens) entry["token_ids"] = token_ids_json(choice.tokens);
            json["choices"].push_back(std::move(entry));
        }
        json["usage"] = usage_json(context, choices);
        json["timings"] = timings_json(choices[0].timings);
        json["seed"] = context.request.base.sampling.seed;
        return json;
    }

    void news(const AnswerContext& context, const ChoiceNews& news, std::string& out) override {
        if (news.first) {
            const Json role = {{"role", "assistant"}, {"content", nullptr}};
            append_event(out, chunk(context, news.choice.index, role));
        }
        if (!news.text.empty() || (context.request.scores && !news.tokens.empty())) {
            Json json = chunk(context, news.choice.index, {{"content", news.text}});
            if (context.request.scores) {
                json["choices"][0]["logprobs"] = content_scores(context, news.tokens);
            }
            if (context.request.return_tokens) {
                json["choices"][0]["token_ids"] = token_ids_json(news.tokens);
            }
            append_event(out, json);
        }
        if (!news.last) return;
        Json json = chunk(context, news.choice.index, Json::object());
        json["choices"][0]["finish_reason"] = finish_text(news.choice);
        if (context.request.timings_per_token || !context.request.include_usage) {
            json["timings"] = timings_json(news.choice.timings);
        }
        append_event(out, json);
    }

    void end(const AnswerContext& context,
             const std::vector<Choice>& choices,
             std::string& out) override {
        append_end(context, choices, "chat.completion.chunk", out);
    }

  private:
    static Json chunk(const AnswerContext& context, int index, const Json& delta) {
        Json json = context.base("chat.completion.chunk");
        json["choices"] = Json::array({{{"index", index},
                                        {"delta", delta},
                                        {"logprobs", nullptr},
                                        {"finish_reason", nullptr}}});
        return json;
    }
};

}  // namespace

std::unique_ptr<AnswerFormat> make_chat_format() {
    return std::make_unique<ChatFormat>();
}

}  // namespace nib
