// SPDX-License-Identifier: MIT
// The slash commands of nib chat: one row each.
#pragma once
#include "src/cli/chat_session.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nib {

// What the chat loop offers to a command.
struct ChatScreen {
    ChatSession& session;
    Engine& engine;
    std::optional<Completion> last;  // the newest answer
    bool quit = false;

    // Shows an answer as it comes. An error has been shown if the result is not ok.
    std::function<Result<void>(std::optional<std::string_view> message)>
        answer;  // none: regenerate
    std::function<Result<void>(std::string_view text)> print;
};

// Names with their slash, for completion.
std::span<const char* const> chat_command_names();

// Runs "/name argument". Errors: BadRequest for what the person typed, else what the command met.
Result<void> run_chat_command(ChatScreen& screen, std::string_view line);

}  // namespace nib
