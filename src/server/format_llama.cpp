// SPDX-License-Identifier: MIT
// Answers of /completion in llama-server's form. Several choices become an array of objects.
#include "src/server/answer.h"
#include "src/server/sse.h"

#include <algorithm>
#include <cmath>

namespace nib {
namespace {

Json probabilities(const AnswerContext& context, std::span<const GeneratedToken> tokens) {
    const bool after = context.request.base.post_sampling_probs;
    const char* top_key = after ? "top_probs" : "top_logprobs";
    const auto entry = [&](Token id, float logprob) {
        Json json = after ? token_json(context.tokenizer(), id, std::exp(logprob), "prob")
                          : token_json(context.tokenizer(), id, logprob);
        json["id"] = id;
        return json;
    };
    Json list = Json::array();
    for (const GeneratedToken& token : tokens) {
        Json json = entry(token.id, token.logprob);
        json[top_key] = Json::array();
        for (const TokenScore& top : token.top)
            json[top_key].push_back(entry(top.id, top.logprob));
        list.push_back(std::move(json));
    }
    return list;
}

// The named members only. "a/b" is one inside another and comes out under this name.
Json chosen(const Json& json, const std::vector<std::string>& names) {
    Json out = Json::object();
    for (const std::string& name : names) {
        const Json* value = &json;
        std::string_view rest = name;
        while (value && !rest.empty()) {
            const size_t end = std::min(rest.find('/'), rest.size());
            const std::string key(rest.substr(0, end));
            value = value->is_object() && value->contains(key) ? &(*value)[key] : nullptr;
            rest.remove_prefix(std::min(end + 1, rest.size()));
        }
        if (value) out[name] = *value;
    }
    return out;
}

const char* stop_type(const Choice& choice) {
    if (choice.ended_by_token) return "eos";
    return choice.stopping_word.empty() ? "limit" : "word";
}

class LlamaFormat final : public AnswerFormat {
  public:
    Json whole(const AnswerContext& context, const std::vector<Choice>& choices) override {
        if (choices.size() == 1) return full(context, choices[0], true);
        Json list = Json::array();
        for (const Choice& choice : choices)
            list.push_back(full(context, choice, true));
        return list;
    }

    void news(const AnswerContext& context, const ChoiceNews& news, std::string& out) override {
        if (!news.text.empty() || !news.tokens.empty()) {
            Json json = piece(context, news.choice, news.text, news.tokens);
            if (context.request.timings_per_token) {
                json["timings"] = timings_json(news.choice.timings);
            }
            if (context.request.scores) {
                json["completion_probabilities"] = probabilities(context, news.tokens);
            }
            append_event(out, json);
        }
        if (news.last) append_event(out, full(context, news.choice, false));
    }

    void progress(const AnswerContext& context,
                  const Choice& choice,
                  Json progress,
                  std::string& out) override {
        Json json = piece(context, choice, {}, {});
        json["prompt_progress"] = std::move(progress);
        append_event(out, json);
    }

    void end(const AnswerContext&, const std::vector<Choice>&, std::string&) override {}

  private:
    static Json piece(const AnswerContext& context,
                      const Choice& choice,
                      std::string_view text,
                      std::span<const GeneratedToken> tokens) {
        return {{"index", choice.index},
                {"content", text},
                {"tokens", token_ids_json(tokens)},
                {"stop", false},
                {"id_slot", -1},
                {"tokens_predicted", choice.tokens.size()},
                {"tokens_evaluated", context.request.prompts[choice.prompt].size()}};
    }

    static Json full(const AnswerContext& context, const Choice& choice, bool with_text) {
        const GenerationRequest& request = context.request;
        const Timings& t = choice.timings;
        const size_t n_prompt = request.prompts[choice.prompt].size();
        const bool ids = with_text && request.return_tokens;
        Json json = {{"index", choice.index},
                     {"content", with_text ? choice.text : ""},
                     {"tokens", ids ? token_ids_json(choice.tokens) : Json::array()},
                     {"id_slot", -1},
                     {"stop", true},
                     {"model", context.server.model_id()},
                     {"tokens_predicted", t.predicted_n},
                     {"tokens_evaluated", n_prompt},
                     {"generation_settings", settings_json(request, context.server)},
                     {"prompt", context.tokenizer().decode(request.prompts[choice.prompt], true)},
                     {"has_new_line", choice.text.find('\n') != std::string::npos},
                     {"truncated", false},
                     {"stop_type", stop_type(choice)},
                     {"stopping_word", choice.stopping_word},
                     {"tokens_cached", n_prompt + static_cast<size_t>(t.predicted_n)},
                     {"timings", timings_json(t)}};
        if (request.scores && with_text) {
            json["completion_probabilities"] = probabilities(context, choice.tokens);
        }
        return request.response_fields.empty() ? json : chosen(json, request.response_fields);
    }
};

}  // namespace

std::unique_ptr<AnswerFormat> make_llama_format() {
    return std::make_unique<LlamaFormat>();
}

}  // namespace nib
