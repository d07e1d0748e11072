// SPDX-License-Identifier: MIT
// Servers on the two real models, for what a tiny random one cannot show: text that goes somewhere,
// characters of several tokens, a window that is shorter than the prompt. A server is started by
// the test that needs it, with the settings that it is about; loading takes a fraction of a second.
// Skipped, and said so, where the models are not in the cache (scripts/fetch-models).
#pragma once
#include "tests/server/fixture.h"

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace nib::test {

// Where the model is, whether it is there or not.
std::string smol_path();   // instructed, with a chat template, byte-level BPE, full attention
std::string gemma_path();  // base model, a window of 512 in most layers, SentencePiece, BOS

#define NEEDS_MODEL(path)                                                              \
    if (!file_exists(path)) {                                                          \
        GTEST_SKIP() << "skipped: " << (path) << " is missing (scripts/fetch-models)"; \
    }

class ModelServer : public testing::Test {
  protected:
    static std::unique_ptr<TestServer> start(const std::string& path, EngineOptions engine);
    static std::unique_ptr<TestServer> smol(EngineOptions engine = {}) {
        return start(smol_path(), std::move(engine));
    }
    static std::unique_ptr<TestServer> gemma(EngineOptions engine = {}) {
        return start(gemma_path(), std::move(engine));
    }
};

// Bodies for POST /completion: n tokens with nothing drawn, unless `more` says otherwise.
Json greedy(Json prompt, int n, const Json& more = Json::object());
Json user_says(const std::string& text, const Json& more = Json::object());  // a chat's body

// The answer's body; the test fails if its status is not 200.
Json ask(const TestServer& server, const Json& body, const char* path = "/completion");
inline Json ask_chat(const TestServer& server, const Json& body) {
    return ask(server, body, "/v1/chat/completions");
}
// All at the same time, each on a connection of its own; in the order of the bodies.
std::vector<Json> ask_at_once(const TestServer& server,
                              const std::vector<Json>& bodies,
                              const char* path = "/completion");

inline std::string text_of(const Json& answer) {
    return answer.value("content", "");
}

// n tokens of English prose from word `from` of a long text on, with BOS where the model wants it.
std::vector<Token> prose(TestServer& server, int from, int n);

}  // namespace nib::test
