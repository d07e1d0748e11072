// SPDX-License-Identifier: MIT
// nib quantize as people use it: every type gives a model that runs, what is refused, and what is
// left on the disk when something goes wrong.
#include "src/json/json.h"
#include "src/quantize/quantize.h"
#include "tests/quantize/files.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>

namespace nib::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

size_t files_in(const std::string& folder) {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST_F(Quantize, EveryTypeGivesAModelThatRuns) {
    const std::string in = write("in.gguf", wide_model());
    std::istringstream names(recipe_names());
    int n = 0;
    for (std::string name; names >> name; n++) {
        const std::string out = dir.file(name + ".gguf");
        const auto result = quantize({in, out, name});
        ASSERT_EQ(result.exit_code, 0) << name << result.err;
        EXPECT_EQ(result.out, "");
        const auto file = open(out);
        ASSERT_TRUE(file);
        EXPECT_EQ(file->integer("general.file_type", 0, 100).value(), find_recipe(name)->file_type);
        if (info(find_recipe(name)->base).block_elems > 1) {
            EXPECT_EQ(file->integer("general.quantization_version", 0, 9).value(), 2) << name;
        }
        EXPECT_EQ(file->string("general.name").value(), "tiny");
        const auto run = nib({"run", "-m", out, "-p", "abc", "-n", "4", "--temp", "0"});
        EXPECT_EQ(run.exit_code, 0) << name << run.err;
    }
    EXPECT_EQ(n, 24);
}

TEST_F(Quantize, MoreBitsAreCloser) {
    const std::string in = write("in.gguf", wide_model());
    const auto source = open(in);
    ASSERT_TRUE(source);
    const std::string tensor = "blk.1.ffn_down.weight";
    const auto wanted = values_of(*source, tensor);
    double before = std::numeric_limits<double>::infinity();
    for (const char* name : {"q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "q8_0", "f16"}) {
        ASSERT_EQ(quantize({"--pure", "--force", in, dir.file("out.gguf"), name}).exit_code, 0);
        const auto file = open(dir.file("out.gguf"));
        ASSERT_TRUE(file);
        const auto got = values_of(*file, tensor);
        ASSERT_EQ(got.size(), wanted.size());
        double error = 0;
        for (size_t i = 0; i < got.size(); i++)
            error += std::pow(got[i] - wanted[i], 2);
        EXPECT_LT(error, before / 2) << name;
        before = error;
    }
}

TEST_F(Quantize, TheSameTypeIsACopy) {
    const std::string in = write("in.gguf", wide_model({.type = "q8_0"}));
    const auto result = quantize({in, dir.file("out.gguf"), "q8_0"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.err, Not(HasSubstr("requantizing")));
    const auto a = open(in), b = open(dir.file("out.gguf"));
    ASSERT_TRUE(a && b);
    ASSERT_EQ(a->tensors().size(), b->tensors().size());
    for (size_t i = 0; i < a->tensors().size(); i++) {
        const GgufTensor &x = a->tensors()[i], &y = b->tensors()[i];
        EXPECT_EQ(x.name, y.name);
        EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(x.data), x.bytes),
                  std::string_view(reinterpret_cast<const char*>(y.data), y.bytes));
    }
    for (const GgufFile::Entry& entry : a->entries())
        EXPECT_TRUE(b->find(entry.key)) << entry.key;
}

TEST_F(Quantize, RequantizingIsSaid) {
    const std::string in = write("in.gguf", wide_model({.type = "q4_1"}));
    const auto result = quantize({in, dir.file("out.gguf"), "q6_k"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr("warning: requantizing from q4_1 loses accuracy"));
}

TEST_F(Quantize, FallbacksAreSaid) {
    const std::string in = write("in.gguf", tiny_gguf(*find_arch("llama")));
    const auto result = quantize({in, dir.file("out.gguf"), "q4_k_s"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr("q5_0 instead of q4_k for "));
    EXPECT_EQ(nib({"run", "-m", dir.file("out.gguf"), "-p", "a", "-n", "2"}).exit_code, 0);
}

TEST_F(Quantize, AnyNumberOfThreadsWritesTheSameBytes) {
    const std::string in = write("in.gguf", wide_model({.n_vocab = 3000}));
    std::string first;
    for (const char* threads : {"1", "2", "7"}) {
        ASSERT_EQ(quantize({"-t", threads, "--force", in, dir.file("out.gguf"), "q4_k"}).exit_code,
                  0);
        const std::string bytes = read_file(dir.file("out.gguf"));
        if (first.empty()) first = bytes;
        EXPECT_TRUE(bytes == first) << threads;
    }
}

TEST_F(Quantize, TheInputIsNeverTheOutput) {
    const std::string in = write("in.gguf", wide_model());
    const std::string before = read_file(in);
    fs::create_symlink(in, dir.file("symbolic.gguf"));
    fs::create_hard_link(in, dir.file("hard.gguf"));
    for (const std::string& out :
         {in, dir.file("symbolic.gguf"), dir.file("hard.gguf"), dir.path() + "/./in.gguf"}) {
        expect_error(quantize({in, out, "q8_0"}), 2, "is the input file");
        expect_error(quantize({"--force", in, out, "q8_0"}), 2, "is the input file");
    }
    EXPECT_TRUE(read_file(in) == before);
    EXPECT_EQ(files_in(dir.path()), 3u);
}

TEST_F(Quantize, AFileThatIsThereStaysWithoutForce) {
    const std::string in = write("in.gguf", wide_model()), out = write("out.gguf", "old");
    expect_error(quantize({in, out, "q8_0"}), 2, "--force");
    EXPECT_EQ(read_file(out), "old");
    EXPECT_EQ(quantize({"--force", in, out, "q8_0"}).exit_code, 0);
    EXPECT_TRUE(open(out));
}

TEST_F(Quantize, PlacesThatCannotBeWritten) {
    const std::string in = write("in.gguf", wide_model());
    expect_error(quantize({in, dir.file("nowhere/out.gguf"), "q8_0"}), 1, "cannot create");
    fs::create_directory(dir.file("folder"));
    expect_error(quantize({"--force", in, dir.file("folder"), "q8_0"}), 2, "is a directory");
}

TEST_F(Quantize, AFullDiskLeavesTheOldFile) {
    const std::string in = write("in.gguf", wide_model());
    fs::create_directory(dir.file("full"));
    write_file(dir.file("full/out.gguf"), "old");
    // The limit stands for a full disk: a write is refused half-way.
    const auto result = run_process({"/bin/sh", "-c",
                                     "trap '' XFSZ; ulimit -f 100; exec \"$0\" quantize --force "
                                     "\"$1\" \"$2\" q8_0",
                                     nib_path(), in, dir.file("full/out.gguf")});
    expect_error(result, 1, "cannot write");
    EXPECT_EQ(read_file(dir.file("full/out.gguf")), "old");
    EXPECT_EQ(files_in(dir.file("full")), 1u);
}

TEST_F(Quantize, GivingUpLeavesTheOldFile) {
    const auto file = open(write("in.gguf", wide_model()));
    ASSERT_TRUE(file);
    fs::create_directory(dir.file("half"));
    const std::string out = dir.file("half/out.gguf");
    write_file(out, "old");
    const QuantPlan plan = plan_quantization(*file, *find_recipe("q4_0"));
    int calls = 0;
    const auto result =
        write_quantized(*file, plan, out, {.threads = 2, .progress = [&](double share) {
                                               EXPECT_GT(share, 0);
                                               return ++calls < 3;
                                           }});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().status, Status::Cancelled);
    EXPECT_EQ(calls, 3);
    EXPECT_EQ(read_file(out), "old");
    EXPECT_EQ(files_in(dir.file("half")), 1u);
}

TEST_F(Quantize, WhatIsAskedWrongly) {
    const std::string in = write("in.gguf", wide_model()), out = dir.file("out.gguf");
    expect_error(quantize({in, out, "q4_x"}), 2, "expected one of f32 f16 bf16 q4_0");
    expect_error(quantize({in, out}), 2, "expected IN OUT TYPE");
    expect_error(quantize({}), 2, "expected IN OUT TYPE");
    expect_error(quantize({in, out, "q4_0", "8"}), 2, "unexpected argument");
    expect_error(quantize({dir.file("none.gguf"), out, "q4_0"}), 2, "none.gguf");
    expect_error(quantize({"--tensor-type", "q4_0", in, out, "q4_0"}), 2, "expected PART=TYPE");
    expect_error(quantize({"--tensor-type", "attn=q9", in, out, "q4_0"}), 2, "q9");
    EXPECT_EQ(files_in(dir.path()), 1u);
}

TEST_F(Quantize, ADryRunWritesNothing) {
    const std::string in = write("in.gguf", wide_model());
    const auto text = quantize({"--dry-run", in, "q4_k_m"});
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr("blk.0.ffn_up.weight [256, 512] f32 -> q4_k"));
    EXPECT_THAT(text.out, HasSubstr("bits per weight"));
    const auto json = quantize({"--dry-run", "--json", in, dir.file("out.gguf"), "q4_k_m"});
    const auto parsed = parse_json(json.out);
    ASSERT_TRUE(parsed.ok()) << json.out;
    EXPECT_EQ(parsed.value()["type"], "q4_k_m");
    EXPECT_EQ(parsed.value()["tensors"].size(), open(in)->tensors().size());
    EXPECT_EQ(files_in(dir.path()), 1u);
}

TEST_F(Quantize, FilesThatAreNoModels) {
    GgufBytes empty;
    empty.add_string("general.architecture", "llama");
    const std::string out = dir.file("out.gguf");
    expect_program_refuses({"quantize", write("empty.gguf", empty.bytes()), out, "q4_0"},
                           {"tensors"});
    for (const std::vector<uint64_t>& ne :
         {std::vector<uint64_t>{32, 0}, {0, 32}, {}, {1, 1, 1, 1, 1}}) {
        GgufBytes bad;
        bad.tensor("t", ne, 0, 0);
        bad.data.resize(128);
        expect_program_refuses({"quantize", write("bad.gguf", bad.bytes()), out, "q4_0"}, {"t"});
    }
    const std::string whole = wide_model();
    const std::string cut = write("cut.gguf", whole.substr(0, whole.size() - 64));
    expect_program_refuses({"quantize", cut, out, "q4_0"}, {"cut.gguf"});
    EXPECT_FALSE(file_exists(out));
}

class Values : public Quantize, public testing::WithParamInterface<const char*> {
  protected:
    ProcessResult convert(const std::vector<float>& values) {
        const std::string in = write("in.gguf", matrix_file(values));
        return quantize({"--force", "--pure", in, dir.file("out.gguf"), GetParam()});
    }
};

TEST_P(Values, ZerosAndDenormalsBecomeZeros) {
    for (const float value : {0.0f, -0.0f, 1e-40f, -1e-40f}) {
        const auto result = convert(std::vector<float>(512, value));
        ASSERT_EQ(result.exit_code, 0) << result.err;
        const auto file = open(dir.file("out.gguf"));
        ASSERT_TRUE(file);
        for (const float v : values_of(*file, "blk.0.attn_q.weight"))
            EXPECT_EQ(v, 0.0f);
    }
}

TEST_P(Values, WhatIsNotFiniteIsNamed) {
    for (const float value :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
        std::vector<float> values(512, 0.5f);
        values[300] = value;
        expect_error(convert(values), 2,
                     "blk.0.attn_q.weight: value 300: expected a finite number, got ");
        EXPECT_EQ(files_in(dir.path()), 1u);
    }
}

TEST_P(Values, WhatDoesNotFitTheScaleIsRefused) {
    std::vector<float> values(512, 0.5f);
    values[300] = 1e38f;
    expect_error(convert(values), 2, "expected a size that " + std::string(GetParam()));
    EXPECT_EQ(files_in(dir.path()), 1u);
    values[300] = 40000;
    EXPECT_EQ(convert(values).exit_code, 0) << "large, but every type holds it";
}

INSTANTIATE_TEST_SUITE_P(Types,
                         Values,
                         testing::Values("q4_0", "q8_0", "q4_k", "q6_k", "q2_k", "iq4_xs"),
                         [](const auto& test) { return std::string(test.param); });

TEST_F(Quantize, MemoryDoesNotGrowWithTheModel) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "skipped: sanitizers need memory of their own";
#endif
    GgufBytes file;
    file.add_string("general.architecture", "llama");
    file.tensor("output.weight", {8192, 4096}, 1, 0);
    const std::string in = write("in.gguf", file.bytes());
    fs::resize_file(in, fs::file_size(in) + (size_t{64} << 20));  // zeros, not in our memory
    const auto result = quantize({"-t", "2", in, dir.file("out.gguf"), "q4_0"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_LT(result.peak_kib, 40 << 10);
}

}  // namespace
}  // namespace nib::test
