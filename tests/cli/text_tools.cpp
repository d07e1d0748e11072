// SPDX-License-Identifier: MIT
// nib tokenize on a synthetic vocabulary, nib template.
#include "tests/cli/helpers.h"

namespace nib::test {
namespace {

using testing::HasSubstr;

class TokenizeCli : public Cli {
  protected:
    std::string out(std::vector<std::string> args, std::string_view input = {}) {
        args.insert(args.begin(), {"tokenize", "-m", file_});
        const auto result = nib(args, input);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        EXPECT_EQ(result.err, "");
        return result.out;
    }
    std::string file_ = vocabulary();
};

TEST_F(TokenizeCli, Forms) {
    EXPECT_EQ(out({"--ids", "ab"}), "[263]\n");
    EXPECT_EQ(out({"ab"}), "[263]\n");
    EXPECT_EQ(out({"--ids", "--add-special", "ab"}), "[1, 263]\n");
    EXPECT_EQ(out({"--count", "ab ab"}), "2\n");
    EXPECT_EQ(out({"--pieces", "abZ"}), "263\t\" ab\"\n93\t\"Z\"\n");
    EXPECT_EQ(out({"--ids", ""}), "[]\n");
}

TEST_F(TokenizeCli, WhereTextComesFrom) {
    EXPECT_EQ(out({"--ids"}, "ab"), "[263]\n");
    EXPECT_EQ(out({"--ids"}, "ab\n"), "[263, 13]\n") << "bytes as they are";
    EXPECT_EQ(out({"--ids", "-p", "ab"}), "[263]\n");
    EXPECT_EQ(out({"--ids", "-f", write("t.txt", "ab")}), "[263]\n");
    EXPECT_EQ(out({"--ids", "-e", "ab\\n"}), "[263, 13]\n");
    EXPECT_EQ(out({"--ids", "--", "--ids"}).size() > 4, true) << "after -- nothing is a flag";
    // Texts that a library could take for lists or flags.
    for (const char* text : {"[ab]", "{}", "--temp", "-5", "%%", "[]"}) {
        EXPECT_EQ(out({"--count", "-p", text}), out({"--count"}, text)) << text;
    }
    expect_error(nib({"tokenize", "-m", file_, "-p", "a", "b"}), 2, "got two");
    expect_error(nib({"tokenize", "-m", file_, "a", "b"}), 2, "unexpected argument \"b\"");
}

TEST_F(TokenizeCli, ControlMarks) {
    EXPECT_EQ(out({"--ids", "</s>"}), "[2]\n");
    EXPECT_EQ(out({"--count", "--no-parse-special", "</s>"}), "5\n") << "a space and four bytes";
}

TEST_F(TokenizeCli, Decode) {
    EXPECT_EQ(out({"--decode", "[263, 93]"}), "abZ");
    EXPECT_EQ(out({"--decode"}, "263 93\n"), "abZ");
    expect_error(nib({"tokenize", "-m", file_, "--decode", "[264]"}), 2,
                 "--decode: expected an integer from 0 to 263, got \"264\"");
    expect_error(nib({"tokenize", "-m", file_, "--decode", "1.5"}), 2, "--decode: expected");
    expect_error(nib({"tokenize", "-m", file_, "--decode", "--ids", "1"}), 2,
                 "expected at most one");
}

TEST_F(TokenizeCli, LastOneWins) {
    EXPECT_EQ(out({"--ids", "-p", "Z", "-p", "ab", "-m", "/nowhere", "-m", file_}), "[263]\n");
}

TEST_F(TokenizeCli, SwitchesFromTheEnvironment) {
    for (const char* on : {"1", "on", "true", "enabled"}) {
        EXPECT_EQ(nib({"tokenize", "-m", file_, "ab"}, {}, {{"NIB_ADD_SPECIAL", on}}).out,
                  "[1, 263]\n");
    }
    for (const char* off : {"0", "off", "false", "disabled"}) {
        EXPECT_EQ(nib({"tokenize", "-m", file_, "ab"}, {}, {{"NIB_ADD_SPECIAL", off}}).out,
                  "[263]\n");
    }
}

TEST_F(TokenizeCli, AnyBytes) {
    EXPECT_EQ(out({"--count"}, std::string("\xff\x00\xfe", 3)), "4\n") << "a space and three bytes";
}

TEST_F(Cli, TemplateRenders) {
    const std::string good = write("t.jinja",
                                   "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n"
                                   "{% endfor %}");
    const std::string context =
        write("c.json", R"({"messages": [{"role": "user", "content": "Hi"}]})");
    const auto text = nib({"template", "render", "--template", good, "--context", context});
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_EQ(text.out, "<user>Hi\n");
    EXPECT_EQ(nib({"template", "validate", "--template", good}).exit_code, 0);
    // The context may come from standard input.
    EXPECT_EQ(
        nib({"template", "render", "--template", good, "--context", "-"}, R"({"messages":[]})")
            .exit_code,
        0);
}

TEST_F(Cli, TemplateErrors) {
    const std::string context = write("c.json", R"({"messages": [{"role": "user"}]})");
    const std::string missing = write("a.jinja", "\n{{ messages[0].nope.x }}");
    expect_error(nib({"template", "render", "--template", missing, "--context", context}), 2,
                 "line 2");
    const std::string open = write("b.jinja", "{% for %}");
    expect_error(nib({"template", "validate", "--template", open}), 2, "line 1");
    expect_error(nib({"template", "render", "--template", open}), 2, "b.jinja");
    expect_error(nib({"template", "render", "--template", missing}), 2, "--context");
    expect_error(nib({"template", "render"}), 2, "--template");
    expect_error(nib({"template"}), 2, "expected render or validate");
    expect_error(nib({"template", "list"}), 2, "got \"list\"");
    expect_error(nib({"template", "validate", "--template", "/nowhere.jinja"}), 2,
                 "/nowhere.jinja");
    expect_error(nib({"template", "render", "--template", missing, "--context", write("d", "[1]")}),
                 2, "expected a JSON object");
    expect_error(nib({"template", "render", "--template", missing, "--context", write("e", "{]")}),
                 2, "byte 1");
}

}  // namespace
}  // namespace nib::test
