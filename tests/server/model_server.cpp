// SPDX-License-Identifier: MIT
#include "tests/server/model_server.h"

#include <cstdlib>
#include <thread>

namespace nib::test {
namespace {

std::string cached_model(const char* file) {
    const char* cache = std::getenv("XDG_CACHE_HOME");
    const char* home = std::getenv("HOME");
    const std::string base = cache && *cache ? cache : std::string(home ? home : "") + "/.cache";
    return base + "/nib/models/" + file;
}

// The longest of the prompts that the golden results were made with.
std::string long_text() {
    auto prompts =
        parse_json(read_file(std::string(NIB_SOURCE_DIR) + "/tests/golden/data/prompts.json"));
    EXPECT_TRUE(prompts.ok());
    std::string longest;
    for (const Json& prompt : prompts.ok() ? *prompts : Json::array()) {
        const auto& text = prompt["text"].get_ref<const std::string&>();
        if (text.size() > longest.size()) longest = text;
    }
    return longest;
}

}  // namespace

std::string smol_path() {
    return cached_model("SmolLM2-135M-Instruct.Q4_1.gguf");
}

std::string gemma_path() {
    return cached_model("gemma-3-270m-q4_k_m.gguf");
}

std::unique_ptr<TestServer> ModelServer::start(const std::string& path, EngineOptions engine) {
    engine.model_path = path;
    if (engine.context == 0) engine.context = 2048;
    return std::make_unique<TestServer>(Options{}, HttpOptions{}, engine);
}

Json greedy(Json prompt, int n, const Json& more) {
    Json body = {
        {"prompt", std::move(prompt)}, {"n_predict", n}, {"temperature", 0}, {"ignore_eos", true}};
    body.update(more);
    return body;
}

Json user_says(const std::string& text, const Json& more) {
    Json body = {{"messages", {{{"role", "user"}, {"content", text}}}}, {"temperature", 0}};
    body.update(more);
    return body;
}

Json ask(const TestServer& server, const Json& body, const char* path) {
    const HttpAnswer answer = server.post(path, body);
    EXPECT_EQ(answer.status, 200) << dump_json(body).substr(0, 300) << "\n" << answer.body;
    return answer.json();
}

std::vector<Json> ask_at_once(const TestServer& server,
                              const std::vector<Json>& bodies,
                              const char* path) {
    std::vector<Json> answers(bodies.size());
    std::vector<std::thread> clients;
    for (size_t i = 0; i < bodies.size(); i++)
        clients.emplace_back([&, i] { answers[i] = ask(server, bodies[i], path); });
    for (auto& client : clients)
        client.join();
    return answers;
}

std::vector<Token> prose(TestServer& server, int from, int n) {
    const Tokenizer& tokenizer = *server.engine().tokenizer();
    const auto all = tokenizer.encode(long_text(), false, false);
    std::vector<Token> tokens = tokenizer.encode("", true, false);
    EXPECT_GT(all.size(), 1000u);
    for (size_t i = static_cast<size_t>(from); tokens.size() < static_cast<size_t>(n); i++)
        tokens.push_back(all[i % all.size()]);
    return tokens;
}

}  // namespace nib::test
