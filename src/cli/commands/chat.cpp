// SPDX-License-Identifier: MIT
// nib chat: a conversation in the terminal, or one message per line from a pipe. Answers stream to
// stdout; everything else that is not asked for goes to stderr.
//
// Errors: a person is told and goes on; a pipe or --single-turn ends with the error's exit code.
#include "src/cli/chat_commands.h"
#include "src/cli/chat_session.h"
#include "src/cli/interrupt.h"
#include "src/cli/line_editor.h"
#include "src/cli/model.h"
#include "src/cli/output.h"
#include "src/command.h"
#include "src/option_values.h"

namespace nib {
namespace {

constexpr std::string_view kFence = "\"\"\"";

bool ends_with(std::string_view text, std::string_view end) {
    return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Joins the lines of a message: a trailing backslash and """ ... """ go on.
Result<Line> read_message(LineEditor& editor) {
    NIB_ASSIGN(Line line, editor.read(false));
    if (line.end != LineEnd::Line) return line;
    std::string text = std::move(line.text);
    const bool fenced = text.rfind(kFence, 0) == 0;
    if (fenced) text.erase(0, kFence.size());
    const auto open = [&] { return fenced ? !ends_with(text, kFence) : ends_with(text, "\\"); };
    while (open()) {
        NIB_ASSIGN(const Line more, editor.read(true));
        if (more.end == LineEnd::Interrupted) return more;
        if (more.end == LineEnd::EndOfInput) break;
        if (!fenced) text.pop_back();
        text += "\n" + more.text;
    }
    if (fenced && ends_with(text, kFence)) text.erase(text.size() - kFence.size());
    if (fenced && !text.empty() && text.front() == '\n') text.erase(0, 1);
    if (fenced && !text.empty() && text.back() == '\n') text.pop_back();
    return Line{LineEnd::Line, text};
}

class Chat {
  public:
    Chat(const Options& options, Engine& engine, ChatSession& session, LineEditor& editor)
        : options_(options), engine_(engine), editor_(editor), screen_{session, engine, {},
                                                                       false,   {},     {}} {
        screen_.print = [](std::string_view text) { return write_stdout(text); };
        screen_.answer = [this](std::optional<std::string_view> message) {
            return answer(message);
        };
    }

    Result<int> run();

  private:
    Result<void> answer(std::optional<std::string_view> message);
    Result<void> handle(const std::string& message);
    Result<std::optional<std::string>> first_message() const;

    const Options& options_;
    Engine& engine_;
    LineEditor& editor_;
    ChatScreen screen_;
    bool interrupted_ = false;  // the last thing was a Ctrl-C
};

Result<void> Chat::answer(std::optional<std::string_view> message) {
    const Interruptible interruptible(&engine_);
    Result<void> written;
    bool at_line_start = true;
    const auto on_text = [&](std::string_view text) {
        const std::string shown_text = printable(text);
        if (!shown_text.empty()) at_line_start = shown_text.back() == '\n';
        written = write_stdout(shown_text);
        return written.ok();
    };
    auto completion =
        message ? screen_.session.ask(*message, on_text) : screen_.session.regenerate(on_text);
    NIB_TRY(written);
    interrupted_ = interruptible.interrupted();
    if (!completion) {
        if (!at_line_start) NIB_TRY(write_stdout("\n"));
        return completion.error();
    }
    screen_.last = std::move(completion).value();
    return write_stdout(at_line_start && !screen_.last->text.empty() ? "" : "\n");
}

Result<void> Chat::handle(const std::string& message) {
    if (message.find_first_not_of(" \t\n") == std::string::npos) return {};
    editor_.remember(message);
    if (message.rfind("//", 0) == 0) return answer(std::string_view(message).substr(1));
    if (message[0] == '/') return run_chat_command(screen_, message);
    return answer(message);
}

// -p or -f; a single turn without them is the whole of a pipe or one message of a person.
Result<std::optional<std::string>> Chat::first_message() const {
    const bool given = options_.prompt || !options_.file.empty();
    if (!given && !(options_.single_turn && !editor_.interactive())) {
        return std::optional<std::string>();
    }
    NIB_ASSIGN(std::string text, prompt_text(options_));
    if (!given && !text.empty() && text.back() == '\n') text.pop_back();
    if (text.empty()) {
        return Error{Status::BadRequest, "the message is empty: expected some text, got none"};
    }
    return std::optional<std::string>(std::move(text));
}

Result<int> Chat::run() {
    NIB_ASSIGN(const auto first, first_message());
    if (first) {
        NIB_TRY(answer(*first));
        if (options_.single_turn) return interrupted_ ? kInterruptedExit : 0;
    }
    while (!screen_.quit) {
        NIB_ASSIGN(const Line line, read_message(editor_));
        if (line.end == LineEnd::EndOfInput) break;
        if (line.end == LineEnd::Interrupted) {
            if (interrupted_) return kInterruptedExit;
            interrupted_ = true;
            write_stderr("(Ctrl-C again or Ctrl-D ends the chat)\n");
            continue;
        }
        interrupted_ = false;
        const auto done = handle(line.text);
        const bool gone = !done && done.error().status == Status::Cancelled;
        if (!done && (gone || !editor_.interactive())) return done.error();
        if (!done) write_stderr("error: " + done.error().message + "\n");
        if (interrupted_ && !editor_.interactive()) return kInterruptedExit;
        if (options_.single_turn && screen_.last) break;
    }
    return 0;
}

Result<int> chat(const Options& options) {
    NIB_ASSIGN(const auto engine, open_engine(options));
    NIB_ASSIGN(const auto session, ChatSession::create(options, *engine));
    const std::string folder = state_folder();
    NIB_ASSIGN(const auto editor,
               LineEditor::create({.history_path = folder.empty() ? "" : folder + "/history",
                                   .commands = chat_command_names(),
                                   .color = use_color(options.color)}));
    if (editor->interactive()) {
        const ModelInfo& model = engine->model();
        write_stderr(printable(model.name) + ", " + model.backend + ", context " +
                     std::to_string(model.n_ctx) + ", seed " +
                     std::to_string(options.sampling.seed) + "; /help for help\n");
    }
    return Chat(options, *engine, *session, *editor).run();
}

int run(const Options& options) {
    const auto code = chat(options);
    return code ? code.value() : fail(code.error());
}

}  // namespace

extern const CommandDef command_chat = {
    .name = "chat",
    .aliases = "cli",
    .summary = "talk with a model in the terminal",
    .usage = "",
    .args_max = 0,
    .flags =
        kModelFlags | kEngineFlags | kSamplingFlags | kGenerateFlags | kPromptFlags | kChatFlags,
    .run = run,
};

}  // namespace nib
