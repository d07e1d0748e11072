// SPDX-License-Identifier: MIT
// The C interface says what the C++ one says.
#include "src/engine_c.h"
#include "tests/engine/tiny_engine.h"

#include <cstring>
#include <limits>

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

nib_engine* open_tiny(const TinyFile& file) {
    nib_engine_options options = {};
    options.size = sizeof options;
    options.model_path = file.path().c_str();
    nib_error error = {};
    nib_engine* engine = nib_engine_open(&options, &error);
    EXPECT_NE(engine, nullptr) << error.message;
    return engine;
}

TEST(EngineC, NullPointersAreAnswers) {
    nib_engine_close(nullptr);
    nib_stream_close(nullptr);
    nib_stream_cancel(nullptr);
    EXPECT_EQ(nib_engine_context(nullptr), 0);
    EXPECT_EQ(nib_engine_vocabulary(nullptr), 0);
    nib_stats stats = {};
    stats.running = 7;
    nib_engine_stats(nullptr, &stats);
    EXPECT_EQ(stats.running, 0);
    EXPECT_EQ(nib_tokenize(nullptr, "a", 1, 0, 0, nullptr, 0), 0u);
    EXPECT_EQ(nib_detokenize(nullptr, nullptr, 0, nullptr, 0), 0u);

    nib_error error = {};
    nib_request request = {};
    request.size = sizeof request;
    EXPECT_EQ(nib_submit(nullptr, &request, &error), nullptr);
    EXPECT_EQ(error.status, NIB_BAD_REQUEST);
    EXPECT_STREQ(error.message, "engine: expected one, got NULL");
    EXPECT_EQ(nib_submit(nullptr, nullptr, nullptr), nullptr);
    nib_event event = {};
    EXPECT_EQ(nib_stream_next(nullptr, 0, &event), 1);
    EXPECT_EQ(event.done, 1);
    EXPECT_EQ(event.text_n, 0u);
    EXPECT_EQ(event.error.status, NIB_BAD_REQUEST);
    EXPECT_EQ(nib_stream_next(nullptr, 0, nullptr), 0);
}

TEST(EngineC, NullPointersToAnEngineAreAnswersToo) {
    const TinyFile file;
    nib_engine* engine = open_tiny(file);
    ASSERT_NE(engine, nullptr);
    nib_engine_stats(engine, nullptr);
    EXPECT_EQ(nib_tokenize(engine, nullptr, 3, 0, 0, nullptr, 0), 0u);
    EXPECT_EQ(nib_tokenize(engine, nullptr, 0, 0, 0, nullptr, 0), 0u);
    EXPECT_EQ(nib_tokenize(engine, "hello", 5, 0, 0, nullptr, 99), 5u);
    EXPECT_EQ(nib_detokenize(engine, nullptr, 3, nullptr, 0), 0u);
    const int32_t strange[] = {-1, INT32_MIN, INT32_MAX, 300, 104};
    char text[8] = {};
    EXPECT_LE(nib_detokenize(engine, strange, 5, text, sizeof text), sizeof text);

    nib_error error = {};
    const int32_t prompt[] = {1, 2, 3};
    nib_request request = {};
    request.size = sizeof request;
    const auto refused = [&](const char* word) {
        error = {};
        EXPECT_EQ(nib_submit(engine, &request, nullptr), nullptr);
        EXPECT_EQ(nib_submit(engine, &request, &error), nullptr);
        EXPECT_EQ(error.status, NIB_BAD_REQUEST);
        EXPECT_NE(std::strstr(error.message, word), nullptr) << error.message;
    };
    EXPECT_EQ(nib_submit(engine, nullptr, &error), nullptr);
    EXPECT_EQ(error.status, NIB_BAD_REQUEST);
    refused("prompt");  // empty
    request.prompt_n = 3;
    refused("prompt");  // a length without tokens
    request.prompt = prompt;
    request.stop_n = 2;
    refused("stop");
    const char* stop[] = {"end", nullptr};
    request.stop = stop;
    refused("stop[1]");
    request.stop_n = 1;
    request.size = sizeof request - sizeof request.ignore_eos - sizeof request.priority;
    refused("size");  // of a struct that never was
    request.size = sizeof request;
    request.temperature = std::numeric_limits<float>::quiet_NaN();
    refused("temperature");
    nib_engine_close(engine);
}

TEST(EngineC, OptionsThatCannotBeAreRefused) {
    const TinyFile file;
    nib_engine_options options = {};
    options.size = sizeof options;
    nib_error error = {};
    EXPECT_EQ(nib_engine_open(&options, &error), nullptr);
    EXPECT_EQ(error.status, NIB_BAD_REQUEST);
    options.model_path = file.path().c_str();
    options.size = 8;
    EXPECT_EQ(nib_engine_open(&options, &error), nullptr);
    EXPECT_EQ(error.status, NIB_BAD_REQUEST);
    options.size = sizeof options;
    options.parallel = -1;
    EXPECT_EQ(nib_engine_open(&options, &error), nullptr);
    EXPECT_EQ(error.status, NIB_BAD_REQUEST);
    EXPECT_NE(std::strstr(error.message, "parallel"), nullptr);
    // A struct of a later version is longer; what is not known of it is not read.
    struct {
        nib_engine_options known;
        char later[64];
    } longer = {};
    longer.known.size = sizeof longer;
    longer.known.model_path = file.path().c_str();
    nib_engine* engine = nib_engine_open(&longer.known, &error);
    EXPECT_NE(engine, nullptr) << error.message;
    nib_engine_close(engine);
}

nib_stream* submit_endless(nib_engine* engine) {
    const auto prompt = some_tokens(20);
    nib_request request = {};
    request.size = sizeof request;
    request.prompt = prompt.data();
    request.prompt_n = prompt.size();
    request.max_tokens = -1;
    request.ignore_eos = 1;
    return nib_submit(engine, &request, nullptr);
}

TEST(EngineC, StreamsOutliveTheirEngine) {
    const TinyFile file;
    nib_engine* engine = open_tiny(file);
    ASSERT_NE(engine, nullptr);
    nib_stream* stream = submit_endless(engine);
    ASSERT_NE(stream, nullptr);
    nib_event event = {};
    while (nib_stream_next(stream, 60'000, &event) && event.tokens_n == 0) {
    }
    nib_engine_close(engine);
    nib_stream_cancel(stream);
    while (!event.done)
        ASSERT_EQ(nib_stream_next(stream, 60'000, &event), 1);
    EXPECT_TRUE(event.finish == NIB_FINISH_CANCELLED || event.finish == NIB_FINISH_LENGTH);
    EXPECT_EQ(nib_stream_next(stream, 0, &event), 1);  // done stays done
    EXPECT_EQ(event.done, 1);
    EXPECT_EQ(event.tokens_n, 0u);
    nib_stream_close(stream);
}

TEST(EngineC, CancelEndsAStream) {
    const TinyFile file;
    nib_engine* engine = open_tiny(file);
    ASSERT_NE(engine, nullptr);
    nib_stream* stream = submit_endless(engine);
    ASSERT_NE(stream, nullptr);
    nib_stream_cancel(stream);
    nib_event event = {};
    while (!event.done)
        ASSERT_EQ(nib_stream_next(stream, 60'000, &event), 1);
    EXPECT_EQ(event.finish, NIB_FINISH_CANCELLED);
    EXPECT_EQ(event.error.status, NIB_OK);
    nib_stream_close(stream);
    nib_engine_close(engine);
}

}  // namespace
}  // namespace nib::test
