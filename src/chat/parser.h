// SPDX-License-Identifier: MIT
// Tokens to tree, with jinja2's grammar. Recursion is bounded, trees have a bounded height, and
// unknown tags, filters and tests are errors here, before anything is rendered (a filter inside a
// branch of a condition may be unknown until the branch is taken, as in jinja2).
#pragma once
#include "src/chat/ast.h"

#include <string_view>

namespace nib::jinja {

// False with `error` set if the source (newlines normalised) is not a template.
bool parse_template(std::string_view source, Tree& tree, SyntaxError& error);

}  // namespace nib::jinja
