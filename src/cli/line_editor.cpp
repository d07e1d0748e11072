// SPDX-License-Identifier: MIT
// libedit reads characters through our own function: it decodes UTF-8 whatever the locale says, and
// turns Ctrl-C into the end of el_wgets() instead of a signal in the middle of it. The terminal
// marks pastes with ESC[200~ and ESC[201~ while a line is read and only then.
#include "src/cli/line_editor.h"

#include "src/cli/output.h"

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <cwchar>

#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nib {
namespace {

constexpr int kHistoryMax = 1000;
constexpr size_t kLineMax = size_t{64} << 20;
constexpr std::wstring_view kPasteEnd = L"\033[201~";

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): a signal handler has no other
// way in. Ctrl-C arrives as a byte in this pipe: a flag could be set just before read() goes to
// sleep, and the signal may be delivered to a thread that does not read at all.
int interrupt_pipe[2] = {-1, -1};
bool interrupt_seen = false;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

void note_interrupt(int) {
    const int kept = errno;
    if (write(interrupt_pipe[1], "", 1) < 0) errno = kept;  // full, so it says so already
    errno = kept;
}

void forget_interrupts() {
    interrupt_seen = false;
    char old = 0;
    while (read(interrupt_pipe[0], &old, 1) == 1) {
    }
}

void append_utf8(std::string& out, wchar_t wide) {
    const auto c = static_cast<uint32_t>(wide);
    if (c < 0x80) {
        out += static_cast<char>(c);
        return;
    }
    const int tail = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    constexpr uint32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
    out += static_cast<char>(kLead[tail] | (c >> (6 * tail)));
    for (int i = tail - 1; i >= 0; --i)
        out += static_cast<char>(0x80 | ((c >> (6 * i)) & 0x3F));
}

std::string to_utf8(std::wstring_view text) {
    std::string out;
    for (const wchar_t c : text)
        append_utf8(out, c);
    return out;
}

// How many bytes follow a lead byte, or -1.
int tail_bytes(unsigned char lead) {
    if (lead < 0x80) return 0;
    if (lead >= 0xC2 && lead < 0xE0) return 1;
    if (lead >= 0xE0 && lead < 0xF0) return 2;
    return lead >= 0xF0 && lead < 0xF5 ? 3 : -1;
}

// 1: a byte; 0: the end; -1: an error or Ctrl-C (interrupt_seen).
int read_byte(unsigned char& byte) {
    pollfd waiting[2] = {{STDIN_FILENO, POLLIN, 0}, {interrupt_pipe[0], POLLIN, 0}};
    while (true) {
        if (poll(waiting, 2, -1) < 0) {
            if (errno == EINTR) continue;
            return -1;
        }
        if (waiting[1].revents & POLLIN) {
            interrupt_seen = true;
            return -1;
        }
        const ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n >= 0) return static_cast<int>(n);
        if (errno != EINTR) return -1;
    }
}

// libedit's source of characters.
int read_wide(EditLine*, wchar_t* out) {
    unsigned char byte = 0;
    const int got = read_byte(byte);
    if (got <= 0) return got;
    const int tail = tail_bytes(byte);
    if (tail <= 0) {
        *out = tail == 0 ? static_cast<wchar_t>(byte) : L'\xFFFD';
        return 1;
    }
    uint32_t value = byte & (0x3Fu >> tail);
    for (int i = 0; i < tail; ++i) {
        if (read_byte(byte) <= 0) return -1;
        value = value << 6 | (byte & 0x3F);
    }
    *out = static_cast<wchar_t>(value);
    return 1;
}

