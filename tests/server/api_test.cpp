// SPDX-License-Identifier: MIT
// The fields of requests: bad ones are refused by name, good ones do what they say, and every form
// of an answer agrees with the others.
#include "tests/server/fixture.h"

#include <cmath>
#include <map>
#include <set>
#include <thread>

#include <gmock/gmock.h>

namespace nib::test {
namespace {

using testing::HasSubstr;

class Api : public testing::Test {
  protected:
    // Refused with 400 and the field's name, without an engine that noticed.
    void expect_refused(const char* path, const std::string& body, const std::string& param) {
        const auto answer = server_.send(post_text(path, body));
        EXPECT_EQ(answer.status, 400) << body.substr(0, 200) << "\n" << answer.body;
        const Json error = answer.json()["error"];
        EXPECT_EQ(error["type"], "invalid_request_error") << body.substr(0, 200);
        EXPECT_TRUE(error["message"].is_string());
        EXPECT_LT(answer.body.size(), 2000u);  // input is not sent back whole
        if (param.empty()) return;
        ASSERT_TRUE(error["param"].is_string()) << answer.body;
        EXPECT_EQ(error["param"].get<std::string>().rfind(param, 0), 0u)
            << body.substr(0, 200) << ": " << error["param"];
    }
    // A completion with one more field.
    void refused_field(const std::string& name, const std::string& value) {
        const std::string length = name == "max_tokens" ? "" : R"("max_tokens": 1, )";
        expect_refused("/v1/completions",
                       R"({"prompt": "abc", )" + length + "\"" + name + "\": " + value + "}", name);
    }

