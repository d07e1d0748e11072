// SPDX-License-Identifier: MIT
// Config keys and tensors that are missing, wrong or unknown: an error that names the key or
// tensor, for every architecture; and a file cut anywhere fails kindly.
#include "src/model.h"
#include "tests/support/tiny_model.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nib::test {
namespace {

using testing::HasSubstr;

// The error of loading, or "ok".
std::string load_error(const std::string& bytes, ModelOptions options = {}) {
    TempDir dir;
    write_file(dir.file("m.gguf"), bytes);
    const auto file = GgufFile::open(dir.file("m.gguf"));
    if (!file.ok()) return file.error().message;
    const auto model = read_model(**file, options);
    if (!model.ok()) {
        EXPECT_EQ(exit_code(model.error().status), 2);
        return model.error().message;
    }
    const auto graph = build_graph(**model);
    return graph.ok() ? "ok" : graph.error().message;
}

// The error of loading, which the program gives too.
std::string program_error(const std::string& bytes) {
    const std::string error = load_error(bytes);
    TempDir dir;
    write_file(dir.file("m.gguf"), bytes);
    const size_t path_end = error.find(": ");
    expect_program_refuses({"run", "-m", dir.file("m.gguf"), "-p", "x"},
                           {path_end == error.npos ? error : error.substr(path_end)});
    return error;
}

const ArchDef& llama() {
    return *find_arch("llama");
}

TEST(Config, AValidFileLoads) {
    for (const ArchDef* arch : all_archs())
        EXPECT_EQ(load_error(tiny_gguf(*arch)), "ok") << arch->name;
}

struct BadKey {
    TinyKey key;
    const char* names;
};

class BadKeys : public testing::TestWithParam<BadKey> {};

TEST_P(BadKeys, AreRefusedByName) {
    const BadKey& b = GetParam();
    EXPECT_THAT(program_error(tiny_gguf(llama(), {.keys = {b.key}})), HasSubstr(b.names));
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

INSTANTIATE_TEST_SUITE_P(
    Rows,
    BadKeys,
    testing::Values(
        BadKey{{"block_count", 0}, "llama.block_count"},
        BadKey{{"block_count", 600}, "blk.2.attn_norm.weight"},
        BadKey{{"block_count", 3}, "blk.2.attn_norm.weight"},
        BadKey{{"block_count", 2147483648.0}, "llama.block_count"},
        BadKey{{"block_count", kNan}, "llama.block_count"},
        BadKey{{"attention.head_count", 0}, "llama.attention.head_count"},
        BadKey{{"attention.head_count", 7}, "llama.attention.head_count"},
        BadKey{{"attention.head_count", 4, true}, "llama.attention.head_count"},
        BadKey{{"attention.head_count_kv", 0}, "llama.attention.head_count_kv"},
        BadKey{{"attention.head_count_kv", 3}, "llama.attention.head_count_kv"},
        BadKey{{"attention.head_count_kv", 5000000}, "llama.attention.head_count_kv"},
        BadKey{{"attention.head_count_kv", kNan}, "blk.0.attn_k.weight: expected [64, 64]"},
        BadKey{{"embedding_length", 0}, "llama.embedding_length"},
        BadKey{{"embedding_length", 128}, "token_embd.weight: expected [128, 300]"},
        BadKey{{"feed_forward_length", 0}, "llama.feed_forward_length"},
        BadKey{{"context_length", 0}, "llama.context_length"},
        BadKey{{"attention.layer_norm_rms_epsilon", kNan, true}, "layer_norm_rms_epsilon"},
        BadKey{{"attention.layer_norm_rms_epsilon", -1, true}, "layer_norm_rms_epsilon"},
        BadKey{{"attention.layer_norm_rms_epsilon", kInf, true}, "layer_norm_rms_epsilon"},
        BadKey{{"rope.freq_base", 0, true}, "rope.freq_base"},
        BadKey{{"rope.freq_base", kNan, true}, "rope.freq_base"},
        BadKey{{"rope.dimension_count", 3}, "rope.dimension_count"},
        BadKey{{"rope.dimension_count", 2147483648.0}, "rope.dimension_count"},
        BadKey{{"attention.key_length", 24}, "attention.key_length"},
        BadKey{{"expert_count", 8}, "expert_count"}));

TEST(Config, AKeyThatNobodyKnowsIsRefused) {
    for (const ArchDef* arch : all_archs()) {
        EXPECT_THAT(program_error(tiny_gguf(*arch, {.extra_key = "new_trick"})),
                    HasSubstr("new_trick"));
    }
}

TEST(Config, AbsentRopeBaseIsTheUsualOne) {
    EXPECT_EQ(load_error(tiny_gguf(llama(), {.keys = {{"rope.freq_base", kInf, true}}})), "ok");
}

TEST(Config, UnknownArchitectureNamesTheKnownOnes) {
    GgufBytes file;
    file.add_string("general.architecture", "zzzzz").tensor("t", {32, 2}, 0, 0);
    file.data = std::string(256, '\0');
    const std::string error = program_error(file.bytes());
    EXPECT_THAT(error, HasSubstr("unknown architecture 'zzzzz'"));
    EXPECT_THAT(error, HasSubstr("gemma3"));
}

TEST(Config, MissingTensorIsNamed) {
    for (const ArchDef* arch : all_archs()) {
        EXPECT_THAT(program_error(tiny_gguf(*arch, {.without_tensor = "blk.1.ffn_down.weight"})),
                    HasSubstr("blk.1.ffn_down.weight: the tensor is missing"));
    }
}

TEST(Config, TensorsTooManyAreAWarning) {
    std::string warning;
    ModelOptions options;
    options.warn = [&](const std::string& text) { warning = text; };
    EXPECT_EQ(load_error(tiny_gguf(llama(), {.keys = {{"block_count", 1}}}), options), "ok");
    EXPECT_THAT(warning, HasSubstr("blk.1."));
}

TEST(Config, TiedHeadIsTheTable) {
    EXPECT_EQ(load_error(tiny_gguf(llama(), {.tied = true})), "ok");
}

TEST(Config, NonFiniteWeightsAreNamedWhenAsked) {
    std::string bytes = tiny_gguf(llama());
    const float nan = std::nanf("");
    std::memcpy(bytes.data() + bytes.size() - 4 * 100, &nan, 4);
    EXPECT_EQ(load_error(bytes), "ok");
    ModelOptions options;
    options.check_tensors = true;
    EXPECT_THAT(load_error(bytes, options), HasSubstr("is not finite"));
}

TEST(Config, AFileCutAnywhereFailsKindly) {
    for (const ArchDef* arch : all_archs()) {
        const std::string bytes = tiny_gguf(*arch, {.type = "q8_0"});
        for (size_t cut = 0; cut < bytes.size(); cut += 1 + bytes.size() / 150) {
            EXPECT_NE(load_error(bytes.substr(0, cut)), "ok") << arch->name << " cut at " << cut;
        }
    }
}

}  // namespace
}  // namespace nib::test
