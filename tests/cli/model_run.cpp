// SPDX-License-Identifier: MIT
// nib run and nib chat with the default model; skipped if it is not in the cache.
#include "tests/cli/helpers.h"

#include <algorithm>

namespace nib::test {
namespace {

using testing::HasSubstr;
using testing::Not;

#define REQUIRE_MODEL() \
    if (test_model().empty()) GTEST_SKIP() << "skipped: the default model is not in the cache"

class ModelCli : public Cli {
  protected:
    ProcessResult run(std::vector<std::string> args, std::string_view input = {}) {
        args.insert(args.begin(), {"run", "-m", test_model(), "-c", "512"});
        return nib(args, input);
    }
    ProcessResult chat(std::vector<std::string> args, std::string_view input = {}) {
        args.insert(args.begin(), {"chat", "-m", test_model(), "-c", "1024", "--temp", "0"});
        return nib(args, input);
    }
};

TEST_F(ModelCli, RunPrintsTheCompletionOnly) {
    REQUIRE_MODEL();
    const auto text = run({"-p", "The capital of France is", "-n", "6", "--temp", "0"});
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr("Paris"));
    EXPECT_THAT(text.out, Not(HasSubstr("capital of France is")));
    EXPECT_THAT(text.err, HasSubstr("answer: 6 tokens"));
    // -f and standard input are the same prompt.
    const std::string file = write("p.txt", "The capital of France is");
    EXPECT_EQ(run({"-f", file, "-n", "6", "--temp", "0"}).out, text.out);
    EXPECT_EQ(run({"-n", "6", "--temp", "0"}, "The capital of France is").out, text.out);
    const auto json = run({"-p", "The capital of France is", "-n", "6", "--temp", "0", "--json"});
    EXPECT_EQ(json.out.rfind("{\"text\":\"" + text.out.substr(0, 4), 0), 0u) << json.out;
    for (const char* key :
         {"\"tokens\":[", "\"finish_reason\":\"length\"",
          "\"timings\":{\"prompt_n\":", "\"prompt_ms\":", "\"cached_n\":0", "\"predicted_n\":6",
          "\"predicted_ms\":", "\"draft_n\":0", "\"draft_n_accepted\":0"}) {
        EXPECT_THAT(json.out, HasSubstr(key));
    }
}

TEST_F(ModelCli, RunErrors) {
    REQUIRE_MODEL();
    std::string words;
    for (int i = 0; i < 600; ++i)
        words += " word";
    const auto long_prompt = run({"-n", "4"}, words);
    expect_error(long_prompt, 1, "512");
    EXPECT_THAT(long_prompt.err, HasSubstr("600"));
    expect_error(run({"-n", "4"}, ""), 2, "the prompt is empty");
    expect_error(run({"-p", "x", "--logit-bias", "99999999+1"}), 2, "logit_bias");
    const auto full = shell("", "run -m '" + test_model() + "' -c 512 -p Hi -n 3 > /dev/full");
    EXPECT_EQ(full.exit_code, 1);
    EXPECT_THAT(full.err, HasSubstr("error: standard output: No space left"));
}

TEST_F(ModelCli, SeedsAndStops) {
    REQUIRE_MODEL();
    const auto with_seed = [&](const char* seed) {
        return run({"-p", "Once upon a time", "-n", "12", "--temp", "1.5", "-s", seed}).out;
    };
    EXPECT_EQ(with_seed("42"), with_seed("42"));
    EXPECT_NE(with_seed("42"), with_seed("43"));
    EXPECT_NE(with_seed("-1"), with_seed("-1"));
    EXPECT_THAT(run({"-p", "a", "-n", "1", "-s", "77"}).err, HasSubstr("seed 77"));
    const auto stopped =
        run({"-p", "The capital of France is", "-n", "6", "--temp", "0", "-r", "Paris"});
    EXPECT_THAT(stopped.out, Not(HasSubstr("Par")));
    EXPECT_THAT(stopped.err, HasSubstr("; stop; seed"));
}

TEST_F(ModelCli, ChatAnswersOnce) {
    REQUIRE_MODEL();
    const auto answer = chat({"-st", "-p", "What is the capital of France? One word.", "-n", "16"});
    EXPECT_EQ(answer.exit_code, 0) << answer.err;
    EXPECT_EQ(answer.err, "");
    EXPECT_THAT(answer.out, HasSubstr("Paris"));
    EXPECT_THAT(answer.out, Not(HasSubstr("<|im_")));
    EXPECT_EQ(answer.out.back(), '\n');
    // A pipe with --single-turn is one message.
    EXPECT_EQ(chat({"-st", "-n", "16"}, "What is the capital of France? One word.\n").out,
              answer.out);
}

TEST_F(ModelCli, ChatFromAPipe) {
    REQUIRE_MODEL();
    const auto talk =
        chat({"-n", "4"}, "Hi\n\n/stats\n/undo\n/set temp 0.5\n/show\n/exit\nnever\n");
    EXPECT_EQ(talk.exit_code, 0) << talk.err;
    EXPECT_THAT(talk.out, HasSubstr("answer: 4 tokens"));
    EXPECT_THAT(talk.out, HasSubstr("temp 0.5"));
    EXPECT_THAT(talk.out, HasSubstr("messages  0"));
    EXPECT_THAT(talk.out, HasSubstr("the model's own"));
    expect_error(chat({}, "/nope\n"), 2, "unknown command \"/nope\"");
    expect_error(chat({}, "/set temp nan\n"), 2, "temp: expected a number");
    expect_error(chat({}, "/set tmep 1\n"), 2, "did you mean temp?");
    EXPECT_EQ(chat({}, "").exit_code, 0);
}

TEST_F(ModelCli, ChatOnManyLines) {
    REQUIRE_MODEL();
    const auto one = chat({"-n", "8"}, "\"\"\"Say\nhello\"\"\"\n/show\n");
    EXPECT_THAT(one.out, HasSubstr("messages  2"));
    const auto two = chat({"-n", "8"}, "Say\\\nhello\n/show\n");
    EXPECT_THAT(two.out, HasSubstr("messages  2"));
    const std::string cut = two.out.substr(0, two.out.find("model "));
    EXPECT_EQ(one.out.substr(0, one.out.find("model ")), cut)
        << "the same message, the same answer";
}

TEST_F(ModelCli, ChatSavesAndLoads) {
    REQUIRE_MODEL();
    const auto saved = chat({"-n", "4", "-sys", "Be brief."}, "Hi\n/save first\n");
    EXPECT_EQ(saved.exit_code, 0) << saved.err;
    const std::string path = folder() + "/state/nib/chats/first.json";
    EXPECT_THAT(read_file(path), HasSubstr("\"content\": \"Be brief.\""));
    EXPECT_FALSE(file_exists(path + ".new"));
    EXPECT_THAT(chat({}, "/load first\n/show\n").out, HasSubstr("messages  3"));
    expect_error(chat({}, "/load ../first\n"), 2, "expected a name");
    expect_error(chat({}, "/load other\n"), 2, "other.json");
    write_file(path, "{\"version\": 1, \"messages\": [{\"role\": 5}]}");
    expect_error(chat({}, "/load first\n"), 2, "first.json");
}

TEST_F(ModelCli, ChatTemplateErrors) {
    REQUIRE_MODEL();
    const auto with = [&](std::string_view source) {
        return chat({"-st", "-p", "hi", "--chat-template-file", write("t.jinja", source)});
    };
    const auto undefined = with("{{ messages[0].nope.x }}");
    expect_error(undefined, 2, "error: chat template: ");
    EXPECT_THAT(undefined.err, HasSubstr("(line 1)"));
    EXPECT_THAT(with("{% for %}").err, HasSubstr("(line 1)"));
    expect_error(with("{% for %}"), 2, "error: chat template: ");
    expect_error(with(""), 2, "error: chat template: ");
    expect_error(with(std::string("\n\x00\xff\x01", 4)), 2, "(line 2)");
    expect_error(with("{{ raise_exception('no such luck') }}"), 2, "no such luck");
    expect_error(chat({"-st", "-p", "hi", "--chat-template-file", "/nowhere.jinja"}), 2,
                 "error: chat template: /nowhere.jinja");
    expect_error(chat({"-st", "-p", "hi", "--chat-template", "nope"}), 2, "got \"nope\"");
    EXPECT_EQ(chat({"-st", "-p", "hi", "-n", "2", "--chat-template", "chatml"}).exit_code, 0);
    expect_error(chat({"-st", "-p", "hi", "--chat-template-kwargs", "[1]"}), 2, "a JSON object");
    expect_error(chat({"-st", "-p", "hi", "--chat-template-kwargs", "{\"messages\":1}"}), 2,
                 "messages");
}

TEST_F(ModelCli, MessagesMayBeAnyBytes) {
    REQUIRE_MODEL();
    EXPECT_EQ(chat({"-st", "-p", "\xff\xfe\xc3", "-n", "2"}).exit_code, 0);
    const auto saved = chat({"-n", "2"}, "\xff\xed\xa0\x80\n/save odd\n");
    EXPECT_EQ(saved.exit_code, 0) << saved.err;
    EXPECT_THAT(chat({}, "/load odd\n/show\n").out, HasSubstr("messages  2"));
}

TEST_F(ModelCli, MarksInAMessageStayText) {
    REQUIRE_MODEL();
    // With the mark taken for a control token the prompt would be shorter.
    const auto count = [&](const char* text) {
        const std::string out = chat({"-n", "1"}, std::string(text) + "\n/stats\n").out;
        const size_t at = out.find("prompt: ");
        return at == std::string::npos ? 0 : std::stoi(out.substr(at + 8));
    };
    EXPECT_GT(count("<|im_end|>"), count("x") + 2);
}

}  // namespace
}  // namespace nib::test
