// SPDX-License-Identifier: MIT
// Which type each tensor gets.
#include "src/quantize/recipe.h"
#include "tests/quantize/files.h"

#include <map>

namespace nib::test {
namespace {

struct Spec {
    std::string name;
    std::vector<uint64_t> ne;
};

class Recipes : public Quantize {
  protected:
    // "name": "type" of a file of f32 tensors.
    std::map<std::string, std::string> plan(const std::vector<Spec>& tensors,
                                            const char* recipe,
                                            const PlanOptions& options = {}) {
        GgufBytes file;
        file.add_string("general.architecture", "llama").add_u32("llama.block_count", 16);
        file.add_u32("llama.attention.head_count", 8);
        file.add_u32("llama.attention.head_count_kv", kv_heads);
        if (experts) file.add_u32("llama.expert_count", experts);
        for (const Spec& t : tensors) {
            file.tensor(t.name, t.ne, 0, file.data.size());
            uint64_t bytes = 4;
            for (const uint64_t size : t.ne)
                bytes *= size;
            file.data.resize(file.data.size() + (bytes + 31) / 32 * 32);
        }
        const auto opened = open(write("plan.gguf", file.bytes()));
        std::map<std::string, std::string> types;
        if (!opened) return types;
        for (const TensorPlan& t :
             plan_quantization(*opened, *find_recipe(recipe), options).tensors)
            types[std::string(t.source->name)] = t.def->name;
        return types;
    }

    // The type of one matrix of a layer beside an output matrix.
    std::string in_layer(int layer, const std::string& part, const char* recipe) {
        const std::string name = "blk." + std::to_string(layer) + "." + part + ".weight";
        return plan({{"output.weight", {256, 2}}, {name, {256, 2}}}, recipe)[name];
    }

