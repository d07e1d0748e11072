// SPDX-License-Identifier: MIT
// Models with random weights: they load and run, their types follow the rule, the same call gives
// the same bytes.
#include "src/bench/synthetic.h"

#include "ggml-like/files/gguf.h"
#include "tests/bench/fixtures.h"

#include <cmath>
#include <set>

#include <gmock/gmock.h>

namespace nib::bench {
namespace {

SyntheticModel small(const char* arch) {
    return {.name = "small",
            .arch = arch,
            .n_layers = 8,
            .n_embd = 256,
            .n_ff = 256,
            .n_heads = 4,
            .n_kv_heads = 2,
            .head_dim = 64,
            .n_vocab = 300,
            .n_ctx = 512,
            .rope_base = 1e4f,
            .rms_eps = 1e-5f,
            .tied = false,
            .biases = false,
            .window = 0};
}

class Synthetic : public TinyModelTest {
  protected:
    const std::string path_ = folder_.file("model.gguf");
    std::shared_ptr<GgufFile> make(const SyntheticModel& model, const std::string& type) {
        const auto written = write_synthetic(model, type, path_);
        EXPECT_TRUE(written.ok()) << (written.ok() ? "" : written.error().message);
        auto file = GgufFile::open(path_);
        EXPECT_TRUE(file.ok()) << (file.ok() ? "" : file.error().message);
        return file.ok() ? *file : nullptr;
    }
    std::string type_of(const GgufFile& file, const std::string& tensor) {
        const GgufTensor* t = file.find_tensor(tensor);
        return t ? t->def->name : "absent";
    }
};

TEST_F(Synthetic, AMixGivesBetterTypesToSomeTensors) {
    const auto file = make(small("llama"), "q4_k_m");
    ASSERT_TRUE(file);
    EXPECT_EQ(type_of(*file, "output.weight"), "q6_k");
    EXPECT_EQ(type_of(*file, "token_embd.weight"), "q4_k");
    EXPECT_EQ(type_of(*file, "blk.0.attn_v.weight"), "q6_k");
    EXPECT_EQ(type_of(*file, "blk.1.attn_v.weight"), "q4_k");
    EXPECT_EQ(type_of(*file, "blk.3.ffn_down.weight"), "q6_k");
    EXPECT_EQ(type_of(*file, "blk.7.ffn_down.weight"), "q6_k");
    EXPECT_EQ(type_of(*file, "blk.0.attn_q.weight"), "q4_k");
    EXPECT_EQ(type_of(*file, "blk.0.attn_norm.weight"), "f32");
    EXPECT_EQ(type_of(*file, "blk.0.attn_q.bias"), "absent");
}

TEST_F(Synthetic, ATiedHeadMakesTheTableBetter) {
    SyntheticModel model = small("llama");
    model.tied = true;
    const auto file = make(model, "q4_k_m");
    ASSERT_TRUE(file);
    EXPECT_EQ(type_of(*file, "output.weight"), "absent");
    EXPECT_EQ(type_of(*file, "token_embd.weight"), "q6_k");
}

TEST_F(Synthetic, RowsThatDoNotFitGetANearType) {
    SyntheticModel model = small("llama");
    model.n_ff = 288;
    const auto file = make(model, "q4_k_m");
    ASSERT_TRUE(file);
    EXPECT_EQ(type_of(*file, "blk.1.ffn_down.weight"), "q5_0");
    EXPECT_EQ(type_of(*file, "blk.0.ffn_down.weight"), "q8_0");
    EXPECT_EQ(type_of(*file, "blk.0.ffn_up.weight"), "q4_k");
}

TEST_F(Synthetic, APureTypeIsEverywhere) {
    const auto file = make(small("llama"), "q5_1");
    ASSERT_TRUE(file);
    std::set<std::string> types;
    for (const GgufTensor& t : file->tensors())
        types.insert(t.def->name);
    EXPECT_THAT(types, testing::ElementsAre("f32", "q5_1"));
}

TEST_F(Synthetic, TheSameCallGivesTheSameBytes) {
    make(small("llama"), "q4_k_m");
    const std::string first = test::read_file(path_);
    make(small("llama"), "q4_k_m");
    EXPECT_TRUE(first == test::read_file(path_));
}

class SyntheticArchs : public Synthetic, public testing::WithParamInterface<const char*> {};

TEST_P(SyntheticArchs, LoadsAndGivesFiniteLogits) {
    SyntheticModel model = small(GetParam());
    model.biases = std::string(GetParam()) == "qwen2";
    model.window = std::string(GetParam()) == "gemma3" ? 64 : 0;
    ASSERT_TRUE(make(model, "q4_k_m"));
    const LoadedModel loaded =
        load({.path = path_, .context = 64, .tokenizer = true, .remove_file = true});
    ASSERT_TRUE(loaded.runner);
    EXPECT_GT(loaded.times.tokenizer, 0);
    const int32_t token = 5, s = loaded.runner->kv().open_sequence();
    const StepPart part{.sequence = s, .tokens = {&token, 1}};
    size_t count = 0;
    ASSERT_TRUE(loaded.runner
                    ->step({&part, 1},
                           [&](size_t, int32_t, std::span<const float> logits) {
                               for (const float x : logits)
                                   count += std::isfinite(x);
                           })
                    .ok());
    EXPECT_EQ(count, 300u);
}
INSTANTIATE_TEST_SUITE_P(Archs,
                         SyntheticArchs,
                         testing::Values("llama", "qwen2", "gemma3"),
                         [](const auto& p) { return std::string(p.param); });

TEST_F(Synthetic, EveryModelOfTheListHasAnArchitecture) {
    ASSERT_FALSE(synthetic_models().empty());
    for (const SyntheticModel& m : synthetic_models()) {
        EXPECT_TRUE(find_arch(m.arch)) << m.name;
        EXPECT_EQ(m.n_heads % m.n_kv_heads, 0) << m.name;
        const auto found = find_synthetic(m.name);
        ASSERT_TRUE(found.ok());
        EXPECT_EQ(*found, &m);
    }
}

TEST_F(Synthetic, WrongNamesAreRefused) {
    const auto model = find_synthetic("llama-9000b");
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().status, Status::BadRequest);
    EXPECT_THAT(model.error().message, testing::HasSubstr("llama-8b"));
    const auto type = write_synthetic(small("llama"), "q9_9", path_);
    ASSERT_FALSE(type.ok());
    EXPECT_EQ(type.error().status, Status::BadRequest);
    EXPECT_THAT(type.error().message, testing::HasSubstr("q9_9"));
    EXPECT_FALSE(test::file_exists(path_));
}

}  // namespace
}  // namespace nib::bench
