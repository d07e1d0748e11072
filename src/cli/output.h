// SPDX-License-Identifier: MIT
// Standard output and standard error of the commands. Data goes to stdout unbuffered and checked: a
// full disk is an error (exit 1), a reader that left is not (quiet exit 0). Diagnostics are one
// line on stderr.
#pragma once
#include "ggml-like/result.h"
#include "src/options.h"

#include <string>
#include <string_view>

namespace nib {

// Cancelled: the reader is gone. Io: the system refused, with its reason.
Result<void> write_stdout(std::string_view text);
void write_stderr(std::string_view text);

// Prints "error: MESSAGE" and returns the exit code. A reader that left: nothing, and 0.
int fail(const Error& error);
// The exit code of a command that ends with `result`.
int finish(const Result<void>& result);

// Bytes of a file or of standard input ("-"). Errors: BadRequest if the file cannot be read.
Result<std::string> read_input(const std::string& path);

// Colours on stdout: the flag decides, then NO_COLOR and TERM=dumb, then whether it is a terminal.
bool use_color(When when);

// Without control characters except newline and tab (C0, DEL and C1), so that a model cannot steer
// the terminal. Pieces of a stream may be given one by one if they end between characters.
std::string printable(std::string_view text);

}  // namespace nib
