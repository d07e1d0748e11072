// SPDX-License-Identifier: MIT
// Commands, flags, help, exit codes and streams, without a model.
#include "tests/cli/helpers.h"

namespace nib::test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(Cli, HelpAndVersionAreOnStdout) {
    const auto bare = nib({});
    EXPECT_EQ(bare.exit_code, 0);
    EXPECT_THAT(bare.out, HasSubstr("usage: nib COMMAND"));
    EXPECT_EQ(bare.err, "");
    const auto version = nib({"--version"});
    EXPECT_EQ(version.exit_code, 0);
    EXPECT_EQ(version.out.rfind("nib ", 0), 0u);
    for (const char* word : {"commit: ", "compiler: ", "target: "}) {
        EXPECT_THAT(version.out, HasSubstr(word));
    }
    for (const char* flag : {"-h", "--help", "help"})
        EXPECT_EQ(nib({flag}).out, bare.out);
    EXPECT_THAT(nib({"--help", "all"}).out, HasSubstr("--top-n-sigma"));
}

TEST_F(Cli, EveryCommandHasHelp) {
    for (const char* command : {"chat", "run", "tokenize", "template", "inspect", "doctor"}) {
        const auto help = nib({command, "--help"});
        EXPECT_EQ(help.exit_code, 0) << command;
        EXPECT_EQ(help.err, "") << command;
        EXPECT_THAT(help.out, HasSubstr(std::string("usage: nib ") + command));
        EXPECT_THAT(nib({}).out, HasSubstr(std::string("\n  ") + command + " "));
        EXPECT_EQ(nib({"help", command}).out, help.out);
    }
    const std::string help = nib({"run", "-h"}).out;
    EXPECT_THAT(help, HasSubstr("-c, --ctx-size N"));
    EXPECT_THAT(help, HasSubstr("(default: 0)"));
    EXPECT_THAT(help, HasSubstr("(env: NIB_CTX_SIZE)"));
    EXPECT_LT(help.find("\ncommand:\n"), help.find("\ncommon:\n"));
    EXPECT_LT(help.find("\ncommon:\n"), help.find("\nsampling:\n"));
    // The value of another flag is not a question.
    EXPECT_THAT(nib({"run", "-m", "/nowhere/x.gguf", "-p", "--help"}).err, HasSubstr("/nowhere"));
}

TEST_F(Cli, AliasesOfCommands) {
    EXPECT_EQ(nib({"cli", "--help"}).out, nib({"chat", "--help"}).out);
    EXPECT_EQ(nib({"completion", "--help"}).out, nib({"run", "--help"}).out);
}

TEST_F(Cli, UnknownNamesSuggestTheNearest) {
    expect_error(nib({"chta"}), 2, "unknown command \"chta\"; did you mean chat?");
    expect_error(nib({"--nonsense"}), 2, "unknown flag \"--nonsense\"; see nib --help");
    expect_error(nib({"run", "--tmep", "1"}), 2, "unknown flag \"--tmep\"; did you mean --temp?");
    expect_error(nib({"run", "--ctx-sized", "1"}), 2, "did you mean --ctx-size?");
    expect_error(nib({"run", "--flash-attn"}), 2, "unknown flag \"--flash-attn\"");
    expect_error(nib({"tokenize", "--temp", "1"}), 2, "unknown flag \"--temp\"");
    expect_error(nib({"run", "-xyz"}), 2, "unknown flag \"-xyz\"");
    expect_error(nib({"run", std::string(5000, '-')}), 2, "unknown flag");
}

TEST_F(Cli, NumbersAreStrict) {
    const std::vector<std::vector<std::string>> bad = {
        {"-c"},
        {"-c=512"},
        {"-c", "0x200"},
        {"-c", "1e3"},
        {"-c", "-1"},
        {"-c", "010"},
        {"-c", ""},
        {"-c", " 5"},
        {"-c", "5 "},
        {"-c", "+5"},
        {"--ctx-size=5k"},
        {"--ctx-size"},
        {"-t", "0"},
        {"-t", "100000"},
        {"-n", "99999999999"},
        {"-n", "-2"},
        {"-ub", "-1"},
        {"-ub", "4097"},
        {"--temp", "nan"},
        {"--temp", "inf"},
        {"--temp", "-1"},
        {"--temp", "1e39"},
        {"--temp", "0x1p3"},
        {"--top-p", "2"},
        {"--min-p", "7"},
        {"--seed", "-2"},
        {"-s", "18446744073709551616"},
        {"--top-k", "-2"},
        {"--presence-penalty", "3"},
    };
    for (auto args : bad) {
        const std::string shown = testing::PrintToString(args);
        args.insert(args.begin(), "run");
        SCOPED_TRACE(shown);
        expect_error(nib(args), 2, "expected");
    }
    // The message names the flag, the range and what was given.
    expect_error(nib({"run", "--top-p", "2"}), 2, "--top-p: expected a number from 0 to 1, got 2");
    expect_error(nib({"run", "-t", "0"}), 2,
                 "--threads: expected an integer from 1 to 1024, got \"0\"");
}

TEST_F(Cli, FlagsThatStandAloneTakeNoValue) {
    expect_error(nib({"run", "--json=on"}), 2, "--json: stands alone");
    expect_error(nib({"run", "--json", "extra"}), 2, "unexpected argument \"extra\"");
    // --json does not eat the next flag: the error is about that one.
    expect_error(nib({"run", "--json", "--ctx-size", "x"}), 2, "--ctx-size: expected an integer");
    expect_error(nib({"chat", "--color", "maybe"}), 2, "--color: expected on|off|auto");
}

