// SPDX-License-Identifier: MIT
// The fields that all generating routes share, read into the engine's Request: samplers under the
// names that llama.cpp's, OpenAI's and vLLM's clients use, length, stops, seed, biases, scores. A
// constraint that nothing here can honour (grammar, schema) is refused, never dropped.
#pragma once
#include "src/engine.h"
#include "src/server/state.h"

#include <string>
#include <vector>

namespace nib {

enum class Api { Chat, Completions, Llama };  // OpenAI's two forms, llama-server's own

struct GenerationRequest {
    Request base;  // without a prompt
    std::vector<std::vector<Token>> prompts;
    std::vector<std::string> prompt_texts;  // as sent, where it was text; for echo
    int n = 1;                              // answers for each prompt
    bool stream = false;
    bool include_usage = false;
    bool timings_per_token = false;
    bool return_progress = false;  // a stream tells how far its prompt is
    bool return_tokens = false;
    bool echo = false;
    bool scores = false;  // log probabilities in the answer
    int top_scores = 0;   // alternatives for each token
    std::vector<std::string> dry_breakers;
    std::vector<std::string> response_fields;  // of /completion: the only ones; none: all
    int generations() const { return n * static_cast<int>(prompts.size()); }
};

// Reads everything but the prompt. Problems go to `fields`.
void read_generation(Fields& fields,
                     const ServerState& server,
                     const HttpRequest& http,
                     Api api,
                     GenerationRequest& out);
// After the prompts are known: their number times n, and that each fits the context.
void check_generation(Fields& fields, const ServerState& server, const GenerationRequest& request);

// The settings that were used, under their request names (generation_settings of /completion).
Json settings_json(const GenerationRequest& request, const ServerState& server);

}  // namespace nib