    uint32_t kv_heads = 4, experts = 0;
};

TEST_F(Recipes, NamesInAnyCase) {
    EXPECT_EQ(find_recipe("Q4_K_M"), find_recipe("q4_k_m"));
    ASSERT_TRUE(find_recipe("Q4_K"));
    EXPECT_EQ(find_recipe("Q4_K")->file_type, find_recipe("Q4_K_M")->file_type);
    EXPECT_EQ(find_recipe("q4_x"), nullptr);
    EXPECT_EQ(find_recipe("q8_k"), nullptr) << "no type for files";
    EXPECT_EQ(find_recipe("i8"), nullptr);
    EXPECT_EQ(find_recipe(""), nullptr);
}

TEST_F(Recipes, VectorsNormsAndSmallMatricesStay) {
    const auto types = plan({{"output_norm.weight", {256}},
                             {"blk.0.attn_q.bias", {256}},
                             {"blk.0.attn_q_norm.weight", {256, 2}},
                             {"blk.0.ffn_gate_inp.weight", {256, 2}},
                             {"rope_freqs.weight", {256, 2}},
                             {"blk.0.one.weight", {256, 1}},
                             {"blk.0.attn_q.weight", {256, 2}}},
                            "q8_0");
    for (const auto& [name, type] : types)
        EXPECT_EQ(type, name == "blk.0.attn_q.weight" ? "q8_0" : "f32") << name;
}

TEST_F(Recipes, TheOutputMatrixGetsMore) {
    const std::vector<Spec> apart = {{"token_embd.weight", {256, 2}}, {"output.weight", {256, 2}}};
    EXPECT_EQ(plan(apart, "q4_k")["output.weight"], "q6_k");
    EXPECT_EQ(plan(apart, "q4_k")["token_embd.weight"], "q4_k");
    EXPECT_EQ(plan(apart, "q8_0")["output.weight"], "q8_0");
    EXPECT_EQ(plan(apart, "f16")["output.weight"], "f16");
    EXPECT_EQ(plan(apart, "q2_k", {.pure = true})["output.weight"], "q2_k");
    EXPECT_EQ(plan({{"token_embd.weight", {256, 2}}}, "q4_0")["token_embd.weight"], "q6_k")
        << "the table is the output matrix too";
}

TEST_F(Recipes, MixturesGiveMoreToSomeLayers) {
    // 16 layers: the first and the last eighth are two each; between them every third.
    const std::string spread = "1100100100100111";
    for (int layer = 0; layer < 16; layer++) {
        const char* wish = spread[static_cast<size_t>(layer)] == '1' ? "q6_k" : "q4_k";
        EXPECT_EQ(in_layer(layer, "ffn_down", "q4_k_m"), wish) << layer;
        EXPECT_EQ(in_layer(layer, "attn_v", "q4_k_m"), wish) << layer;
    }
    EXPECT_EQ(in_layer(3, "attn_v", "q4_k_s"), "q5_k");
    EXPECT_EQ(in_layer(4, "attn_v", "q4_k_s"), "q4_k");
    EXPECT_EQ(in_layer(1, "ffn_down", "q4_k_s"), "q5_k");
    EXPECT_EQ(in_layer(2, "ffn_down", "q4_k_s"), "q4_k");
    EXPECT_EQ(in_layer(1, "attn_v", "q3_k_m"), "q5_k");
    EXPECT_EQ(in_layer(2, "attn_v", "q3_k_m"), "q4_k");
    EXPECT_EQ(in_layer(0, "ffn_down", "q3_k_m"), "q5_k");
    EXPECT_EQ(in_layer(1, "ffn_down", "q3_k_m"), "q4_k");
    EXPECT_EQ(in_layer(5, "ffn_down", "q3_k_l"), "q5_k");
    EXPECT_EQ(in_layer(5, "ffn_down", "q3_k_s"), "q3_k");
    EXPECT_EQ(in_layer(5, "attn_output", "q2_k"), "q3_k");
    EXPECT_EQ(in_layer(5, "attn_qkv", "q5_k_m"), "q6_k");
    EXPECT_EQ(in_layer(5, "attn_q", "q5_k_m"), "q5_k");
}

TEST_F(Recipes, HeadsAndExpertsDecideToo) {
    EXPECT_EQ(in_layer(5, "attn_v", "q2_k"), "q3_k");
    kv_heads = 2;
    EXPECT_EQ(in_layer(5, "attn_v", "q2_k"), "q4_k");
    experts = 8;
    EXPECT_EQ(in_layer(5, "attn_v", "q2_k"), "q8_0");
    EXPECT_EQ(in_layer(5, "attn_k", "q4_k_m"), "q8_0");
}

TEST_F(Recipes, RowsThatDoNotFitFallBack) {
    const auto at = [&](uint64_t width, const char* recipe) {
        return plan({{"output.weight", {256, 2}}, {"blk.9.attn_q.weight", {width, 2}}},
                    recipe)["blk.9.attn_q.weight"];
    };
    for (const char* recipe : {"q2_k_s", "q3_k_s", "q4_k_s"})
        EXPECT_EQ(at(96, recipe), "q5_0") << recipe;
    EXPECT_EQ(at(96, "q5_k_s"), "q5_1");
    EXPECT_EQ(at(96, "q6_k"), "q8_0");
    EXPECT_EQ(at(96, "iq4_xs"), "iq4_nl");
    EXPECT_EQ(at(40, "q4_k_s"), "f16");
    EXPECT_EQ(at(40, "q8_0"), "f16");
    EXPECT_EQ(at(40, "f32"), "f32");
}

TEST_F(Recipes, AChoiceByNameIsStronger) {
    const std::vector<Spec> tensors = {{"output.weight", {256, 2}},
                                       {"blk.1.attn_q.weight", {256, 2}},
                                       {"blk.1.attn_q_norm.weight", {256}},
                                       {"blk.11.attn_q.weight", {256, 2}}};
    const PlanOptions options = {.choices = {{"blk.1.attn_q", Type::Q8_0}, {"attn_q", Type::Q5_K}}};
    const auto types = plan(tensors, "q4_k_s", options);
    EXPECT_EQ(types.at("blk.1.attn_q.weight"), "q8_0");
    EXPECT_EQ(types.at("blk.11.attn_q.weight"), "q5_k");
    EXPECT_EQ(types.at("blk.1.attn_q_norm.weight"), "f32") << "no matrix";
    EXPECT_EQ(types.at("output.weight"), "q6_k");
}

TEST_F(Recipes, CountsFromTheFileMayBeAnything) {
    GgufBytes file;
    file.add_string("general.architecture", "llama");
    file.raw_kv("llama.block_count", 10, GgufBytes::u64(UINT64_MAX / 2));
    file.add_f32("llama.attention.head_count", 0).add_u32("llama.attention.head_count_kv", 0);
    file.tensor("blk.99999999999999999999999.ffn_down.weight", {256, 2}, 0, 0);
    file.data.resize(2048);
    const auto opened = open(write("odd.gguf", file.bytes()));
    ASSERT_TRUE(opened);
    for (const char* name : {"q4_k_m", "q3_k_m", "q2_k"})
        EXPECT_EQ(plan_quantization(*opened, *find_recipe(name)).tensors.size(), 1u);
}

}  // namespace
}  // namespace nib::test
