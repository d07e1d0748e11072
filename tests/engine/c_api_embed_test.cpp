// SPDX-License-Identifier: MIT
// libnib.so as its users meet it: what it shows, and the examples in C and Python as they are
// run by their readers. They must print what the engine inside this process says.
#include "tests/engine/tiny_engine.h"

#include <cstdlib>
#include <sstream>

#include <gmock/gmock.h>

namespace nib::test {
namespace {

using testing::HasSubstr;

const std::string kPython = std::string(NIB_SOURCE_DIR) + "/examples/embed.py";
// A sanitizer's runtime must be the first library of a program; Python and others lack it.
const bool kPlainBuild = std::string_view(NIB_SANITIZED).empty();

ProcessResult run_python(std::vector<std::string> args) {
    args.insert(args.begin(), {NIB_PYTHON, kPython, "--library", NIB_SHARED_LIBRARY});
    return run_process(args);
}

// What the examples print of the model's answer.
std::string expected_text(const std::string& model, const std::string& text, int n) {
    auto engine = Engine::create({.model_path = model});
    if (!engine.ok()) return engine.error().message;
    Request request;
    request.prompt = (*engine)->tokenizer()->encode(text, true, false);
    request.max_tokens = n;
    request.sampling.temperature = 0;
    const auto answer = (*engine)->generate(request);
    return answer.ok() ? answer->text + "\n" : answer.error().message;
}

TEST(Library, ShowsTheCInterfaceOnly) {
    const auto nm = run_process({"/usr/bin/env", "nm", "-D", "--defined-only", NIB_SHARED_LIBRARY});
    ASSERT_EQ(nm.exit_code, 0) << nm.err;
    std::istringstream lines(nm.out);
    std::string address, kind, name;
    std::vector<std::string> functions;
    while (lines >> address >> kind >> name) {
        name = name.substr(0, name.find('@'));
        if (kind == "A" && name == "NIB_0") continue;  // the version itself
        EXPECT_EQ(name.rfind("nib_", 0), 0u) << kind << " " << name;
        functions.push_back(name);
    }
    const std::string header = read_file(std::string(NIB_SOURCE_DIR) + "/src/engine_c.h");
    size_t declared = 0;
    for (size_t at = header.find("\nNIB_API "); at != std::string::npos;
         at = header.find("\nNIB_API ", at + 1))
        declared++;
    EXPECT_EQ(functions.size(), declared);
    for (const std::string& f : functions)
        EXPECT_THAT(header, HasSubstr(f + "("));
}

TEST(Library, NeedsNoMoreThanTheSystemsOwnLibraries) {
    const auto elf = run_process({"/usr/bin/env", "readelf", "-d", NIB_SHARED_LIBRARY});
    ASSERT_EQ(elf.exit_code, 0) << elf.err;
    EXPECT_THAT(elf.out, HasSubstr("soname: [libnib.so.0]"));
    for (const char* other : {"pcre", "utf8proc", "edit", "xxhash"})
        EXPECT_THAT(elf.out, testing::Not(HasSubstr(other)));
    EXPECT_THAT(elf.out, testing::Not(HasSubstr("TEXTREL")));
}

TEST(Library, TheExampleInCPrintsTheAnswer) {
    const TinyFile file;
    const auto run = run_process({NIB_EXAMPLE_EMBED, file.path(), "hello", "12"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out, expected_text(file.path(), "hello", 12));

    const auto missing = run_process({NIB_EXAMPLE_EMBED, "/nowhere.gguf", "hello", "12"});
    EXPECT_EQ(missing.exit_code, 1);
    EXPECT_THAT(missing.err, HasSubstr("/nowhere.gguf"));
}

TEST(Library, TheExampleInPythonPrintsTheAnswer) {
    if (!kPlainBuild) GTEST_SKIP() << "skipped: Python cannot load a sanitized library";
    const TinyFile file;
    const auto run = run_python({file.path(), "hello", "-n", "12"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out, expected_text(file.path(), "hello", 12));

    const auto missing = run_python({"/nowhere.gguf", "hello"});
    EXPECT_EQ(missing.exit_code, 1);
    EXPECT_THAT(missing.err, HasSubstr("error: /nowhere.gguf"));
}

TEST(Library, TheExampleInPythonCancels) {
    if (!kPlainBuild) GTEST_SKIP() << "skipped: Python cannot load a sanitized library";
    TinyOptions options = TinyFile::q8_0();
    options.keys = {{"context_length", 200'000}};
    const TinyFile file("llama", options);
    const auto run = run_python(
        {file.path(), "hello", "-n", "199000", "--temperature", "1", "--stop-after", "3"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.err, testing::AnyOf(HasSubstr("finish: cancelled"), HasSubstr("finish: stop")));
}

// A C program that is not ours: the installed header, library and pkg-config file.
TEST(Library, InstallsWhatAProgramNeeds) {
    if (!kPlainBuild) GTEST_SKIP() << "skipped: a plain program cannot load a sanitized library";
    const TempDir dir;
    const auto install =
        run_process({"/usr/bin/env", "cmake", "--install", NIB_BUILD_DIR, "--prefix", dir.path()});
    ASSERT_EQ(install.exit_code, 0) << install.err;
    EXPECT_THAT(install.out, HasSubstr("include/nib/engine_c.h"));
    EXPECT_THAT(install.out, HasSubstr("libnib.so.0"));
    const size_t pc = install.out.find("/pkgconfig/nib.pc");
    ASSERT_NE(pc, std::string::npos) << install.out;
    const size_t line = install.out.rfind(dir.path(), pc);
    const std::string lib = install.out.substr(line, pc - line);

    const auto flags = run_process({"/usr/bin/env", "pkg-config", "--cflags", "--libs", "nib"}, {},
                                   {{"PKG_CONFIG_PATH", lib + "/pkgconfig"}});
    ASSERT_EQ(flags.exit_code, 0) << flags.err;
    const std::string program = dir.file("embed");
    const auto compiled =
        run_process({"/bin/sh", "-c",
                     "cc -std=c11 -Wall -Werror '" NIB_SOURCE_DIR "/examples/embed.c' -o " +
                         program + " " + flags.out.substr(0, flags.out.find('\n'))});
    ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
    const TinyFile file;
    const auto run =
        run_process({program, file.path(), "hello", "12"}, {}, {{"LD_LIBRARY_PATH", lib}});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out, expected_text(file.path(), "hello", 12));
}

class ModelEmbed : public testing::Test {
  protected:
    void SetUp() override {
        const char* cache = std::getenv("XDG_CACHE_HOME");
        const char* home = std::getenv("HOME");
        model_ =
            (cache && *cache ? std::string(cache) : std::string(home ? home : "") + "/.cache") +
            "/nib/models/SmolLM2-135M-Instruct.Q4_1.gguf";
        if (!file_exists(model_)) GTEST_SKIP() << "skipped: no model at " << model_;
    }
    std::string model_;
};

TEST_F(ModelEmbed, BothExamplesPrintTheAnswerOfARealModel) {
    const std::string text = "The capital of France is";
    const std::string expected = expected_text(model_, text, 16);
    EXPECT_THAT(expected, HasSubstr("Paris"));
    const auto c = run_process({NIB_EXAMPLE_EMBED, model_, text, "16"});
    EXPECT_EQ(c.out, expected) << c.err;
    if (!kPlainBuild) return;
    const auto python = run_python({model_, text, "-n", "16"});
    EXPECT_EQ(python.out, expected) << python.err;
}

}  // namespace
}  // namespace nib::test
