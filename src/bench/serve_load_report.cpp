// SPDX-License-Identifier: MIT
// The report of a load on a server, as JSON and as a table.
#include "src/bench/serve_load.h"

#include <cstdio>

namespace nib::bench {
namespace {

template <class... Args>
std::string line(const char* format, Args... args) {
    char text[512];
    std::snprintf(text, sizeof text, format, args...);
    return text;
}

Json json_of(const Latency& s) {
    return {{"count", s.count}, {"p50", s.p50 * 1e3}, {"p99", s.p99 * 1e3}, {"max", s.max * 1e3}};
}

std::string row(const char* name, const Latency& s) {
    return line("%-34s %9.1f %9.1f %9.1f\n", name, s.p50 * 1e3, s.p99 * 1e3, s.max * 1e3);
}

}  // namespace

Json to_json(const ServeLoadReport& r) {
    Json errors = Json::object();
    for (const auto& [what, count] : r.errors)
        errors[what] = count;
    Json json = {{"url", r.request.url},
                 {"clients", r.request.clients},
                 {"requests", r.request.requests},
                 {"done", r.done},
                 {"seconds", r.seconds},
                 {"tokens", r.tokens},
                 {"tokens_per_s", r.tokens_per_s()},
                 {"prompt_tokens", r.prompt_tokens},
                 {"cached_tokens", r.cached_tokens},
                 {"first_token_ms", json_of(r.first_token)},
                 {"gap_ms", json_of(r.gap)},
                 {"errors", std::move(errors)}};
    if (r.request.long_prompt_chars > 0) {
        json["long_prompt"] = {{"first_token_ms", r.long_first_token * 1e3},
                               {"gap_before_ms", json_of(r.gap_before)},
                               {"gap_during_ms", json_of(r.gap_during)}};
    }
    return json;
}

std::string to_table(const ServeLoadReport& r) {
    std::string text = line("%d clients, %d of %d requests done, %.2f s\n", r.request.clients,
                            r.done, r.request.requests, r.seconds);
    text += line("%.1f tokens/s (%llu tokens; prompts %llu, of these cached %llu)\n\n",
                 r.tokens_per_s(), (unsigned long long)r.tokens,
                 (unsigned long long)r.prompt_tokens, (unsigned long long)r.cached_tokens);
    text += line("%-34s %9s %9s %9s\n", "ms", "p50", "p99", "max");
    text += row("to the first token", r.first_token);
    text += row("between tokens", r.gap);
    if (r.request.long_prompt_chars > 0) {
        text += row("between tokens, before the long", r.gap_before);
        text += row("between tokens, during the long", r.gap_during);
        text += line("the long prompt's first token after %.1f ms\n", r.long_first_token * 1e3);
    }
    for (const auto& [what, count] : r.errors)
        text += line("failed: %d x %s\n", count, what.c_str());
    return text;
}

}  // namespace nib::bench
