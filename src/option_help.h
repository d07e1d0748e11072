// SPDX-License-Identifier: MIT
// Text made from the rows of flags and commands: help pages, shell completion, suggestions.
#pragma once
#include "src/command.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nib {

// Every name of a flag with its dashes, the long one first.
std::vector<std::string> flag_names(const FlagRow& row);
std::string environment_name(const FlagRow& row);  // "NIB_CTX_SIZE"

std::string program_help();                           // `nib`, `nib --help`
std::string command_help(const CommandDef& command);  // `nib chat --help`
std::string full_help();                              // `nib --help all`
std::string bash_completion();

// The known name with the fewest edits (a swap of neighbours is one), or empty if none is near.
std::string nearest(std::string_view name, std::span<const std::string> known);

}  // namespace nib