    TinyServer server_;
};

TEST_F(Api, BodiesThatAreNoJsonObject) {
    for (const std::string& body :
         {std::string(), std::string("[]"), std::string("{}x"), std::string("nope"),
          std::string(R"({"prompt": "a", "prompt": "b"})"), std::string("\xff\xfe{\0}\0", 6),
          std::string("{\"prompt\": \"\xc0\x80\"}"), std::string(R"({"prompt": "\ud800"})"),
          std::string("{\"prompt\": \"\xff\"}"), std::string(R"({"prompt": NaN})"),
          std::string(R"({"prompt": 1e999})"),
          std::string("{\"prompt\": ") + std::string(100'000, '[')})
        expect_refused("/v1/completions", body, "");
    // A byte order mark, and a NUL in a text, are fine.
    EXPECT_EQ(server_.send(post_text("/tokenize", "\xef\xbb\xbf{\"content\": \"a\"}")).status, 200);
    EXPECT_EQ(server_.post("/tokenize", {{"content", std::string("a\0b", 3)}}).json()["tokens"],
              Json({97, 0, 98}));
}

TEST_F(Api, NumbersHaveTypesAndRanges) {
    for (const char* v : {"0", "-1", "129", "1000000", "\"2\"", "1.5"})
        refused_field("n", v);
    for (const char* v : {"-5", "1e30", "99999999999", "\"8\"", "1.5", "true"})
        refused_field("max_tokens", v);
    for (const char* v : {"\"a\"", "36893488147419103232", "1.5", "-2"})
        refused_field("seed", v);
    for (const char* v : {"-1", "1e39", "101", "\"1\""})
        refused_field("temperature", v);
    for (const char* v : {"2", "-0.5"})
        refused_field("top_p", v);
    for (const char* v : {"7", "-1"})
        refused_field("min_p", v);
    for (const char* v : {"100", "-2.5"})
        refused_field("frequency_penalty", v);
    for (const char* v : {"-3", "1.5", "\"k\""})
        refused_field("top_k", v);
    for (const char* v : {"6", "-1", "\"x\""})
        refused_field("logprobs", v);
    EXPECT_EQ(
        server_.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}, {"top_k", -1}}).status,
        200);
    expect_refused("/completion", R"({"prompt": "a", "n_predict": 1, "n_probs": 1000000000})",
                   "n_probs");
    expect_refused("/completion", R"({"prompt": "a", "n_predict": 1, "id_slot": 99})", "id_slot");
    expect_refused("/completion", R"({"prompt": "a", "n_predict": 1, "id_slot": -7})", "id_slot");
    expect_refused(
        "/v1/chat/completions",
        R"({"messages": [{"role": "user", "content": "a"}], "logprobs": true, "top_logprobs": 21})",
        "top_logprobs");
}

TEST_F(Api, Biases) {
    for (const char* v : {R"({"5": 1e39})", R"({"99999999": 1})", R"({"-7": 1})", R"({"5": "x"})",
                          R"({"5": 101})", "5", "[[5]]"})
        refused_field("logit_bias", v);
    std::string many = "{";
    for (int i = 0; i < 5000; i++)
        many += (i ? ",\"" : "\"") + std::to_string(i) + "\": 1";
    refused_field("logit_bias", many + "}");
    // A wanted token is chosen, a banned one is not.
    const auto choose = [&](const Json& bias) {
        return server_
            .post("/completion", {{"prompt", "abc"},
                                  {"n_predict", 4},
                                  {"temperature", 0},
                                  {"ignore_eos", true},
                                  {"return_tokens", true},
                                  {"logit_bias", bias}})
            .json()["tokens"];
    };
    EXPECT_EQ(choose({{"66", 100}}), Json({66, 66, 66, 66}));
    EXPECT_EQ(choose(Json::array({Json::array({67, 100})})), Json({67, 67, 67, 67}));
    const Json free_choice = choose(Json::object());
    const Json banned = choose(Json::array({Json::array({free_choice[0], false})}));
    EXPECT_NE(banned[0], free_choice[0]);
    Json all = Json::array();
    for (int i = 0; i < 300; i++)
        all.push_back(Json::array({i, false}));
    const auto none =
        server_.post("/completion", {{"prompt", "abc"}, {"n_predict", 4}, {"logit_bias", all}});
    EXPECT_EQ(none.status, 400);
    EXPECT_THAT(none.body, HasSubstr("no_token_allowed"));
}

TEST_F(Api, Stops) {
    for (const char* v : {"5", "[1]", "[\"\"]", "\"\""})
        refused_field("stop", v);
    Json many = Json::array();
    for (int i = 0; i < 100; i++)
        many.push_back("x" + std::to_string(i));
    refused_field("stop", dump_json(many));
    refused_field("stop", "\"" + std::string(1025, 's') + "\"");
}

TEST_F(Api, Prompts) {
    const auto ids = [](size_t n) { return Json(std::vector<int>(n, 97)); };
    for (const char* v : {"[-1]", "[300]", "[2147483648]", "{}", "null", "[]", "[[[1]]]", "[1.5]",
                          "true", "[[[\"a\"]]]"})
        expect_refused("/v1/completions", std::string(R"({"max_tokens": 1, "prompt": )") + v + "}",
                       "prompt");
    std::string many = "[";
    for (int i = 0; i < 10'000; i++)
        many += i ? ",\"a\"" : "\"a\"";
    expect_refused("/v1/completions", R"({"max_tokens": 1, "prompt": )" + many + "]}", "");
    const auto exact = server_.post(
        "/v1/completions", {{"prompt", ids(511)}, {"max_tokens", 5}, {"ignore_eos", true}});
    EXPECT_EQ(exact.status, 200);
    EXPECT_EQ(exact.json()["choices"][0]["finish_reason"], "length");
    const auto over = server_.post("/v1/completions", {{"prompt", ids(513)}});
    EXPECT_EQ(over.status, 400);
    const Json error = over.json()["error"];
    EXPECT_EQ(error["type"], "exceed_context_size_error");
    EXPECT_EQ(error["n_prompt_tokens"], 513);
    EXPECT_EQ(error["n_ctx"], 512);
}

TEST_F(Api, Messages) {
    const auto refused = [&](const std::string& messages) {
        expect_refused("/v1/chat/completions", R"({"max_tokens": 1, "messages": )" + messages + "}",
                       "messages");
    };
    for (const char* m :
         {"[]", "[{}]", "5", R"([{"role": 5, "content": "a"}])",
          R"([{"role": "alien", "content": "a"}])", R"([{"role": "user", "content": 5}])",
          R"([{"role": "user", "content": [null]}])",
          R"([{"role": "user", "content": [{"type": "image_url", )"
          R"("image_url": {"url": "file:///etc/passwd"}}]}])",
          R"([{"role": "user", "content": [{"type": "image_url", )"
          R"("image_url": {"url": "http://169.254.1.1/"}}]}])"})
        refused(m);
    // Parts of text are joined, a line each.
    const auto parts = server_.post(
        "/apply-template",
        {{"messages",
          {{{"role", "user"},
            {"content",
             {{{"type", "text"}, {"text", "ab"}}, {{"type", "text"}, {"text", "c"}}}}}}}});
    EXPECT_EQ(parts.json()["prompt"], "user: ab\nc\nassistant: ");
}

TEST_F(Api, WhatCannotBeHonouredIsRefusedAloud) {
    const Json messages = {{{"role", "user"}, {"content", "a"}}};
    for (const auto& [name, value] : {std::pair<const char*, Json>{"grammar", "root ::= \"a\""},
                                      {"json_schema", {{"type", "object"}}},
                                      {"response_format", {{"type", "json_object"}}},
                                      {"tool_choice", "required"}}) {
        Json body = {{"messages", messages}, {"max_tokens", 1}};
        body[name] = value;
        if (std::string(name) == "tool_choice") {
            body["tools"] = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
        }
        const auto answer = server_.post("/v1/chat/completions", body);
        EXPECT_TRUE(answer.status == 400 || answer.status == 501) << name << answer.body;
        EXPECT_THAT(answer.body, HasSubstr(name));
    }
    const auto plain = server_.post(
        "/v1/chat/completions",
        {{"messages", messages}, {"max_tokens", 1}, {"response_format", {{"type", "text"}}}});
    EXPECT_EQ(plain.status, 200);
}

TEST_F(Api, ModelsHaveTheirName) {
    const std::string id = server_.get("/v1/models").json()["data"][0]["id"];
    for (const std::string& name : {id, std::string("default")}) {
        EXPECT_EQ(
            server_.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}, {"model", name}})
                .status,
            200);
    }
    for (const char* name : {"../../etc/passwd", "absent"}) {
        const auto answer =
            server_.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}, {"model", name}});
        EXPECT_EQ(answer.status, 404);
        EXPECT_EQ(answer.json()["error"]["code"], "model_not_found");
    }
    expect_refused("/v1/completions", R"({"prompt": "a", "model": 5})", "model");
}

