// SPDX-License-Identifier: MIT
// nib template: renders a chat template with a JSON context, as the chat does, or checks that it
// parses.
#include "src/chat/chat_template.h"
#include "src/cli/model.h"
#include "src/cli/output.h"
#include "src/command.h"
#include "src/json/json.h"
#include "src/option_values.h"

#include <ctime>

namespace nib {
namespace {

// An error's message with the file it is about.
Error about(const std::string& path, const Error& error) {
    return {Status::BadFile, path + ": " + error.message};
}

Result<std::shared_ptr<const ChatTemplate>> read_template(const Options& options) {
    if (options.template_path.empty()) {
        return Error{Status::BadRequest, "--template: expected a value FILE"};
    }
    NIB_ASSIGN(const std::string source, read_input(options.template_path));
    auto parsed = ChatTemplate::parse(source);
    if (!parsed) return about(options.template_path, parsed.error());
    return parsed;
}

Result<void> render(const Options& options) {
    NIB_ASSIGN(const auto parsed, read_template(options));
    if (options.context_path.empty()) {
        return Error{Status::BadRequest, "--context: expected a value FILE"};
    }
    NIB_ASSIGN(const std::string text, read_input(options.context_path));
    const auto context = parse_json(text);
    if (!context) return about(options.context_path, context.error());
    if (!context->is_object()) {
        return Error{Status::BadFile, options.context_path + ": expected a JSON object, got " +
                                          context->type_name()};
    }
    const auto rendered = parsed->render(context.value(), std::time(nullptr));
    if (!rendered) return about(options.template_path, rendered.error());
    return write_stdout(rendered->text);
}

Result<void> validate(const Options& options) {
    NIB_TRY(read_template(options));
    return write_stdout(options.template_path + ": fine\n");
}

int run(const Options& options) {
    const std::string action = options.args.empty() ? "" : options.args[0];
    if (action == "render") return finish(render(options));
    if (action == "validate") return finish(validate(options));
    return fail(
        {Status::BadRequest, "nib template: expected render or validate, got " + shown(action)});
}

}  // namespace

extern const CommandDef command_template = {
    .name = "template",
    .aliases = "",
    .summary = "render or check a chat template",
    .usage = "render|validate",
    .args_max = 1,
    .flags = kRenderFlags,
    .run = run,
};

}  // namespace nib
