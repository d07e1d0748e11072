// SPDX-License-Identifier: MIT
#include "src/cli/chat_session.h"

#include "src/chat/messages.h"
#include "src/cli/chat_prompt.h"
#include "src/cli/model.h"
#include "src/cli/output.h"
#include "src/option_values.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nib {
namespace {

constexpr int kSaveVersion = 1;
constexpr size_t kNameMax = 64;
// A new stream of random numbers for each regenerated answer; odd, so that it visits every seed.
constexpr uint64_t kSeedStep = 0x9E3779B97F4A7C15;

// Text as a template takes it: bytes that are not UTF-8 become U+FFFD, as in any JSON that we
// write.
std::string clean_text(std::string_view text) {
    JsonLimits limits;
    limits.string_bytes = 3 * text.size() + 1;  // U+FFFD has three bytes
    const auto parsed = parse_json(dump_json(Json(std::string(text))), limits);
    return parsed && parsed->is_string() ? parsed->get<std::string>() : std::string();
}

Result<void> check_saved(const Json& saved, const std::string& path) {
    const auto bad = [&](const std::string& what) {
        return Error{Status::BadFile, path + ": " + what};
    };
    if (!saved.is_object() || !saved.contains("version") || saved["version"] != kSaveVersion) {
        return bad("expected a saved chat of version " + std::to_string(kSaveVersion));
    }
    if (!saved.contains("messages") || !saved["messages"].is_array()) {
        return bad("messages: expected an array");
    }
    for (const Json& message : saved["messages"]) {
        if (!message.is_object() || !message.contains("role") || !message["role"].is_string() ||
            !message.contains("content") || !message["content"].is_string()) {
            return bad("messages: expected objects with role and content");
        }
    }
    return {};
}

Result<void> write_and_sync(const std::string& path, std::string_view text) {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return Error{Status::Io, path + ": " + std::strerror(errno)};
    int problem = 0;
    while (!text.empty() && problem == 0) {
        const ssize_t n = write(fd, text.data(), text.size());
        if (n >= 0) {
            text.remove_prefix(static_cast<size_t>(n));
        } else if (errno != EINTR) {
            problem = errno;
        }
    }
    if (problem == 0 && fsync(fd) != 0) problem = errno;
    if (close(fd) != 0 && problem == 0) problem = errno;
    if (problem == 0) return {};
    unlink(path.c_str());
    return Error{Status::Io, path + ": " + std::strerror(problem)};
}

}  // namespace

Result<std::unique_ptr<ChatSession>> ChatSession::create(const Options& options, Engine& engine) {
    std::unique_ptr<ChatSession> session(new ChatSession(options, engine));
    NIB_TRY(session->load_template());
    std::string system = options.system_prompt;
    if (!options.system_prompt_file.empty()) {
        if (!system.empty()) {
            return Error{Status::BadRequest,
                         "expected one of --system-prompt and --system-prompt-file, got both"};
        }
        NIB_ASSIGN(system, read_input(options.system_prompt_file));
    }
    if (options.escape) system = unescape(system);
    if (!system.empty()) session->set_system(system);
    NIB_ASSIGN(session->kwargs_, template_kwargs(options));
    return session;
}

Result<void> ChatSession::load_template() {
    NIB_ASSIGN(ChosenTemplate chosen, choose_template(options_, engine_.model().chat_template));
    template_from_ = std::move(chosen.from);
    if (chosen.source.empty()) {
        return Error{Status::BadRequest, "chat template: the model " + engine_.model().path +
                                             " has none; give --chat-template chatml or "
                                             "--chat-template-file FILE, or use nib run"};
    }
    auto parsed = ChatTemplate::parse(chosen.source);
    if (!parsed) return template_error(parsed.error());
    template_ = std::move(parsed).value();
    return {};
}

Result<std::vector<Token>> ChatSession::render_prompt() const {
    const Tokenizer& tokenizer = *engine_.tokenizer();
    ChatRequest request;
    request.messages = messages_;
    request.add_generation_prompt = true;
    request.kwargs = kwargs_;
    request.bos_token = mark_text(tokenizer, tokenizer.bos());
    request.eos_token = mark_text(tokenizer, tokenizer.eos());
    const auto rendered = render_chat(*template_, request, std::time(nullptr));
    if (!rendered) return template_error(rendered.error());
    return encode_rendered(tokenizer, rendered.value());
}