TEST_F(Cli, EnvironmentIsChecked) {
    expect_error(nib({"run", "-p", "x"}, {}, {{"NIB_CTX_SIZE", "abc"}}), 2,
                 "NIB_CTX_SIZE: expected an integer");
    expect_error(nib({"run", "-p", "x"}, {}, {{"NIB_JSON", "perhaps"}}), 2,
                 "NIB_JSON: expected on|off");
    expect_error(nib({"run", "-p", "x"}, {}, {{"NIB_MODEL", "/nowhere/env.gguf"}}), 2,
                 "/nowhere/env.gguf");
    // The command line beats it.
    expect_error(nib({"run", "-p", "x", "-m", "/nowhere/flag.gguf"}, {},
                     {{"NIB_MODEL", "/nowhere/env.gguf"}}),
                 2, "/nowhere/flag.gguf");
}

TEST_F(Cli, ErrorsStayOneLine) {
    expect_error(nib({"run", "-m", "/nowhere/two\nlines\x1b[1m", "-p", "x"}), 2,
                 "/nowhere/two lines[1m: No such file");
    expect_error(nib({"template", "render", "--template", "/nowhere/two\nlines", "--context", "-"}),
                 2, "/nowhere/two lines: No such file");
}

TEST_F(Cli, MissingFiles) {
    const auto model = nib({"run", "-p", "x"});
    expect_error(model, 2, folder() + "/cache/nib/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    EXPECT_THAT(model.err, HasSubstr("run ./scripts/fetch-models"));
    expect_error(nib({"run", "-m", "/nowhere/x.gguf", "-p", "x"}), 2, "/nowhere/x.gguf");
    expect_error(nib({"run", "-m", vocabulary(), "-f", "/nowhere/p.txt"}), 2, "/nowhere/p.txt");
    expect_error(nib({"run", "-m", vocabulary(), "-p", "x", "-f", "y"}), 2, "got both");
    expect_error(nib({"inspect", "/nowhere/x.gguf"}), 2, "/nowhere/x.gguf");
    expect_error(nib({"inspect", write("no.gguf", "GG")}), 2, "no.gguf");
    expect_error(nib({"run", "-m", folder(), "-p", "x"}), 2, folder());
    expect_error(nib({"run", "-m", vocabulary(), "-p", "x"}), 2, "vocabulary.gguf");
}

TEST_F(Cli, FullDiskAndGoneReader) {
    const auto full = shell("", "--help > /dev/full");
    expect_error(full, 1, "standard output: No space left");
    // `true` reads nothing; the pipe is broken once it has ended.
    const auto gone =
        run_process({"/bin/sh", "-c", "{ sleep 0.3; \"$0\" --help all; echo code $? >&2; } | true",
                     nib_path()});
    EXPECT_EQ(gone.err, "code 0\n");
    EXPECT_EQ(shell("", "--help >&-").exit_code, 1);
    expect_error(shell("", "tokenize -m '" + vocabulary() + "' --count <&-"), 2, "standard input:");
}

TEST_F(Cli, Completions) {
    const auto script = nib({"completions", "bash"});
    EXPECT_EQ(script.exit_code, 0);
    EXPECT_THAT(script.out, HasSubstr("complete -o default -F _nib nib"));
    EXPECT_THAT(script.out, HasSubstr("--top-n-sigma"));
    expect_error(nib({"completions", "csh"}), 2, "expected bash, got \"csh\"");
    expect_error(nib({"completions"}), 2, "got nothing");
    const std::string path = write("completion.sh", script.out);
    if (!file_exists("/bin/bash")) GTEST_SKIP() << "skipped: no bash";
    const auto words =
        run_process({"/bin/bash", "-c",
                     "source \"$0\"; COMP_WORDS=(nib run --temp); COMP_CWORD=2; _nib; echo "
                     "\"${COMPREPLY[@]}\"; "
                     "COMP_WORDS=(nib tok); COMP_CWORD=1; _nib; echo \"${COMPREPLY[@]}\"",
                     path});
    EXPECT_EQ(words.out, "--temp --temperature\ntokenize\n") << words.err;
}

TEST_F(Cli, Doctor) {
    const auto report = nib({"doctor"});
    EXPECT_EQ(report.exit_code, 0) << report.err;
    for (const char* word : {"cpu level", "cores", "memory", "huge pages", "fetch-models"}) {
        EXPECT_THAT(report.out, HasSubstr(word));
    }
    const auto json = nib({"doctor", "--json"});
    EXPECT_EQ(json.out[0], '[');
    EXPECT_THAT(json.out, HasSubstr("\"name\": \"cpu level\""));
}

TEST_F(Cli, Inspect) {
    const std::string file = vocabulary();
    const auto text = nib({"inspect", file});
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr("tokenizer.ggml.tokens (string[264])"));
    EXPECT_THAT(text.out, Not(HasSubstr("\x1b")));
    EXPECT_EQ(nib({"inspect", file, "--get", "tokenizer.ggml.bos_token_id"}).out, "1\n");
    EXPECT_EQ(nib({"inspect", "-m", file, "--get", "tokenizer.ggml.model"}).out, "llama\n");
    EXPECT_EQ(nib({"inspect", file, "--get", "tokenizer.ggml.model", "--json"}).out, "\"llama\"\n");
    expect_error(nib({"inspect", file, "--get", "nope"}), 2, "key \"nope\" is not in the file");
    const auto json = nib({"inspect", file, "--json"});
    EXPECT_THAT(json.out, HasSubstr("\"count\": 264"));
    EXPECT_THAT(json.out, HasSubstr("\"tensors\": []"));
}

}  // namespace
}  // namespace nib::test
