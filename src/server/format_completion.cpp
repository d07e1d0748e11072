// SPDX-License-Identifier: MIT
// Answers of /v1/completions: OpenAI's older form, where scores are parallel arrays.
#include "src/server/format_openai.h"

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

// The prompt, where the client wants it in front of the text.
std::string echoed(const AnswerContext& context, const Choice& choice) {
    if (!context.request.echo) return {};
    const std::string& text = context.request.prompt_texts[choice.prompt];
    return text.empty() ? context.tokenizer().decode(context.request.prompts[choice.prompt]) : text;
}

class CompletionFormat final : public OpenAiFormat {
  public:
    CompletionFormat() : OpenAiFormat("text_completion", "text_completion") {}

  private:
    Json message(const AnswerContext& context, const Choice& choice) override {
        return {{"text", echoed(context, choice) + choice.text}};
    }
    Json piece(const std::string* text) override {
        return {{"text", text ? *text : std::string()}};
    }
    std::string open(const AnswerContext& context, const Choice& choice, std::string&) override {
        return echoed(context, choice);
    }
    Json scores(const AnswerContext& context,
                const Choice& choice,
                std::span<const GeneratedToken> tokens) override {
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
