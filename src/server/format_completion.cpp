// SPDX-License-Identifier: MIT
// Answers of /v1/completions: OpenAI's older form, where scores are parallel arrays.
#include "src/server/answer.h"
#include "src/server/sse.h"

#include <map>

namespace nib {
namespace {

// Characters of a text: the unit of text_offset.
int64_t characters(std::string_view text) {
    int64_t n = 0;
    for (const char c : text)
        n += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    return n;
}

class CompletionFormat final : public AnswerFormat {
  public:
    Json whole(const AnswerContext& context, const std::vector<Choice>& choices) override {
        Json json = context.base("text_completion");
        json["choices"] = Json::array();
        for (const Choice& choice : choices) {
            Json entry = {{"index", choice.index},
                          {"text", echoed(context, choice) + choice.text},
                          {"finish_reason", finish_text(choice)}};
            offsets_.erase(choice.index);
            entry["logprobs"] =
                context.request.scores ? scores(context, choice, choice.tokens) : Json(nullptr);
            if (context.request.return_tokens) entry["token_ids"] = token_ids_json(choice.tokens);
            json["choices"].push_back(std::move(entry));
        }
        json["usage"] = usage_json(context, choices);
        json["timings"] = timings_json(choices[0].timings);
        json["seed"] = context.request.base.sampling.seed;
        return json;
    }

    void news(const AnswerContext& context, const ChoiceNews& news, std::string& out) override {
        std::string text(news.text);
        if (news.first) text = echoed(context, news.choice) + text;
        if (!text.empty() || (context.request.scores && !news.tokens.empty())) {
            Json json = chunk(context, news.choice.index, text);
            if (context.request.scores) {
                json["choices"][0]["logprobs"] = scores(context, news.choice, news.tokens);
            }
            if (context.request.return_tokens) {
                json["choices"][0]["token_ids"] = token_ids_json(news.tokens);
            }
            append_event(out, json);
        }
        if (!news.last) return;
        Json json = chunk(context, news.choice.index, "");
        json["choices"][0]["finish_reason"] = finish_text(news.choice);
        if (!context.request.include_usage) json["timings"] = timings_json(news.choice.timings);
        append_event(out, json);
    }

    void end(const AnswerContext& context,
             const std::vector<Choice>& choices,
             std::string& out) override {
        append_end(context, choices, "text_completion", out);
    }

  private:
    static std::string echoed(const AnswerContext& context, const Choice& choice) {
        if (!context.request.echo) return {};
        const std::string& text = context.request.prompt_texts[choice.prompt];
        return text.empty() ? context.tokenizer().decode(context.request.prompts[choice.prompt])
                            : text;
    }

    static Json chunk(const AnswerContext& context, int index, const std::string& text) {
        Json json = context.base("text_completion");
        json["choices"] = Json::array({{{"index", index},
                                        {"text", text},
                                        {"logprobs", nullptr},
                                        {"finish_reason", nullptr}}});
        return json;
    }

    Json scores(const AnswerContext& context,
                const Choice& choice,
                std::span<const GeneratedToken> tokens) {
        Json json = {{"tokens", Json::array()},
                     {"token_logprobs", Json::array()},
                     {"top_logprobs", Json::array()},
                     {"text_offset", Json::array()}};
        int64_t& offset = offsets_[choice.index];
        for (const GeneratedToken& token : tokens) {
            const std::string piece = context.tokenizer().piece(token.id, true);
            json["tokens"].push_back(piece);
            json["token_logprobs"].push_back(token.logprob);
            json["text_offset"].push_back(offset);
            offset += characters(piece);
            Json top = Json::object();
            for (const TokenScore& score : token.top)
                top[context.tokenizer().piece(score.id, true)] = score.logprob;
            json["top_logprobs"].push_back(std::move(top));
        }
        return json;
    }

    std::map<int, int64_t> offsets_;  // of each choice's next token
};

}  // namespace

std::unique_ptr<AnswerFormat> make_completion_format() {
    return std::make_unique<CompletionFormat>();
}

}  // namespace nib