TEST(Aliases, TheFirstIsToldAllAreTakenAndAStarTakesAny) {
    for (const bool any : {false, true}) {
        TinyServer::Setup setup;
        setup.options.aliases = {"first", "second"};
        if (any) setup.options.aliases.push_back("*");
        const TinyServer server(std::move(setup));
        EXPECT_EQ(server.get("/v1/models").json()["data"][0]["id"], "first");
        for (const char* name : {"first", "second", "gpt-4o"}) {
            const auto answer = server.post("/v1/completions",
                                            {{"prompt", "a"}, {"max_tokens", 1}, {"model", name}});
            EXPECT_EQ(answer.status, any || std::string(name) != "gpt-4o" ? 200 : 404) << name;
        }
    }
}

TEST_F(Api, TokensAndBack) {
    const Json ids = server_.post("/tokenize", {{"content", "hello"}}).json()["tokens"];
    EXPECT_EQ(ids.size(), 5u);
    EXPECT_EQ(server_.post("/detokenize", {{"tokens", ids}}).json()["content"], "hello");
    for (const char* v : {"[-1]", "[2147483648]", "[\"a\"]", "5"})
        expect_refused("/detokenize", std::string(R"({"tokens": )") + v + "}", "tokens");
    expect_refused("/tokenize", R"({"content": 5})", "content");
    const Json pieces =
        server_.post("/tokenize", {{"content", "hi"}, {"with_pieces", true}}).json()["tokens"];
    EXPECT_EQ(pieces[0]["piece"], "h");
}

// The deltas of a stream, joined for each choice.
struct Streamed {
    std::map<int, std::string> texts, finishes;
    Json usage;
    size_t events = 0;
};
Streamed read_stream(const HttpAnswer& answer, const char* kind) {
    Streamed all;
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_TRUE(answer.whole);
    EXPECT_EQ(answer.header("content-type"), "text/event-stream");
    const auto events = answer.events();
    if (events.empty()) {
        ADD_FAILURE() << "no events";
        return all;
    }
    if (std::string(kind) != "llama") {
        EXPECT_EQ(events.back(), "[DONE]");
    }
    for (const std::string& text : events) {
        if (text == "[DONE]") continue;
        auto event = parse_json(text);
        EXPECT_TRUE(event.ok()) << text;
        if (!event.ok()) continue;
        all.events++;
        if (std::string(kind) == "llama") {
            all.texts[0] += event->value("content", "");
            if (event->value("stop", false)) all.finishes[0] = event->value("stop_type", "");
            continue;
        }
        if (event->contains("usage") && !(*event)["usage"].is_null()) all.usage = (*event)["usage"];
        for (const Json& choice : (*event)["choices"]) {
            const int index = choice["index"];
            const Json& text_of = std::string(kind) == "chat" ? choice["delta"] : choice;
            const char* field = std::string(kind) == "chat" ? "content" : "text";
            if (text_of.contains(field) && text_of[field].is_string())
                all.texts[index] += text_of[field].get<std::string>();
            if (choice["finish_reason"].is_string()) all.finishes[index] = choice["finish_reason"];
        }
    }
    return all;
}

