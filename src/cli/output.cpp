// SPDX-License-Identifier: MIT
#include "src/cli/output.h"

#include "src/option_values.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace nib {
namespace {

constexpr size_t kInputMax = size_t{1} << 30;

Result<void> write_all(int fd, std::string_view text, const char* name) {
    while (!text.empty()) {
        const ssize_t n = write(fd, text.data(), text.size());
        if (n >= 0) {
            text.remove_prefix(static_cast<size_t>(n));
        } else if (errno == EPIPE) {
            return Error{Status::Cancelled, std::string(name) + ": the reader is gone"};
        } else if (errno != EINTR && errno != EAGAIN) {
            return Error{Status::Io, std::string(name) + ": " + std::strerror(errno)};
        }
    }
    return {};
}

}  // namespace

Result<void> write_stdout(std::string_view text) {
    return write_all(STDOUT_FILENO, text, "standard output");
}

void write_stderr(std::string_view text) {
    (void)write_all(STDERR_FILENO, text, "standard error");  // there is nowhere left to complain
}

int fail(const Error& error) {
    if (error.status == Status::Cancelled) return 0;
    // A name from outside may hold a line break: the message is one line all the same.
    std::string line = printable(error.message);
    std::replace(line.begin(), line.end(), '\n', ' ');
    write_stderr("error: " + line + "\n");
    return exit_code(error.status);
}

int finish(const Result<void>& result) {
    return result ? 0 : fail(result.error());
}

Result<std::string> read_input(const std::string& path) {
    const bool standard = path == "-";
    const std::string name = standard ? "standard input" : path;
    const int fd = standard ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return Error{Status::BadRequest, name + ": " + std::strerror(errno)};
    std::string text;
    char block[65536];
    std::string problem;
    while (problem.empty()) {
        const ssize_t n = read(fd, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) break;
        if (n < 0) {
            problem = std::strerror(errno);
        } else if (text.size() + static_cast<size_t>(n) > kInputMax) {
            problem = "expected at most " + std::to_string(kInputMax) + " bytes, got more";
        } else {
            text.append(block, static_cast<size_t>(n));
        }
    }
    if (!standard) close(fd);
    if (!problem.empty()) return Error{Status::BadRequest, name + ": " + problem};
    return text;
}

bool use_color(When when) {
    if (when != When::Auto) return when == When::On;
    const char* no_color = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    if (no_color && no_color[0] != '\0') return false;
    if (!term || std::strcmp(term, "dumb") == 0) return false;
    return isatty(STDOUT_FILENO) == 1;
}

std::string printable(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        const auto c = static_cast<unsigned char>(text[i]);
        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) continue;
        // U+0080..U+009F are control characters too: c2 80 .. c2 9f.
        if (c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0) {
            ++i;
            continue;
        }
        out += text[i];
    }
    return out;
}

}  // namespace nib
