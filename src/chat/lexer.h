// SPDX-License-Identifier: MIT
// Template source to tokens, with jinja2's rules for white space around tags: trim_blocks,
// lstrip_blocks,
// '-' and '+' signs, one final newline dropped, raw blocks and comments resolved. Text tokens are
// final.
#pragma once
#include "src/chat/ast.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nib::jinja {

enum class TokenKind : uint8_t {
    Text,
    OutputBegin,
    OutputEnd,
    BlockBegin,
    BlockEnd,
    Name,
    String,
    Integer,
    Float,
    Operator,
    End,
};

struct Token {
    TokenKind kind = TokenKind::End;
    uint32_t at = 0;
    std::string text;  // what it says; for Text and String the final text
    int64_t integer = 0;
    double real = 0;

    bool is_operator(std::string_view s) const { return kind == TokenKind::Operator && text == s; }
    bool is_name(std::string_view s) const { return kind == TokenKind::Name && text == s; }
};

// Python's universal newlines: \r\n and \r become \n.
std::string normalize_newlines(std::string_view source);

// False with `error` set if the source cannot be split into tokens.
bool tokenize(std::string_view source, std::vector<Token>& tokens, SyntaxError& error);

}  // namespace nib::jinja