TEST_F(Api, StreamsSayWhatWholeAnswersSay) {
    const Json messages = {{{"role", "user"}, {"content", "tell"}}};
    for (const Json& more : {Json{{"temperature", 0}}, Json{{"seed", 5}, {"temperature", 1.2}},
                             Json{{"seed", 5}, {"temperature", 1.2}, {"stop", {"e", "xyz"}}},
                             Json{{"seed", 9}, {"n", 3}, {"temperature", 1.5}}}) {
        for (const char* kind : {"chat", "completion", "llama"}) {
            const bool chat = std::string(kind) == "chat", llama = std::string(kind) == "llama";
            if (llama && more.contains("n")) continue;
            Json body = more;
            body[llama ? "n_predict" : "max_tokens"] = 60;
            if (chat)
                body["messages"] = messages;
            else
                body["prompt"] = "once";
            const char* path = chat    ? "/v1/chat/completions"
                               : llama ? "/completion"
                                       : "/v1/completions";
            const Json whole = server_.post(path, body).json();
            body["stream"] = true;
            if (!llama) body["stream_options"] = {{"include_usage", true}};
            const Streamed streamed = read_stream(server_.post(path, body), kind);
            if (llama) {
                EXPECT_EQ(streamed.texts.at(0), whole["content"]);
                EXPECT_EQ(streamed.finishes.at(0), whole["stop_type"]);
                continue;
            }
            for (const Json& choice : whole["choices"]) {
                const int index = choice["index"];
                const Json& text = chat ? choice["message"]["content"] : choice["text"];
                EXPECT_EQ(Json(streamed.texts.at(index)), text);
                EXPECT_EQ(streamed.finishes.at(index), choice["finish_reason"]);
                if (more.contains("stop")) {
                    EXPECT_THAT(text.get<std::string>(), Not(HasSubstr("e")));
                }
            }
            for (const char* n : {"prompt_tokens", "completion_tokens", "total_tokens"})
                EXPECT_EQ(streamed.usage[n], whole["usage"][n]) << kind << n;
        }
    }
}

TEST_F(Api, TimingsComeWithEveryPieceIfTheyAreWanted) {
    for (const char* path : {"/v1/completions", "/completion"}) {
        const auto answer = server_.post(path, {{"prompt", "abc"},
                                                {"max_tokens", 20},
                                                {"ignore_eos", true},
                                                {"temperature", 0},
                                                {"stream", true},
                                                {"timings_per_token", true}});
        int last = 0;
        for (const std::string& event : answer.events()) {
            if (event == "[DONE]") continue;
            const Json json = *parse_json(event);
            ASSERT_TRUE(json.contains("timings")) << event;
            EXPECT_GE(json["timings"]["predicted_n"], last);
            last = json["timings"]["predicted_n"];
        }
        EXPECT_EQ(last, 20);
    }
}

TEST_F(Api, ProgressOfAPromptStartsWithWhatTheCacheHadAndEndsWithAllOfIt) {
    const std::string prompt(300, 'q');
    for (const char* path : {"/completion", "/v1/completions", "/v1/chat/completions"}) {
        Json body = {{"max_tokens", 3}, {"stream", true}, {"return_progress", true}};
        body["prompt"] = prompt + path;
        body["messages"] = {{{"role", "user"}, {"content", prompt + path}}};
        body.erase(std::string(path).find("chat") == std::string::npos ? "messages" : "prompt");
        for (const bool again : {false, true}) {
            std::vector<Json> told;
            for (const std::string& event : server_.post(path, body).events()) {
                if (event == "[DONE]") continue;
                const Json json = *parse_json(event);
                if (json.contains("prompt_progress")) told.push_back(json["prompt_progress"]);
            }
            ASSERT_GE(told.size(), 2u) << path;
            EXPECT_EQ(told.front()["processed"], told.front()["cache"]);
            EXPECT_EQ(told.back()["processed"], told.back()["total"]);
            const int total = told.front()["total"];
            EXPECT_TRUE(!again || told.front()["cache"] == total - 1) << told.front();
            for (size_t i = 1; i < told.size(); i++)
                EXPECT_GT(told[i]["processed"], told[i - 1]["processed"]);
        }
    }
}

