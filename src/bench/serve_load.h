// SPDX-License-Identifier: MIT
// What a server does under load: clients with a connection each ask for streamed chat answers and
// note when every piece arrives. Works with any server that has /v1/chat/completions, so two of
// them can be compared; the only field beyond OpenAI's is ignore_eos, which makes answers of equal
// length.
//
// Prompts are words drawn from a seed: the same numbers give the same requests, request i never
// begins as request j does, and the shared text in front of them is the same for all.
#pragma once
#include "ggml-like/result.h"
#include "src/json/json.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace nib::bench {

struct ServeLoadRequest {
    std::string url = "http://127.0.0.1:8080";
    std::string key;  // for Authorization: Bearer, or empty
    int32_t clients = 8, requests = 24;
    int32_t tokens = 64;              // of every answer
    int32_t prompt_chars = 200;       // of the part that is different
    int32_t shared_prefix_chars = 0;  // of the system message that all have
    bool warm = false;                // ask once with that message before
    int32_t long_prompt_chars = 0;    // of one more prompt that arrives while all are writing
    uint64_t seed = 1;
};

// Seconds; zeros if nothing was seen.
struct Latency {
    uint64_t count = 0;
    double p50 = 0, p99 = 0, max = 0;
};

struct ServeLoadReport {
    ServeLoadRequest request;
    int32_t done = 0;
    double seconds = 0;  // from the first request to the last answer
    uint64_t prompt_tokens = 0, cached_tokens = 0, tokens = 0;
    Latency first_token;  // from the request to the first piece of text
    Latency gap;          // between two pieces of one answer
    // With a long prompt: gaps before it came, gaps until its first token, its own first token.
    Latency gap_before, gap_during;
    double long_first_token = 0;
    std::map<std::string, int32_t> errors;  // "HTTP 429" or what the connection said: how often

    double tokens_per_s() const { return seconds > 0 ? double(tokens) / seconds : 0; }
};

// Errors: BadRequest if the address is none, Io if nobody answers there. Requests that fail are
// counted in the report.
Result<ServeLoadReport> measure_serving(const ServeLoadRequest& request);

// The text that request `number` brings, and the one that all share (number < 0).
std::string load_prompt(uint64_t seed, int64_t number, size_t chars);
// Nearest rank; sorts.
Latency latency_of(std::vector<double>& seconds);

Json to_json(const ServeLoadReport& report);
std::string to_table(const ServeLoadReport& report);

}  // namespace nib::bench
