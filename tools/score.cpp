// SPDX-License-Identifier: MIT
// nib score: for each prompt of a file its tokens, log-probabilities and greedy continuation, as
// JSON.
#include "src/score.h"

#include "ggml-like/files/atomic_file.h"
#include "src/cli/model.h"
#include "src/cli/output.h"
#include "src/command.h"
#include "src/json/json.h"

#include <cmath>

namespace nib {
namespace {

double rounded(double value, double scale) {
    return std::round(value * scale) / scale;
}

Json to_json(const Score& s, const std::string& id, const std::string& text) {
    Json positions = Json::array();
    for (const Score::Position& p : s.positions) {
        Json top = Json::array();
        for (const auto& [token, logprob] : p.top)
            top.push_back({token, rounded(logprob, 1e5)});
        positions.push_back({{"pos", p.pos}, {"top", top}});
    }
    return {{"greedy", s.greedy},
            {"greedy_min_margin", s.greedy_min_margin},
            {"greedy_text", s.greedy_text},
            {"id", id},
            {"nll_sum", s.nll_sum},
            {"positions", positions},
            {"scored", s.scored},
            {"text", text},
            {"tokens", s.tokens}};
}

Error bad_prompt(size_t index, const char* what) {
    return {Status::BadRequest, "--prompts: entry " + std::to_string(index) + ": " + what};
}

Result<Json> score_all(const Json& prompts, Engine& engine, const Options& options) {
    if (!prompts.is_array()) return Error{Status::BadRequest, "--prompts: expected a list"};
    Json results = Json::array();
    for (size_t i = 0; i < prompts.size(); i++) {
        const Json& p = prompts[i];
        if (!p.is_object() || !p.contains("text") || !p["text"].is_string()) {
            return bad_prompt(i, "expected an object with a string \"text\"");
        }
        if (p.contains("special") && !p["special"].is_boolean()) {
            return bad_prompt(i, "\"special\" is not true or false");
        }
        const std::string text = p["text"].get<std::string>();
        const std::string id = p.contains("id") && p["id"].is_string() ? p["id"].get<std::string>()
                                                                       : std::to_string(i);
        NIB_ASSIGN(const Score s, score_text(engine, text,
                                             {.top = options.top,
                                              .greedy = options.greedy,
                                              .special = p.value("special", true)}));
        write_stderr("scored " + id + ": " + std::to_string(s.tokens.size()) + " tokens\n");
        results.push_back(to_json(s, id, text));
    }
    return results;
}

Result<void> score(const Options& options) {
    if (options.prompts_path.empty()) return Error{Status::BadRequest, "--prompts FILE is missing"};
    NIB_ASSIGN(const std::string file, read_input(options.prompts_path));
    NIB_ASSIGN(const Json prompts, parse_json(file));
    NIB_ASSIGN(const auto engine, open_engine(options));
    NIB_ASSIGN(const Json results, score_all(prompts, *engine, options));
    const std::string text = dump_json(results) + "\n";
    if (options.output_path.empty()) return write_stdout(text);
    NIB_ASSIGN(const auto out, AtomicFile::create(options.output_path));
    NIB_TRY(out->write(text.data(), text.size()));
    return out->commit();
}

int run(const Options& options) {
    return finish(score(options));
}

}  // namespace

extern const CommandDef command_score = {
    .name = "score",
    .aliases = "",
    .summary = "log-probabilities and greedy continuations of prompts, as JSON",
    .usage = "",
    .args_max = 0,
    .flags = kModelFlags | kEngineFlags | kScoreFlags,
    .run = run,
};

}  // namespace nib
