// SPDX-License-Identifier: MIT
#include "src/cli/chat_commands.h"

#include "src/cli/model.h"
#include "src/cli/output.h"
#include "src/option_help.h"
#include "src/option_values.h"

#include <cstdio>

namespace nib {
namespace {

struct ChatCommand {
    const char* name;
    const char* argument;
    const char* help;
    Result<void> (*run)(ChatScreen& screen, const std::string& argument);
};

std::span<const ChatCommand> commands();

Result<void> help(ChatScreen& screen, const std::string&) {
    std::string text;
    for (const ChatCommand& command : commands()) {
        std::string left = std::string(command.name) + " " + command.argument;
        left.resize(std::max<size_t>(left.size() + 1, 20), ' ');
        text += left + command.help + "\n";
    }
    return screen.print(
        text +
        "\nA message goes on after a line that ends with \\, and between two \"\"\". "
        "Alt-Enter makes a new line.\nCtrl-C stops an answer, Ctrl-D ends the chat.\n");
}

Result<void> quit(ChatScreen& screen, const std::string&) {
    screen.quit = true;
    return {};
}

Result<void> clear(ChatScreen& screen, const std::string&) {
    screen.session.clear();
    return {};
}

Result<void> set_system(ChatScreen& screen, const std::string& text) {
    screen.session.set_system(text);
    return {};
}

// "temp 0.2": the flags of sampling and length, with their names, ranges and messages.
Result<void> set(ChatScreen& screen, const std::string& argument) {
    const size_t space = argument.find(' ');
    const std::string name = argument.substr(0, space);
    if (space == std::string::npos) {
        return Error{Status::BadRequest, "/set: expected NAME VALUE, got " + shown(argument)};
    }
    std::vector<std::string> known;
    for (const FlagRow& row : all_flags()) {
        if (!(row.sets & (kSamplingFlags | kGenerateFlags))) continue;
        for (const std::string& flag : flag_names(row)) {
            const std::string bare = flag.substr(flag.find_first_not_of('-'));
            known.push_back(bare);
            if (name != bare && name != flag) continue;
            Options changed = screen.session.options();
            if (row.clear) row.clear(changed);
            const auto done = row.set(changed, argument.substr(space + 1));
            if (!done) return Error{Status::BadRequest, name + ": " + done.error().message};
            screen.session.options() = std::move(changed);
            return {};
        }
    }
    const std::string near = nearest(name, known);
    return Error{Status::BadRequest, "/set: unknown name " + shown(name) +
                                         (near.empty() ? "" : "; did you mean " + near + "?")};
}

Result<void> show(ChatScreen& screen, const std::string&) {
    const ModelInfo& model = screen.engine.model();
    const Options& o = screen.session.options();
    const SamplingParams& s = o.sampling;
    std::string samplers;
    for (const std::string& name : s.samplers)
        samplers += (samplers.empty() ? "" : ";") + name;
    char numbers[256];
    std::snprintf(numbers, sizeof numbers,
                  "temp %g, top-k %d, top-p %g, min-p %g, repeat-penalty %g, predict %d, seed %llu",
                  static_cast<double>(s.temperature), s.top_k, static_cast<double>(s.top_p),
                  static_cast<double>(s.min_p), static_cast<double>(s.repeat_penalty), o.predict,
                  static_cast<unsigned long long>(s.seed));
    std::string text = "model     " + model.path + "\n";
    text += "          " + model.name + ", " + model.arch + ", " + model.type_name + ", " +
            model.backend + "\n";
    text += "context   " + std::to_string(model.n_ctx) + " tokens\n";
    text += "template  " + screen.session.template_source() + "\n";
    text += "sampling  " + std::string(numbers) + "\n          " + samplers + "\n";
    text += "messages  " + std::to_string(screen.session.messages().size()) + "\n";
    return screen.print(printable(text));
}

Result<void> stats(ChatScreen& screen, const std::string&) {
    if (!screen.last) return screen.print("no answer yet\n");
    return screen.print(statistics(*screen.last, screen.session.options().sampling.seed) + "\n");
}

Result<void> save(ChatScreen& screen, const std::string& name) {
    NIB_ASSIGN(const std::string path, saved_chat_path(name));
    NIB_TRY(screen.session.save(path));
    return screen.print("saved " + path + "\n");
}

Result<void> load(ChatScreen& screen, const std::string& name) {
    NIB_ASSIGN(const std::string path, saved_chat_path(name));
    NIB_TRY(screen.session.load(path));
    return screen.print("loaded " + std::to_string(screen.session.messages().size()) +
                        " messages\n");
}

Result<void> regenerate(ChatScreen& screen, const std::string&) {
    return screen.answer(std::nullopt);
}

Result<void> undo(ChatScreen& screen, const std::string&) {
    if (screen.session.undo()) return {};
    return Error{Status::BadRequest, "/undo: there is no message to take back"};
}

Result<void> read(ChatScreen& screen, const std::string& path) {
    if (path.empty()) return Error{Status::BadRequest, "/read: expected a file name, got none"};
    NIB_ASSIGN(const std::string text, read_input(path));
    return screen.answer(std::string_view(text));
}

std::span<const ChatCommand> commands() {
    static constexpr ChatCommand kCommands[] = {
        {"/help", "", "this list", help},
        {"/clear", "", "forget the conversation, keep the system message", clear},
        {"/system", "TEXT", "set the system message; without TEXT: none", set_system},
        {"/set", "NAME VALUE", "change a sampling flag, as in /set temp 0.2", set},
        {"/show", "", "model, context, sampling", show},
        {"/stats", "", "speed of the last answer", stats},
        {"/save", "NAME", "save the conversation", save},
        {"/load", "NAME", "go on with a saved conversation", load},
        {"/regen", "", "answer again", regenerate},
        {"/undo", "", "take back the last message and its answer", undo},
        {"/read", "FILE", "send the text of a file", read},
        {"/exit", "", "end", quit},
        {"/bye", "", "end", quit},
    };
    return kCommands;
}

}  // namespace

std::span<const char* const> chat_command_names() {
    static const std::vector<const char*> names = [] {
        std::vector<const char*> list;
        for (const ChatCommand& command : commands())
            list.push_back(command.name);
        return list;
    }();
    return names;
}

Result<void> run_chat_command(ChatScreen& screen, std::string_view line) {
    const size_t space = std::min(line.find_first_of(" \n\t"), line.size());
    const std::string_view name = line.substr(0, space);
    std::string argument(line.substr(std::min(space + 1, line.size())));
    argument.erase(0, std::min(argument.find_first_not_of(" \t"), argument.size()));
    std::vector<std::string> known;
    for (const ChatCommand& command : commands()) {
        if (name == command.name) return command.run(screen, argument);
        known.emplace_back(command.name);
    }
    const std::string near = nearest(name, known);
    return Error{Status::BadRequest,
                 "unknown command " + shown(name) + "; " +
                     (near.empty() ? "/help lists them" : "did you mean " + near + "?") +
                     " (a message may begin with //)"};
}

}  // namespace nib
