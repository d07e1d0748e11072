// SPDX-License-Identifier: MIT
// The program: finds the command, reads its flags, runs it. SIGPIPE is ignored, so that a reader
// that leaves is a return value of write() like any other.
#include "src/cli/output.h"
#include "src/command.h"
#include "src/option_help.h"
#include "src/option_values.h"

#include <algorithm>
#include <csignal>
#include <new>
#include <string>
#include <vector>

#include <fcntl.h>

namespace nib {
namespace {

std::string version_text() {
    return std::string("nib ") + NIB_VERSION + "\ncommit: " + NIB_COMMIT +
           "\ncompiler: " + NIB_COMPILER + "\ntarget: " + NIB_TARGET +
           "\nbuild: " + NIB_BUILD_TYPE + "\n";
}

Error unknown_command(const std::string& name) {
    std::vector<std::string> known = {"completions"};
    for (const CommandDef* command : all_commands())
        known.emplace_back(command->name);
    const std::string near = nearest(name, known);
    const std::string hint = near.empty() ? "; see nib --help" : "; did you mean " + near + "?";
    const char* kind = name[0] == '-' ? "unknown flag " : "unknown command ";
    return {Status::BadRequest, kind + shown(name) + hint};
}

int completions(const std::vector<std::string>& args) {
    if (args.size() != 1 || args[0] != "bash") {
        return fail({Status::BadRequest, "completions: expected bash, got " +
                                             (args.empty() ? "nothing" : shown(args[0]))});
    }
    return finish(write_stdout(bash_completion()));
}

int run(const std::vector<std::string>& words) {
    if (words.empty()) return finish(write_stdout(program_help()));
    const std::string& name = words[0];
    const std::vector<std::string> args(words.begin() + 1, words.end());
    if (name == "--version") return finish(write_stdout(version_text()));
    if (name == "-h" || name == "--help" || name == "help") {
        if (args.empty()) return finish(write_stdout(program_help()));
        if (args[0] == "all") return finish(write_stdout(full_help()));
        const CommandDef* about = find_command(args[0]);
        if (!about) return fail(unknown_command(args[0]));
        return finish(write_stdout(command_help(*about)));
    }
    if (name == "completions") return completions(args);
    const CommandDef* command = find_command(name);
    if (!command) return fail(unknown_command(name));
    if (asks_for_help(*command, args)) return finish(write_stdout(command_help(*command)));
    if (std::find(args.begin(), args.end(), "--version") != args.end() && args.size() == 1) {
        return finish(write_stdout(version_text()));
    }
    const auto options = parse_options(*command, args);
    if (!options) return fail(options.error());
    return command->run(options.value());
}

// A stream that the caller closed must not become the number of the next file that is opened, or an
// answer would be written into it. The stand-in refuses its use, as a closed one does.
void occupy_closed_streams() {
    for (int fd = 0; fd <= 2; ++fd) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        if (open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) return;
    }
}

}  // namespace
}  // namespace nib

int main(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);
    nib::occupy_closed_streams();
    try {
        return nib::run(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
    } catch (const std::bad_alloc&) {
        return nib::fail({nib::Status::OutOfMemory, "out of memory"});
    }
}
