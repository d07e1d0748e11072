// SPDX-License-Identifier: MIT
// The line editor at a real (pseudo) terminal: a child reads lines and reports them through a pipe.
#include "src/cli/line_editor.h"
#include "src/command.h"
#include "tests/cli/helpers.h"

#include <cstdlib>
#include <thread>

#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nib {

// The program has a generated list; this one has no commands.
std::span<const CommandDef* const> all_commands() {
    return {};
}

namespace test {
namespace {

constexpr const char* kCommands[] = {"/clear", "/save", "/set", "/system"};

// Reads lines until the input ends and writes "line:TEXT|" and the like to `report`.
[[noreturn]] void child(int report, const std::string& history) {
    setenv("TERM", "xterm", 1);
    alarm(20);  // a test that waits for ever fails instead
    auto editor =
        LineEditor::create({.history_path = history, .commands = kCommands, .color = false});
    if (!editor) _exit(1);
    std::string out = editor.value()->interactive() ? "terminal|" : "pipe|";
    while (true) {
        const auto line = editor.value()->read(false);
        if (!line || line->end == LineEnd::EndOfInput) break;
        out += line->end == LineEnd::Interrupted ? "interrupted|" : "line:" + line->text + "|";
        editor.value()->remember(line->text);
    }
    editor = Error{};  // closes the terminal
    out += "end";
    if (write(report, out.data(), out.size()) < 0) _exit(1);
    _exit(0);
}

// What the child reports if these keys are typed, one string after another.
std::string type(const std::vector<std::string>& keys, const std::string& history = {}) {
    int report[2], terminal = -1;
    if (pipe(report) != 0) return "pipe failed";
    const pid_t pid = forkpty(&terminal, nullptr, nullptr, nullptr);
    if (pid == 0) {
        close(report[0]);
        child(report[1], history);
    }
    close(report[1]);
    std::string screen;
    const auto wait_until_ready = [&] {
        char block[4096];
        const size_t from = screen.size();
        // Pastes are announced when the terminal is ready for keys.
        while (screen.find("\033[?2004h", from) == std::string::npos) {
            const ssize_t n = read(terminal, block, sizeof block);
            if (n <= 0) return;
            screen.append(block, static_cast<size_t>(n));
        }
    };
    for (const std::string& text : keys) {
        wait_until_ready();
        if (write(terminal, text.data(), text.size()) < 0) break;
    }
    // The child must not block on a full terminal.
    std::thread drain([terminal] {
        char block[4096];
        while (read(terminal, block, sizeof block) > 0) {
        }
    });
    std::string out;
    char block[4096];
    ssize_t n = 0;
    while ((n = read(report[0], block, sizeof block)) > 0)
        out.append(block, static_cast<size_t>(n));
    int status = 0;
    waitpid(pid, &status, 0);
    drain.join();
    close(terminal);
    close(report[0]);
    return out;
}

TEST(LineEditor, LinesAndTheEnd) {
    EXPECT_EQ(type({"hello\r", "\x04"}), "terminal|line:hello|end");
    EXPECT_EQ(type({"a\r", "\r", "b\r", "\x04"}), "terminal|line:a|line:|line:b|end");
}

TEST(LineEditor, CharactersAreErasedWhole) {
    EXPECT_EQ(type({"z\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80!\r", "\x04"}),
              "terminal|line:z\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80!|end");
    EXPECT_EQ(type({"x\xf0\x9f\x98\x80\x7f\xc3\xa4\x7fy\r", "\x04"}), "terminal|line:xy|end");
}

TEST(LineEditor, APasteIsOneMessage) {
    EXPECT_EQ(type({"see: \033[200~one\rtwo\tthree\033[201~!\r", "\x04"}),
              "terminal|line:see: one\ntwo\tthree!|end");
}

TEST(LineEditor, AltEnterMakesANewLine) {
    EXPECT_EQ(type({"one\033\rtwo\r", "\x04"}), "terminal|line:one\ntwo|end");
}

TEST(LineEditor, CtrlCForgetsTheLine) {
    EXPECT_EQ(type({"abc\x03", "def\r", "\x04"}), "terminal|interrupted|line:def|end");
}

TEST(LineEditor, TabCompletesCommands) {
    EXPECT_EQ(type({"/cl\t\r", "/s\t\r", "\x04"}), "terminal|line:/clear |line:/s|end");
}

TEST(LineEditor, HistoryIsPrivateAndComesBack) {
    const TempDir folder;
    const std::string file = folder.file("history");
    EXPECT_EQ(type({"first line\r", "second\r", "\x04"}, file),
              "terminal|line:first line|line:second|end");
    struct stat info = {};
    ASSERT_EQ(stat(file.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    EXPECT_EQ(type({"\033[A\033[A\r", "\x04"}, file), "terminal|line:first line|end");
}

}  // namespace
}  // namespace test
}  // namespace nib
