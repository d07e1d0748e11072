// SPDX-License-Identifier: MIT
// A conversation: messages, the template that turns them into a prompt, and the engine that
// answers. It prints nothing; the chat command and tests drive it.
#pragma once
#include "ggml-like/result.h"
#include "src/chat/chat_template.h"
#include "src/engine.h"
#include "src/json/json.h"
#include "src/options.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace nib {

class ChatSession {
  public:
    // Loads the template: --chat-template-file, then --chat-template, then the model's own. Errors
    // name the chat template and the line; a model without one is BadRequest.
    static Result<std::unique_ptr<ChatSession>> create(const Options& options, Engine& engine);

    // Adds a user message and generates the answer, which becomes a message too. An error leaves
    // the conversation as it was. on_text gets what the model says as it says it.
    Result<Completion> ask(std::string_view message,
                           const std::function<bool(std::string_view)>& on_text);
    // Answers the last user message again, with other random numbers.
    Result<Completion> regenerate(const std::function<bool(std::string_view)>& on_text);
    // Takes back the last question and its answer; false if there is none.
    bool undo();
    void clear();  // keeps the system message
    void set_system(std::string_view text);

    // A file of the conversation: written aside, synced, renamed.
    Result<void> save(const std::string& path) const;
    Result<void> load(const std::string& path);

    Options& options() { return options_; }
    const Json& messages() const { return messages_; }
    const std::string& template_source() const { return template_from_; }

  private:
    ChatSession(const Options& options, Engine& engine) : options_(options), engine_(engine) {}
    Result<void> load_template();
    Result<std::vector<Token>> render_prompt() const;
    Result<Completion> answer(const std::function<bool(std::string_view)>& on_text);

    Options options_;
    Engine& engine_;
    std::shared_ptr<const ChatTemplate> template_;
    std::string template_from_;  // for people
    Json kwargs_ = Json::object();
    Json messages_ = Json::array();
};

// ${XDG_STATE_HOME:-~/.local/state}/nib, made with mode 0700 if it is missing; empty if it cannot
// be made.
std::string state_folder();
// The file of a saved chat; BadRequest if the name is not a plain name.
Result<std::string> saved_chat_path(std::string_view name);

}  // namespace nib
