// SPDX-License-Identifier: MIT
// The C interface says what the C++ one says.
#include "src/engine_c.h"
#include "tests/engine/tiny_engine.h"

#include <cstring>

namespace nib::test {
namespace {

TEST(EngineC, OpensAnswersAndCounts) {
    const TinyFile file;
    nib_error error = {};
    nib_engine_options options = {};
    options.size = sizeof options;
    options.model_path = file.path().c_str();
    options.parallel = 2;
    nib_engine* engine = nib_engine_open(&options, &error);
    ASSERT_NE(engine, nullptr) << error.message;
    EXPECT_EQ(nib_engine_vocabulary(engine), 300);

    int32_t ids[8];
    ASSERT_EQ(nib_tokenize(engine, "hello", 5, 0, 0, ids, 8), 5u);
    char text[8];
    ASSERT_EQ(nib_detokenize(engine, ids, 5, text, sizeof text), 5u);
    EXPECT_EQ(std::string(text, 5), "hello");
    EXPECT_EQ(nib_tokenize(engine, "hello", 5, 0, 0, ids, 2), 5u);  // says how many there are

    const auto prompt = some_tokens(20);
    nib_request request = {};
    request.size = sizeof request;
    request.prompt = prompt.data();
    request.prompt_n = prompt.size();
    request.max_tokens = 9;
    request.ignore_eos = 1;
    nib_stream* stream = nib_submit(engine, &request, &error);
    ASSERT_NE(stream, nullptr) << error.message;
    std::vector<Token> tokens;
    nib_event event = {};
    while (!event.done) {
        ASSERT_EQ(nib_stream_next(stream, 60'000, &event), 1);
        tokens.insert(tokens.end(), event.tokens, event.tokens + event.tokens_n);
    }
    EXPECT_EQ(event.finish, NIB_FINISH_LENGTH);
    EXPECT_EQ(event.error.status, NIB_OK);
    nib_stream_close(stream);
    EXPECT_EQ(tokens, file.open()->generate(greedy_request(prompt, 9))->tokens);

    nib_stats stats = {};
    nib_engine_stats(engine, &stats);
    EXPECT_EQ(stats.prompt_tokens, 20u);
    EXPECT_EQ(stats.predicted_tokens, 9u);
    nib_engine_close(engine);
}

TEST(EngineC, FailuresAreNumbersAndWords) {
    nib_error error = {};
    EXPECT_EQ(nib_engine_open(nullptr, &error), nullptr);
    EXPECT_EQ(error.status, NIB_BAD_REQUEST);
    nib_engine_options options = {};
    options.size = sizeof options;
    options.model_path = "/nowhere/at/all.gguf";
    EXPECT_EQ(nib_engine_open(&options, &error), nullptr);
    EXPECT_EQ(error.status, NIB_BAD_FILE);
    EXPECT_NE(std::strstr(error.message, "/nowhere/at/all.gguf"), nullptr);

    const TinyFile file;
    options.model_path = file.path().c_str();
    nib_engine* engine = nib_engine_open(&options, nullptr);
    ASSERT_NE(engine, nullptr);
    const int32_t bad[] = {-1};
    nib_request request = {};
    request.size = sizeof request;
    request.prompt = bad;
    request.prompt_n = 1;
    EXPECT_EQ(nib_submit(engine, &request, &error), nullptr);
    EXPECT_EQ(error.status, NIB_BAD_REQUEST);
    nib_engine_close(engine);
}

}  // namespace
}  // namespace nib::test
