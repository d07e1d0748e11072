// SPDX-License-Identifier: MIT
// nib run: one prompt in, its continuation out. Nothing but the completion is on stdout (or one
// JSON object); the statistics are on stderr. The text streams as it is made.
#include "src/cli/interrupt.h"
#include "src/cli/model.h"
#include "src/cli/output.h"
#include "src/command.h"
#include "src/json/json.h"

#include <unistd.h>

namespace nib {
namespace {

Json as_json(const Completion& completion) {
    const Timings& t = completion.timings;
    return {{"text", completion.text},
            {"tokens", completion.tokens},
            {"finish_reason", finish_reason_name(completion.finish)},
            {"timings",
             {{"prompt_n", t.prompt_n},
              {"prompt_ms", t.prompt_ms},
              {"cached_n", t.cached_n},
              {"predicted_n", t.predicted_n},
              {"predicted_ms", t.predicted_ms},
              {"draft_n", t.draft_n},
              {"draft_n_accepted", t.draft_n_accepted}}}};
}

Result<int> complete(const Options& options) {
    NIB_TRY(check_model_exists(options));  // before waiting for standard input
    NIB_ASSIGN(const std::string prompt, prompt_text(options));
    NIB_ASSIGN(const auto engine, open_engine(options));
    Request request = base_request(options, *engine);
    request.prompt = engine->tokenizer()->encode(prompt, true, true);
    if (request.prompt.empty()) {
        return Error{Status::BadRequest,
                     "the prompt is empty: expected at least one token, got none"};
    }
    const bool terminal = isatty(STDOUT_FILENO) == 1;
    Result<void> written;
    Engine::OnText on_text;
    if (!options.json) {
        on_text = [&](std::string_view text) {
            // A file gets the bytes of the model; a terminal must not be steered by them.
            written = terminal ? write_stdout(printable(text)) : write_stdout(text);
            return written.ok();
        };
    }
    const Interruptible interruptible(engine.get());
    const auto completion = engine->generate(request, on_text);
    NIB_TRY(written);
    if (!completion) return completion.error();
    if (options.json) NIB_TRY(write_stdout(dump_json(as_json(completion.value())) + "\n"));
    if (!options.json && terminal) NIB_TRY(write_stdout("\n"));
    write_stderr(statistics(completion.value(), options.sampling.seed) + "\n");
    return interruptible.interrupted() ? kInterruptedExit : 0;
}

int run(const Options& options) {
    const auto code = complete(options);
    return code ? code.value() : fail(code.error());
}

}  // namespace

extern const CommandDef command_run = {
    .name = "run",
    .aliases = "completion",
    .summary = "continue a text",
    .usage = "",
    .args_max = 0,
    .flags =
        kModelFlags | kEngineFlags | kSamplingFlags | kGenerateFlags | kPromptFlags | kJsonFlags,
    .run = run,
};

}  // namespace nib
