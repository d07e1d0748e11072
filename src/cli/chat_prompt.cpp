// SPDX-License-Identifier: MIT
#include "src/cli/chat_prompt.h"

#include "src/chat/chat_template.h"
#include "src/cli/output.h"
#include "src/option_values.h"

namespace nib {
namespace {

// "template, line 3, column 5: reason" becomes "reason at column 5 (line 3)".
std::string place_last(const std::string& message) {
    constexpr std::string_view kLine = "line ", kColumn = ", column ";
    const size_t line = message.find(kLine), column = message.find(kColumn);
    const size_t colon = message.find(": ", column == std::string::npos ? 0 : column);
    if (line == std::string::npos || column == std::string::npos || colon == std::string::npos ||
        line > column) {
        return message;
    }
    const size_t number = column + kColumn.size();
    return message.substr(colon + 2) + " at column " + message.substr(number, colon - number) +
           " (" + message.substr(line, column - line) + ")";
}

// The prompt cut where data begins and ends.
std::vector<TextSegment> segments_of(const Rendered& rendered) {
    std::vector<TextSegment> segments;
    const std::string_view text = rendered.text;
    size_t at = 0;
    const auto add = [&](size_t end, bool trusted) {
        if (end > at) segments.push_back({text.substr(at, end - at), trusted});
        at = end;
    };
    for (const Rendered::Range& range : rendered.data) {
        add(range.begin, true);
        add(range.end, false);
    }
    add(text.size(), true);
    return segments;
}

}  // namespace

Error template_error(const Error& error) {
    return {Status::BadFile, "chat template: " + place_last(error.message)};
}

Result<ChosenTemplate> choose_template(const Options& options, const std::string& model_template) {
    ChosenTemplate chosen{.source = model_template};
    if (!options.chat_template_file.empty()) {
        auto file = read_input(options.chat_template_file);
        if (!file) return template_error(file.error());
        chosen = ChosenTemplate{std::move(file).value(), options.chat_template_file, false};
        if (chosen.source.empty()) {
            return Error{Status::BadFile, "chat template: " + chosen.from + " is empty (line 1)"};
        }
    } else if (!options.chat_template.empty()) {
        chosen = ChosenTemplate{std::string(builtin_template(options.chat_template)),
                                options.chat_template, false};
        if (chosen.source.empty()) {
            return Error{Status::BadRequest,
                         "--chat-template: expected the name of a built-in "
                         "template (chatml), got " +
                             shown(options.chat_template)};
        }
    }
    return chosen;
}

Result<Json> template_kwargs(const Options& options) {
    if (options.chat_template_kwargs.empty()) return Json::object();
    auto kwargs = parse_json(options.chat_template_kwargs);
    if (!kwargs) {
        return Error{Status::BadRequest, "--chat-template-kwargs: " + kwargs.error().message};
    }
    if (!kwargs->is_object()) {
        return Error{Status::BadRequest, "--chat-template-kwargs: expected a JSON object, got " +
                                             std::string(kwargs->type_name())};
    }
    return kwargs;
}

std::string mark_text(const Tokenizer& tokenizer, Token token) {
    return token == kNoToken ? std::string() : std::string(tokenizer.raw_text(token));
}

std::vector<Token> encode_rendered(const Tokenizer& tokenizer, const Rendered& rendered) {
    return tokenizer.encode_segments(segments_of(rendered), true);
}

}  // namespace nib