Result<Completion> ChatSession::answer(const std::function<bool(std::string_view)>& on_text) {
    Request request = base_request(options_, engine_);
    NIB_ASSIGN(request.prompt, render_prompt());
    if (request.prompt.empty()) {
        return Error{Status::BadFile, "chat template: expected at least one token, got none"};
    }
    auto completion = engine_.generate(request, on_text);
    if (!completion) return completion;
    messages_.push_back({{"role", "assistant"}, {"content", completion->text}});
    return completion;
}

Result<Completion> ChatSession::ask(std::string_view message,
                                    const std::function<bool(std::string_view)>& on_text) {
    messages_.push_back({{"role", "user"}, {"content", clean_text(message)}});
    auto completion = answer(on_text);
    if (!completion) messages_.erase(messages_.size() - 1);
    return completion;
}

Result<Completion> ChatSession::regenerate(const std::function<bool(std::string_view)>& on_text) {
    if (messages_.empty() || messages_.back()["role"] != "assistant") {
        return Error{Status::BadRequest, "there is no answer to generate again"};
    }
    const Json kept = messages_.back();
    messages_.erase(messages_.size() - 1);
    options_.sampling.seed += kSeedStep;
    auto completion = answer(on_text);
    if (!completion) messages_.push_back(kept);
    return completion;
}

bool ChatSession::undo() {
    size_t last = messages_.size();
    while (last > 0 && messages_[last - 1]["role"] != "user")
        --last;
    if (last == 0) return false;
    while (messages_.size() >= last)
        messages_.erase(messages_.size() - 1);
    return true;
}

void ChatSession::clear() {
    Json kept = Json::array();
    if (!messages_.empty() && messages_[0]["role"] == "system") kept.push_back(messages_[0]);
    messages_ = std::move(kept);
    engine_.clear_cache();
}

void ChatSession::set_system(std::string_view text) {
    if (!messages_.empty() && messages_[0]["role"] == "system") messages_.erase(0);
    if (text.empty()) return;
    Json all = Json::array();
    all.push_back({{"role", "system"}, {"content", clean_text(text)}});
    for (Json& message : messages_)
        all.push_back(std::move(message));
    messages_ = std::move(all);
}

Result<void> ChatSession::save(const std::string& path) const {
    const Json saved = {
        {"version", kSaveVersion}, {"model", engine_.model().name}, {"messages", messages_}};
    const std::string aside = path + ".new";
    NIB_TRY(write_and_sync(aside, dump_json(saved, 2) + "\n"));
    if (rename(aside.c_str(), path.c_str()) != 0) {
        const int problem = errno;
        unlink(aside.c_str());
        return Error{Status::Io, path + ": " + std::strerror(problem)};
    }
    return {};
}

Result<void> ChatSession::load(const std::string& path) {
    NIB_ASSIGN(const std::string text, read_input(path));
    auto saved = parse_json(text);
    if (!saved) return Error{Status::BadFile, path + ": " + saved.error().message};
    NIB_TRY(check_saved(saved.value(), path));
    messages_ = saved.value()["messages"];
    return {};
}

std::string state_folder() {
    const char* state = std::getenv("XDG_STATE_HOME");
    const char* home = std::getenv("HOME");
    std::string base;
    if (state && state[0] == '/') {
        base = state;
    } else if (home && home[0] == '/') {
        base = std::string(home) + "/.local/state";
    } else {
        return {};
    }
    const std::string folder = base + "/nib";
    std::error_code error;
    std::filesystem::create_directories(base, error);
    if (error) return {};
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return {};
    chmod(folder.c_str(), 0700);
    return folder;
}

Result<std::string> saved_chat_path(std::string_view name) {
    constexpr std::string_view kAllowed =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    if (name.empty() || name.size() > kNameMax || name[0] == '.' ||
        name.find_first_not_of(kAllowed) != std::string_view::npos) {
        return Error{
            Status::BadRequest,
            "expected a name of up to 64 letters, digits, dots and dashes, got " + shown(name)};
    }
    const std::string folder = state_folder();
    if (folder.empty()) return Error{Status::Io, "the state folder cannot be made"};
    const std::string chats = folder + "/chats";
    if (mkdir(chats.c_str(), 0700) != 0 && errno != EEXIST) {
        return Error{Status::Io, chats + ": " + std::strerror(errno)};
    }
    return chats + "/" + std::string(name) + ".json";
}

}  // namespace nib
