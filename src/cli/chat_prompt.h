// SPDX-License-Identifier: MIT
// From flags and conversations to the tokens of a prompt: what `nib chat` and `nib serve` share.
#pragma once
#include "src/chat/messages.h"
#include "src/options.h"
#include "src/tokenizer/tokenizer.h"

#include <string>
#include <vector>

namespace nib {

struct ChosenTemplate {
    std::string source;                    // empty: the model has none and no flag names one
    std::string from = "the model's own";  // for people
    bool own = true;                       // it came with the model
};
// --chat-template-file, else --chat-template, else what the model has. Errors: BadFile for a file
// that cannot be read or is empty, BadRequest for an unknown name.
Result<ChosenTemplate> choose_template(const Options& options, const std::string& model_template);
// --chat-template-kwargs, an empty object without it. Errors: BadRequest.
Result<Json> template_kwargs(const Options& options);
// Whatever is wrong with a template is wrong with an input file: exit 2.
Error template_error(const Error& error);

// The mark that spells a token, as templates want bos_token and eos_token; empty for kNoToken.
std::string mark_text(const Tokenizer& tokenizer, Token token);
// Only the template's own marks become control tokens; what came from messages stays text.
std::vector<Token> encode_rendered(const Tokenizer& tokenizer, const Rendered& rendered);

}  // namespace nib