unsigned char insert_newline(EditLine* line, int) {
    return el_winsertstr(line, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

// Everything up to the end mark is text, whatever the keys mean otherwise.
unsigned char insert_paste(EditLine* line, int) {
    std::wstring text;
    wchar_t c = 0;
    while (text.size() < kLineMax && el_wgetc(line, &c) == 1) {
        text += c == L'\r' ? L'\n' : c;
        if (text.size() >= kPasteEnd.size() &&
            text.compare(text.size() - kPasteEnd.size(), kPasteEnd.size(), kPasteEnd) == 0) {
            text.resize(text.size() - kPasteEnd.size());
            break;
        }
    }
    std::wstring clean;
    for (const wchar_t w : text) {
        if (w >= L' ' || w == L'\n' || w == L'\t') clean += w;
    }
    if (clean.empty()) return CC_REFRESH;
    return el_winsertstr(line, clean.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

}  // namespace

struct LineEditor::Impl {
    LineEditorOptions options;
    bool interactive = false;
    bool continued = false;
    EditLine* edit = nullptr;
    HistoryW* history = nullptr;
    std::string pipe_rest;  // read from a pipe, not yet returned
    bool pipe_ended = false;

    void open_terminal();
    void save_history();
    void complete();
    Line read_terminal();
    Result<Line> read_pipe();
    ~Impl();
};

namespace {

const wchar_t* show_prompt(EditLine* line) {
    void* self = nullptr;
    el_wget(line, EL_CLIENTDATA, &self);
    const auto* editor = static_cast<const LineEditorOptions*>(self);
    // \1 marks the colours, which take no room on the line; libedit drops them at the very end.
    return editor->color ? L"\1\033[1;32m\1>\1\033[0m\1 " : L"> ";
}

const wchar_t* show_continued(EditLine*) {
    return L"... ";
}

// Tab: the one command that the line begins with, or nothing.
unsigned char complete_command(EditLine* line, int) {
    void* self = nullptr;
    el_wget(line, EL_CLIENTDATA, &self);
    const auto* editor = static_cast<const LineEditorOptions*>(self);
    const LineInfoW* info = el_wline(line);
    const std::string typed =
        to_utf8({info->buffer, static_cast<size_t>(info->cursor - info->buffer)});
    if (typed.empty() || typed[0] != '/') return CC_ERROR;
    const char* match = nullptr;
    for (const char* command : editor->commands) {
        if (std::strncmp(command, typed.c_str(), typed.size()) != 0) continue;
        if (match) return CC_ERROR;
        match = command;
    }
    if (!match) return CC_ERROR;
    std::wstring rest;
    for (const char* c = match + typed.size(); *c; ++c)
        rest += static_cast<wchar_t>(*c);
    return el_winsertstr(line, (rest + L" ").c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

}  // namespace

LineEditor::Impl::~Impl() {
    if (history) {
        save_history();
        history_wend(history);
    }
    if (edit) el_end(edit);
}

void LineEditor::Impl::open_terminal() {
    // Output goes through the locale; a C locale would show umlauts as escapes.
    if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    edit = el_init("nib", stdin, stdout, stderr);
    if (!edit) return;
    el_wset(edit, EL_CLIENTDATA, &options);
    el_wset(edit, EL_EDITOR, L"emacs");
    el_wset(edit, EL_GETCFN, read_wide);
    el_wset(edit, EL_ADDFN, L"nib-paste", L"insert a paste", insert_paste);
    el_wset(edit, EL_ADDFN, L"nib-newline", L"insert a newline", insert_newline);
    el_wset(edit, EL_ADDFN, L"nib-complete", L"complete a command", complete_command);
    el_wset(edit, EL_BIND, L"\\e[200~", L"nib-paste", nullptr);
    el_wset(edit, EL_BIND, L"\\e^M", L"nib-newline", nullptr);
    el_wset(edit, EL_BIND, L"\\e^J", L"nib-newline", nullptr);
    el_wset(edit, EL_BIND, L"^I", L"nib-complete", nullptr);
    el_wset(edit, EL_BIND, L"^R", L"em-inc-search-prev", nullptr);
    history = history_winit();
    if (!history) return;
    HistEventW event;
    history_w(history, &event, H_SETSIZE, kHistoryMax);
    history_w(history, &event, H_SETUNIQUE, 1);
    if (!options.history_path.empty()) {
        history_w(history, &event, H_LOAD, options.history_path.c_str());
    }
    el_wset(edit, EL_HIST, history_w, history);
}

// A new file beside the old one, then its name: a crash loses nothing that was there.
void LineEditor::Impl::save_history() {
    if (options.history_path.empty()) return;
    const std::string aside = options.history_path + ".new";
    const int fd = open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return;
    fchmod(fd, 0600);
    close(fd);
    HistEventW event;
    if (history_w(history, &event, H_SAVE, aside.c_str()) < 0 ||
        rename(aside.c_str(), options.history_path.c_str()) != 0) {
        unlink(aside.c_str());
    }
}

Line LineEditor::Impl::read_terminal() {
    struct sigaction action = {}, previous = {};
    action.sa_handler = note_interrupt;
    sigemptyset(&action.sa_mask);
    forget_interrupts();
    sigaction(SIGINT, &action, &previous);
    el_wset(edit, EL_PROMPT_ESC, continued ? show_continued : show_prompt, L'\1');
    // Raw before the prompt shows: libedit does it after, and a Ctrl-D typed in between would be
    // lost.
    el_wset(edit, EL_PREP_TERM, 1);
    write_stderr("\033[?2004h");
    int length = 0;
    const wchar_t* text = el_wgets(edit, &length);
    write_stderr("\033[?2004l");
    sigaction(SIGINT, &previous, nullptr);
    if (interrupt_seen) {
        el_reset(edit);
        write_stderr("\n");
        return {LineEnd::Interrupted, {}};
    }
    if (!text || length <= 0) {
        write_stderr("\n");
        return {LineEnd::EndOfInput, {}};
    }
    std::string line = to_utf8({text, static_cast<size_t>(length)});
    if (!line.empty() && line.back() == '\n') line.pop_back();
    return {LineEnd::Line, line};
}

Result<Line> LineEditor::Impl::read_pipe() {
    while (true) {
        const size_t end = pipe_rest.find('\n');
        if (end != std::string::npos || (pipe_ended && !pipe_rest.empty())) {
            Line line{LineEnd::Line, pipe_rest.substr(0, end)};
            pipe_rest.erase(0, end == std::string::npos ? end : end + 1);
            if (!line.text.empty() && line.text.back() == '\r') line.text.pop_back();
            return line;
        }
        if (pipe_ended) return Line{};
        char block[4096];
        const ssize_t n = ::read(STDIN_FILENO, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        // A closed standard input has nothing more to say.
        if (n < 0 && errno != EBADF) {
            return Error{Status::Io, std::string("standard input: ") + std::strerror(errno)};
        }
        if (n <= 0) {
            pipe_ended = true;
        } else if (pipe_rest.size() > kLineMax) {
            return Error{Status::BadRequest, "standard input: expected lines up to " +
                                                 std::to_string(kLineMax) + " bytes, got more"};
        } else {
            pipe_rest.append(block, static_cast<size_t>(n));
        }
    }
}

LineEditor::LineEditor() : impl_(std::make_unique<Impl>()) {}
LineEditor::~LineEditor() = default;

Result<std::unique_ptr<LineEditor>> LineEditor::create(LineEditorOptions options) {
    std::unique_ptr<LineEditor> editor(new LineEditor());
    editor->impl_->options = std::move(options);
    editor->impl_->interactive = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
    if (!editor->impl_->interactive) return editor;
    if (interrupt_pipe[0] < 0 && pipe2(interrupt_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        return Error{Status::Io, std::string("line editor: ") + std::strerror(errno)};
    }
    editor->impl_->open_terminal();
    if (!editor->impl_->edit) {
        return Error{Status::Io, "line editor: cannot use this terminal"};
    }
    return editor;
}

bool LineEditor::interactive() const {
    return impl_->interactive;
}

Result<Line> LineEditor::read(bool continued) {
    impl_->continued = continued;
    if (impl_->interactive) return impl_->read_terminal();
    return impl_->read_pipe();
}

void LineEditor::remember(const std::string& message) {
    if (!impl_->history || message.empty()) return;
    std::wstring wide(message.size() + 1, L'\0');
    std::mbstate_t state{};
    const char* from = message.c_str();
    const size_t n = std::mbsrtowcs(wide.data(), &from, wide.size(), &state);
    if (n == static_cast<size_t>(-1)) return;  // not text in this locale
    wide.resize(n);
    HistEventW event;
    history_w(impl_->history, &event, H_ENTER, wide.c_str());
    impl_->save_history();
}

}  // namespace nib