TEST_F(Api, OnlyTheFieldsThatAreWanted) {
    const Json body = {{"prompt", {{"prompt_string", "abc"}}},
                       {"n_predict", 3},
                       {"response_fields", {"content", "generation_settings/n_predict", "none"}}};
    const Json json = server_.post("/completion", body).json();
    EXPECT_EQ(json.size(), 2u) << json;
    EXPECT_EQ(json["generation_settings/n_predict"], 3);
    expect_refused("/completion", R"({"prompt": "a", "response_fields": "content"})",
                   "response_fields");
    expect_refused("/completion", R"({"prompt": "a", "response_fields": [1]})", "response_fields");
    expect_refused("/completion", R"({"prompt": {"prompt_string": "a", "multimodal_data": ["x"]}})",
                   "prompt.multimodal_data");
    expect_refused("/completion", R"({"prompt": {"prompt_string": [1]}})", "prompt");
}

TEST_F(Api, UsageComesOnlyIfItIsWanted) {
    const auto answer =
        server_.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 3}, {"stream", true}});
    EXPECT_TRUE(read_stream(answer, "completion").usage.is_null());
    expect_refused("/v1/completions",
                   R"({"prompt": "a", "stream_options": {"include_usage": true}})",
                   "stream_options");
}

TEST_F(Api, SeedsAreKeptAndTold) {
    const auto text = [&](const Json& seed) {
        Json body = {{"prompt", "abc"}, {"max_tokens", 20}, {"temperature", 1.5}, {"top_k", 0}};
        body["ignore_eos"] = true;
        if (!seed.is_null()) body["seed"] = seed;
        const Json answer = server_.post("/v1/completions", body).json();
        EXPECT_TRUE(answer["seed"].is_number_unsigned());
        return answer["choices"][0]["text"].get<std::string>();
    };
    std::set<std::string> free_texts;
    for (int i = 0; i < 10; i++)
        free_texts.insert(text(-1));
    EXPECT_GE(free_texts.size(), 8u);
    const std::string fixed = text(42);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(text(42), fixed);
    EXPECT_NE(text(43), fixed);
    text(9007199254740992);
    // In a crowd as alone.
    std::vector<std::thread> crowd;
    std::atomic<int> wrong{0};
    for (int i = 0; i < 6; i++)
        crowd.emplace_back([&, i] { wrong += i % 2 == 0 ? text(42) != fixed : (text(i), 0); });
    for (auto& t : crowd)
        t.join();
    EXPECT_EQ(wrong, 0);
}

TEST_F(Api, LogProbabilitiesInEveryForm) {
    const Json chat =
        server_
            .post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "a"}}}},
                                           {"max_tokens", 3},
                                           {"temperature", 0},
                                           {"ignore_eos", true},
                                           {"logprobs", true},
                                           {"top_logprobs", 5}})
            .json()["choices"][0];
    ASSERT_EQ(chat["logprobs"]["content"].size(), 3u);
    for (const Json& token : chat["logprobs"]["content"]) {
        ASSERT_EQ(token["top_logprobs"].size(), 5u);
        EXPECT_EQ(token["top_logprobs"][0]["logprob"], token["logprob"]);  // greedy
        double sum = 0, before = 0;
        for (const Json& t : token["top_logprobs"]) {
            const double p = t["logprob"];
            EXPECT_LE(p, before);
            before = p;
            sum += std::exp(p);
        }
        EXPECT_LE(sum, 1.0001);
        EXPECT_TRUE(token["bytes"].is_array());
    }
    const Json text = server_
                          .post("/v1/completions", {{"prompt", "a"},
                                                    {"max_tokens", 3},
                                                    {"temperature", 0},
                                                    {"ignore_eos", true},
                                                    {"logprobs", 2}})
                          .json()["choices"][0]["logprobs"];
    EXPECT_EQ(text["tokens"].size(), 3u);
    EXPECT_EQ(text["token_logprobs"].size(), 3u);
    EXPECT_EQ(text["top_logprobs"].size(), 3u);
    EXPECT_EQ(text["text_offset"].size(), 3u);
    const Json own = server_
                         .post("/completion", {{"prompt", "a"},
                                               {"n_predict", 3},
                                               {"temperature", 0},
                                               {"ignore_eos", true},
                                               {"n_probs", 4}})
                         .json()["completion_probabilities"];
    ASSERT_EQ(own.size(), 3u);
    EXPECT_EQ(own[0]["top_logprobs"].size(), 4u);
}

