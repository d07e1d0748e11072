// SPDX-License-Identifier: MIT
// A subcommand of the program: one file in src/cli/commands/ or tools/ that ends with
// `extern const CommandDef command_<stem>`. CMake writes the list.
#pragma once
#include "src/options.h"

#include <cstdint>
#include <span>

namespace nib {

struct CommandDef {
    const char* name;
    const char* aliases;  // separated by spaces
    const char* summary;  // one line of `nib --help`
    const char* usage;    // what may follow the flags: "FILE", "[TEXT]" or ""
    size_t args_max;
    uint32_t flags;                      // FlagSet bits
    int (*run)(const Options& options);  // returns the exit code
};

std::span<const CommandDef* const> all_commands();
// By name or alias; null if there is none.
const CommandDef* find_command(std::string_view name);

}  // namespace nib
