// SPDX-License-Identifier: MIT
// nib tokenize: text to token ids and back, with the tokenizer of a model or of a vocabulary-only
// file. Text comes from the argument, -p, -f or standard input, byte for byte.
#include "ggml-like/files/gguf.h"
#include "src/cli/model.h"
#include "src/cli/output.h"
#include "src/command.h"
#include "src/json/json.h"
#include "src/option_values.h"
#include "src/tokenizer/tokenizer.h"

#include <cctype>

namespace nib {
namespace {

Result<std::string> input_text(const Options& options) {
    if (options.args.empty()) return prompt_text(options);
    if (options.prompt || !options.file.empty()) {
        return Error{Status::BadRequest, "expected one of TEXT, --prompt and --file, got two"};
    }
    return options.escape ? unescape(options.args[0]) : options.args[0];
}

std::string id_array(std::span<const Token> tokens) {
    std::string out = "[";
    for (size_t i = 0; i < tokens.size(); ++i) {
        out += (i > 0 ? ", " : "") + std::to_string(tokens[i]);
    }
    return out + "]\n";
}

std::string piece_lines(const Tokenizer& tokenizer, std::span<const Token> tokens) {
    std::string out;
    for (const Token token : tokens) {
        out += std::to_string(token) + "\t" + dump_json(Json(tokenizer.piece(token, true))) + "\n";
    }
    return out;
}

// Ids separated by anything that JSON arrays and people put between numbers.
Result<std::vector<Token>> read_ids(std::string_view text, int32_t n_vocab) {
    std::vector<Token> tokens;
    size_t i = 0;
    while (true) {
        i = text.find_first_not_of(" \t\r\n,[]", i);
        if (i == std::string_view::npos) return tokens;
        const size_t end = std::min(text.find_first_of(" \t\r\n,[]", i), text.size());
        const auto id = read_integer(text.substr(i, end - i), 0, n_vocab - 1);
        if (!id) return Error{Status::BadRequest, "--decode: " + id.error().message};
        tokens.push_back(static_cast<Token>(id.value()));
        i = end;
    }
}

Result<void> tokenize(const Options& options) {
    const int forms = (options.ids ? 1 : 0) + (options.pieces ? 1 : 0) + (options.count ? 1 : 0) +
                      (options.decode ? 1 : 0);
    if (forms > 1) {
        return Error{Status::BadRequest,
                     "expected at most one of --ids, --pieces, --count and --decode, got " +
                         std::to_string(forms)};
    }
    NIB_TRY(check_model_exists(options));
    NIB_ASSIGN(const auto file, GgufFile::open(options.model, {.need_tensors = false}));
    const GgufTensor* rows = file->find_tensor("token_embd.weight");
    NIB_ASSIGN(const auto tokenizer,
               Tokenizer::create(*file, rows ? rows->ne[1] : 0,
                                 {.allow_unknown_pre = options.allow_unknown_pre}));
    NIB_ASSIGN(const std::string text, input_text(options));
    if (options.decode) {
        NIB_ASSIGN(const auto ids, read_ids(text, tokenizer->n_vocab()));
        return write_stdout(tokenizer->decode(ids, options.parse_special));
    }
    const auto tokens = tokenizer->encode(text, options.add_special, options.parse_special);
    if (options.count) return write_stdout(std::to_string(tokens.size()) + "\n");
    return write_stdout(options.pieces ? piece_lines(*tokenizer, tokens) : id_array(tokens));
}

int run(const Options& options) {
    return finish(tokenize(options));
}

}  // namespace

extern const CommandDef command_tokenize = {
    .name = "tokenize",
    .aliases = "",
    .summary = "turn text into token ids, or ids into text",
    .usage = "[TEXT]",
    .args_max = 1,
    .flags = kModelFlags | kPromptFlags | kTokenizeFlags,
    .run = run,
};

}  // namespace nib