TEST_F(Api, FinishReasonsAndCachedTokens) {
    Json body = {{"prompt", std::string(100, 'p')}, {"max_tokens", 4}, {"ignore_eos", true}};
    const Json first = server_.post("/v1/completions", body).json();
    EXPECT_EQ(first["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    const Json second = server_.post("/v1/completions", body).json();
    EXPECT_EQ(second["usage"]["prompt_tokens_details"]["cached_tokens"], 99);
    EXPECT_EQ(second["timings"]["cache_n"], 99);
    EXPECT_EQ(second["timings"]["prompt_n"], 1);
    body["cache_prompt"] = false;
    EXPECT_EQ(server_.post("/v1/completions", body).json()["timings"]["cache_n"], 0);
    // An end token ends it with "stop" and is no text.
    const Json ended =
        server_
            .post("/completion",
                  {{"prompt", "abc"}, {"n_predict", 9}, {"logit_bias", {{"257", 100}}}})
            .json();
    EXPECT_EQ(ended["stop_type"], "eos");
    EXPECT_EQ(ended["content"], "");
    const Json zero = server_.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 0}}).json();
    EXPECT_EQ(zero["choices"][0]["text"], "");
}

TEST_F(Api, ChatLengthHasTwoNames) {
    for (const char* name : {"max_tokens", "max_completion_tokens"}) {
        Json body = {{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"ignore_eos", true}};
        body[name] = 5;
        EXPECT_EQ(server_.post("/v1/chat/completions", body).json()["usage"]["completion_tokens"],
                  5);
    }
}

TEST_F(Api, EmbeddingsInEveryForm) {
    const auto ask = [&](const Json& body) { return server_.post("/v1/embeddings", body); };
    const Json both = ask({{"input", {"hello", "other"}}}).json();
    ASSERT_EQ(both["data"].size(), 2u);
    double norm = 0;
    for (const Json& x : both["data"][0]["embedding"])
        norm += x.get<double>() * x.get<double>();
    EXPECT_NEAR(norm, 1, 1e-5);
    EXPECT_NE(both["data"][0]["embedding"], both["data"][1]["embedding"]);
    EXPECT_EQ(ask({{"input", "hello"}}).json()["data"][0]["embedding"],
              both["data"][0]["embedding"]);
    const Json ids =
        server_.post("/tokenize", {{"content", "hello"}, {"add_special", true}}).json()["tokens"];
    EXPECT_EQ(ask({{"input", ids}}).json()["data"][0]["embedding"], both["data"][0]["embedding"]);
    EXPECT_EQ(both["usage"]["prompt_tokens"], 2 * ids.size());
    const std::string base64 =
        ask({{"input", "hello"}, {"encoding_format", "base64"}}).json()["data"][0]["embedding"];
    EXPECT_EQ(base64.size(), (both["data"][0]["embedding"].size() * 4 + 2) / 3 * 4);
    for (const char* v : {"[]", "\"\"", "5", "{}", "[\"\"]"})
        expect_refused("/v1/embeddings", std::string(R"({"input": )") + v + "}", "input");
    expect_refused("/v1/embeddings", R"({"input": "a", "encoding_format": "hex"})",
                   "encoding_format");
}

TEST_F(Api, TemplatesAreShownAsTheyAreRendered) {
    const Json messages = {{{"role", "system"}, {"content", "s"}},
                           {{"role", "user"}, {"content", "u"}}};
    const std::string prompt =
        server_.post("/apply-template", {{"messages", messages}}).json()["prompt"];
    EXPECT_EQ(prompt, "system: s\nuser: u\nassistant: ");
    const Json answer =
        server_.post("/v1/chat/completions", {{"messages", messages}, {"max_tokens", 1}}).json();
    EXPECT_EQ(server_.post("/v1/chat/completions/input_tokens", {{"messages", messages}})
                  .json()["input_tokens"],
              answer["usage"]["prompt_tokens"]);
    EXPECT_EQ(server_.post("/v1/chat/completions/render", {{"messages", messages}}).status, 200);
}

