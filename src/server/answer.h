// SPDX-License-Identifier: MIT
// From a generation request to the answer: the choices are submitted to the engine, a few at a
// time, their events are collected, and a format (one per API) turns them into one JSON object or a
// stream of events. A client that leaves takes its work with it; a server that ends gives every
// stream a last event.
#pragma once
#include "src/server/generation_request.h"

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace nib {

// What one choice has come to so far.
struct Choice {
    int index = 0;
    size_t prompt = 0;  // which of the prompts
    std::string text;
    std::vector<GeneratedToken> tokens;  // with scores if they were asked for; no end token
    int32_t prompt_told = -1;            // tokens of the prompt that the client knows to be done
    bool started = false, done = false;
    FinishReason finish = FinishReason::Stop;
    bool ended_by_token = false;
    std::string stopping_word;
    Timings timings;
};

struct AnswerContext {
    ServerState& server;
    GenerationRequest request;
    std::string id;
    int64_t created = 0;

    const Tokenizer& tokenizer() const { return server.tokenizer(); }
    Json base(const char* object) const;  // id, object, created, model, system_fingerprint
};

// What is new in a choice; first and last may be the same.
struct ChoiceNews {
    const Choice& choice;
    std::string_view text;
    std::span<const GeneratedToken> tokens;
    bool first = false, last = false;
};

class AnswerFormat {
  public:
    virtual ~AnswerFormat() = default;
    virtual Json whole(const AnswerContext& context, const std::vector<Choice>& choices) = 0;
    virtual void news(const AnswerContext& context, const ChoiceNews& news, std::string& out) = 0;
    // How far the prompt of a choice is, before its first news; `progress` as llama-server has it.
    virtual void progress(const AnswerContext& context,
                          const Choice& choice,
                          Json progress,
                          std::string& out) = 0;
    // After the last news of all choices.
    virtual void end(const AnswerContext& context,
                     const std::vector<Choice>& choices,
                     std::string& out) = 0;
};

std::unique_ptr<AnswerFormat> make_chat_format();
std::unique_ptr<AnswerFormat> make_completion_format();
std::unique_ptr<AnswerFormat> make_llama_format();

// Runs a checked request and answers it, streamed or not. http is used until this returns.
HttpResponse answer(ServerState& server,
                    HttpRequest& http,
                    GenerationRequest request,
                    const char* id_prefix,
                    std::unique_ptr<AnswerFormat> format);

// Shared by the formats.
const char* finish_text(const Choice& choice);  // "stop", "length"
Json usage_json(const AnswerContext& context, const std::vector<Choice>& choices);
Json timings_json(const Timings& timings);
Json token_ids_json(std::span<const GeneratedToken> tokens);
// {token, logprob, bytes} with U+FFFD for what is not a character.
Json token_json(const Tokenizer& tokenizer, Token id, float logprob, const char* key = "logprob");

}  // namespace nib
