// SPDX-License-Identifier: MIT
// The tables of what templates may call: filters, tests, methods and global functions, by name.
// Every entry is a NativeFn; there is nothing else to call.
#pragma once
#include "src/chat/value.h"

#include <string_view>

namespace nib::jinja {

const Native* find_filter(std::string_view name);
const Native* find_test(std::string_view name);
const Native* find_global(std::string_view name);
const Native* find_method(Kind kind, std::string_view name);
// list.append, dict.update and the like: they exist, but a template may not call them.
bool is_forbidden_method(Kind kind, std::string_view name);

}  // namespace nib::jinja
