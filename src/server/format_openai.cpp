// SPDX-License-Identifier: MIT
#include "src/server/format_openai.h"

#include "src/server/sse.h"

namespace nib {

Json OpenAiFormat::whole(const AnswerContext& context, const std::vector<Choice>& choices) {
    const GenerationRequest& request = context.request;
    Json json = context.base(object_);
    json["choices"] = Json::array();
    for (const Choice& choice : choices) {
        Json entry = {{"index", choice.index}};
        entry.update(message(context, choice));
        entry["finish_reason"] = finish_text(choice);
        entry["logprobs"] = request.scores ? scores(context, choice, choice.tokens) : Json(nullptr);
        if (request.return_tokens) entry["token_ids"] = token_ids_json(choice.tokens);
        json["choices"].push_back(std::move(entry));
    }
    json["usage"] = usage_json(context, choices);
    json["timings"] = timings_json(choices[0].timings);
    json["seed"] = request.base.sampling.seed;
    return json;
}

void OpenAiFormat::news(const AnswerContext& context, const ChoiceNews& news, std::string& out) {
    const GenerationRequest& request = context.request;
    std::string text(news.text);
    if (news.first) text = open(context, news.choice, out) + text;
    if (!text.empty() || (request.scores && !news.tokens.empty())) {
        Json json = chunk(context, news.choice.index, piece(&text));
        Json& choice = json["choices"][0];
        if (request.scores) choice["logprobs"] = scores(context, news.choice, news.tokens);
        if (request.return_tokens) choice["token_ids"] = token_ids_json(news.tokens);
        if (request.timings_per_token) json["timings"] = timings_json(news.choice.timings);
        append_event(out, json);
    }
    if (!news.last) return;
    Json json = chunk(context, news.choice.index, piece(nullptr));
    json["choices"][0]["finish_reason"] = finish_text(news.choice);
    if (request.timings_per_token || !request.include_usage) {
        json["timings"] = timings_json(news.choice.timings);
    }
    append_event(out, json);
}

void OpenAiFormat::progress(const AnswerContext& context,
                            const Choice& choice,
                            Json progress,
                            std::string& out) {
    Json json = chunk(context, choice.index, piece(nullptr));
    json["prompt_progress"] = std::move(progress);
    append_event(out, json);
}

void OpenAiFormat::end(const AnswerContext& context,
                       const std::vector<Choice>& choices,
                       std::string& out) {
    if (context.request.include_usage) {
        Json json = context.base(chunk_object_);
        json["choices"] = Json::array();
        json["usage"] = usage_json(context, choices);
        json["timings"] = timings_json(choices[0].timings);
        append_event(out, json);
    }
    append_done(out);
}

Json OpenAiFormat::chunk(const AnswerContext& context, int index, const Json& piece) const {
    Json entry = {{"index", index}};
    entry.update(piece);
    entry["logprobs"] = nullptr;
    entry["finish_reason"] = nullptr;
    Json json = context.base(chunk_object_);
    json["choices"] = Json::array({std::move(entry)});
    return json;
}

}  // namespace nib