TEST_F(Api, ABrokenTemplateLeavesTheRestAtWork) {
    TinyServer::Setup setup;
    setup.chat_template = "{% if x";
    const TinyServer broken(std::move(setup));
    const auto answer =
        broken.post("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "a"}}}}});
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(broken.post("/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}}).status, 200);
    setup = {};
    setup.chat_template = "{{ raise_exception('only cats') }}";
    const TinyServer raising(std::move(setup));
    const auto raised = raising.post("/v1/chat/completions",
                                     {{"messages", {{{"role", "user"}, {"content", "a"}}}}});
    EXPECT_EQ(raised.status, 400);
    EXPECT_THAT(raised.body, HasSubstr("only cats"));
}

TEST_F(Api, MetricsAreWellFormedAndCount) {
    server_.post("/v1/completions",
                 {{"prompt", "abcdef"}, {"max_tokens", 7}, {"ignore_eos", true}});
    const std::string text = server_.get("/metrics").body;
    std::map<std::string, double> values;
    std::set<std::string> described;
    size_t at = 0;
    while (at < text.size()) {
        const size_t end = text.find('\n', at);
        ASSERT_NE(end, std::string::npos);
        const std::string line = text.substr(at, end - at);
        at = end + 1;
        if (line.rfind("# ", 0) == 0) {
            const size_t name = line.find(' ', 2) + 1;
            described.insert(line.substr(name, line.find(' ', name) - name));
            continue;
        }
        const size_t space = line.rfind(' ');
        ASSERT_NE(space, std::string::npos) << line;
        std::string name = line.substr(0, line.find_first_of("{ "));
        values[line.substr(0, space)] = std::stod(line.substr(space + 1));
        for (const char* end_of : {"_bucket", "_sum", "_count"}) {
            if (name.ends_with(end_of) && !described.count(name))
                name.resize(name.size() - std::string(end_of).size());
        }
        EXPECT_TRUE(described.count(name)) << line;
    }
    EXPECT_EQ(values["llamacpp:prompt_tokens_total"], 6);
    EXPECT_EQ(values["llamacpp:tokens_predicted_total"], 7);
    EXPECT_EQ(values["vllm:time_to_first_token_seconds_count"], 1);
    EXPECT_EQ(values["vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"}"], 1);
    EXPECT_EQ(values["nib:kv_blocks{state=\"used\"}"] + values["nib:kv_blocks{state=\"cached\"}"] +
                  values["nib:kv_blocks{state=\"free\"}"],
              values["nib:kv_blocks_total"]);
}

TEST_F(Api, SlotsTellNoText) {
    const Json slots = server_.get("/slots").json();
    ASSERT_EQ(slots.size(), 4u);
    EXPECT_FALSE(slots[0]["is_processing"]);
    TinyServer::Setup setup;
    setup.options.slots = setup.options.metrics = false;
    const TinyServer closed(std::move(setup));
    EXPECT_EQ(closed.get("/slots").status, 501);
    EXPECT_EQ(closed.get("/metrics").status, 501);
}

TEST_F(Api, ConversationsSharePrefixesAndKeepTheirTexts) {
    // Four conversations in turns, each longer than the one before; a fifth comes when the cache is
    // full. Each is as it is alone.
    TinyServer::Setup small;
    small.engine.kv_bytes = 1;  // as little as there can be
    TinyServer tight(std::move(small));
    for (int turn = 1; turn <= 4; turn++) {
        for (int who = 0; who < 5; who++) {
            const std::string prompt(static_cast<size_t>(60 * turn), static_cast<char>('a' + who));
            const Json body = {
                {"prompt", prompt}, {"max_tokens", 20}, {"temperature", 0}, {"ignore_eos", true}};
            EXPECT_EQ(tight.post("/v1/completions", body).json()["choices"][0]["text"],
                      server_.post("/v1/completions", body).json()["choices"][0]["text"]);
        }
    }
    EXPECT_TRUE(tight.comes_to_rest());
}

}  // namespace
}  // namespace nib::test
