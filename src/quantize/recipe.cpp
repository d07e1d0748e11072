// SPDX-License-Identifier: MIT
// The tables of recipes. The names, their numbers and which tensors they favour are those of the
// GGUF files that people exchange, so that a file of ours has the size and the quality that its
// name promises. Exceptions that exist for a single model are not made.
#include "src/quantize/recipe.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace nib {
namespace {

// File-type numbers; the K names without a size mean the medium one.
enum Name : uint32_t {
    kF32 = 0,
    kF16 = 1,
    kQ4_0 = 2,
    kQ4_1 = 3,
    kQ8_0 = 7,
    kQ5_0 = 8,
    kQ5_1 = 9,
    kQ2_K = 10,
    kQ3_K_S = 11,
    kQ3_K_M = 12,
    kQ3_K_L = 13,
    kQ4_K_S = 14,
    kQ4_K_M = 15,
    kQ5_K_S = 16,
    kQ5_K_M = 17,
    kQ6_K = 18,
    kQ2_K_S = 21,
    kIq4_Nl = 25,
    kIq4_Xs = 30,
    kBf16 = 32,
    kMxfp4 = 38,
};

constexpr Recipe kRecipes[] = {
    {"f32", kF32, Type::F32},          {"f16", kF16, Type::F16},
    {"bf16", kBf16, Type::BF16},       {"q4_0", kQ4_0, Type::Q4_0},
    {"q4_1", kQ4_1, Type::Q4_1},       {"q5_0", kQ5_0, Type::Q5_0},
    {"q5_1", kQ5_1, Type::Q5_1},       {"q8_0", kQ8_0, Type::Q8_0},
    {"q2_k", kQ2_K, Type::Q2_K},       {"q2_k_s", kQ2_K_S, Type::Q2_K},
    {"q3_k", kQ3_K_M, Type::Q3_K},     {"q3_k_s", kQ3_K_S, Type::Q3_K},
    {"q3_k_m", kQ3_K_M, Type::Q3_K},   {"q3_k_l", kQ3_K_L, Type::Q3_K},
    {"q4_k", kQ4_K_M, Type::Q4_K},     {"q4_k_s", kQ4_K_S, Type::Q4_K},
    {"q4_k_m", kQ4_K_M, Type::Q4_K},   {"q5_k", kQ5_K_M, Type::Q5_K},
    {"q5_k_s", kQ5_K_S, Type::Q5_K},   {"q5_k_m", kQ5_K_M, Type::Q5_K},
    {"q6_k", kQ6_K, Type::Q6_K},       {"iq4_nl", kIq4_Nl, Type::IQ4_NL},
    {"iq4_xs", kIq4_Xs, Type::IQ4_XS}, {"mxfp4", kMxfp4, Type::MXFP4},
};

enum class Role { Other, Value, Key, Query, Joined, AttentionOut, Down };

// Which layers a rule means.
enum class Where {
    All,
    Grouped,  // models where four or more query heads share a key head
    FirstTwo,
    FirstFour,
    FirstEighth,
    FirstSixteenth,
    Spread,  // the first and the last eighth, and every third one between
};

struct Rule {
    Name name;
    Role role;
    Where where;
    Type type;
};

// The first row that matches decides; no row: the base type.
constexpr Rule kRules[] = {
    {kQ2_K, Role::Value, Where::Grouped, Type::Q4_K},
    {kQ2_K, Role::Value, Where::All, Type::Q3_K},
    {kQ2_K, Role::Down, Where::All, Type::Q3_K},
    {kQ2_K, Role::AttentionOut, Where::All, Type::Q3_K},
    {kQ2_K_S, Role::Value, Where::Grouped, Type::Q4_K},
    {kQ2_K_S, Role::Down, Where::FirstEighth, Type::Q4_K},
    {kQ3_K_M, Role::Value, Where::FirstTwo, Type::Q5_K},
    {kQ3_K_M, Role::Value, Where::All, Type::Q4_K},
    {kQ3_K_M, Role::Down, Where::FirstSixteenth, Type::Q5_K},
    {kQ3_K_M, Role::Down, Where::All, Type::Q4_K},
    {kQ3_K_M, Role::AttentionOut, Where::All, Type::Q4_K},
    {kQ3_K_M, Role::Joined, Where::All, Type::Q4_K},
    {kQ3_K_L, Role::Value, Where::All, Type::Q5_K},
    {kQ3_K_L, Role::Down, Where::All, Type::Q5_K},
    {kQ3_K_L, Role::AttentionOut, Where::All, Type::Q5_K},
    {kQ3_K_L, Role::Joined, Where::All, Type::Q4_K},
    {kQ4_K_S, Role::Value, Where::FirstFour, Type::Q5_K},
    {kQ4_K_S, Role::Down, Where::FirstEighth, Type::Q5_K},
    {kQ4_K_M, Role::Value, Where::Spread, Type::Q6_K},
    {kQ4_K_M, Role::Down, Where::Spread, Type::Q6_K},
    {kQ4_K_M, Role::Joined, Where::All, Type::Q5_K},
    {kQ5_K_M, Role::Value, Where::Spread, Type::Q6_K},
    {kQ5_K_M, Role::Down, Where::Spread, Type::Q6_K},
    {kQ5_K_M, Role::Joined, Where::All, Type::Q6_K},
    {kIq4_Nl, Role::Value, Where::Grouped, Type::Q5_K},
    {kIq4_Nl, Role::Down, Where::FirstEighth, Type::Q5_K},
    {kIq4_Xs, Role::Value, Where::Grouped, Type::Q5_K},
    {kIq4_Xs, Role::Down, Where::FirstEighth, Type::Q5_K},
};

// Small or sensitive matrices that stay as they are, by a part of their name.
constexpr std::string_view kKept[] = {
    "_norm.weight", "ffn_gate_inp.weight",  "position_embd",    "token_types",
    "rope_",        "ssm_conv1d",           "shortconv.conv",   "altup",
    "laurel",       "per_layer_model_proj", "time_mix_first",   "time_mix_w0",
    "time_mix_w1",  "time_mix_w2",          "time_mix_v0",      "time_mix_v1",
    "time_mix_v2",  "time_mix_a0",          "time_mix_a1",      "time_mix_a2",
    "time_mix_g1",  "time_mix_g2",          "time_mix_decay_w", "time_mix_lerp_fused",
    "attn_rel_b",   "patch_embd",           "rel_pos",
};

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

bool is_float(Type type) {
    return type == Type::F32 || type == Type::F16 || type == Type::BF16 || type == Type::F64;
}

bool is_integer(Type type) {
    return type >= Type::I8 && type <= Type::I64;
}

bool is_quantized_by_rule(const GgufTensor& tensor) {
    if (tensor.n_dims < 2 || is_integer(tensor.def->type)) return false;
    if (tensor.ne[1] * tensor.ne[2] * tensor.ne[3] == 1) return false;
    if (!tensor.name.ends_with("weight")) return false;
    return std::none_of(std::begin(kKept), std::end(kKept),
                        [&](std::string_view part) { return contains(tensor.name, part); });
}

Role role_of(std::string_view name) {
    if (contains(name, "attn_v.") || contains(name, "attn_kv_b.")) return Role::Value;
    if (contains(name, "attn_qkv.")) return Role::Joined;
    if (contains(name, "attn_k.")) return Role::Key;
    if (contains(name, "attn_q.")) return Role::Query;
    if (contains(name, "attn_output.")) return Role::AttentionOut;
    if (contains(name, "ffn_down")) return Role::Down;
    return Role::Other;
}

// 7 of "blk.7.attn_v.weight"; 0 if the tensor belongs to no layer.
int64_t layer_of(std::string_view name) {
    constexpr std::string_view kPrefix = "blk.";
    int64_t layer = 0;
    if (name.starts_with(kPrefix))
        std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
    return std::max<int64_t>(layer, 0);
}

// What the rules ask about the model.
struct Counts {
    int64_t layers = 0, group = 1, experts = 0;
    bool tied = false;
};

constexpr int64_t kCountMax = 1 << 20;  // of anything in a model; keeps sums far from overflow

Counts count(const GgufFile& file) {
    Counts counts;
    const GgufValue* arch = file.find("general.architecture");
    const auto number = [&](const char* name, int64_t fallback) {
        const GgufValue* value = arch ? file.find(std::string(arch->text) + "." + name) : nullptr;
        const auto found = value ? value->integer() : std::nullopt;
        return found && *found >= 0 ? std::min(*found, kCountMax) : fallback;
    };
    counts.layers = number("block_count", 0);
    counts.experts = number("expert_count", 0);
    const int64_t heads = number("attention.head_count", 0);
    const int64_t kv_heads = number("attention.head_count_kv", heads);
    if (kv_heads > 0) counts.group = heads / kv_heads;
    counts.tied = file.find_tensor("output.weight") == nullptr;
    return counts;
}

bool holds(Where where, const Counts& c, int64_t layer) {
    const int64_t eighth = c.layers / 8;
    switch (where) {
    case Where::All:
        return true;
    case Where::Grouped:
        return c.group >= 4;
    case Where::FirstTwo:
        return layer < 2;
    case Where::FirstFour:
        return layer < 4;
    case Where::FirstEighth:
        return layer < eighth;
    case Where::FirstSixteenth:
        return layer < c.layers / 16;
    case Where::Spread:
        return layer < eighth || layer >= c.layers - (c.layers + 7) / 8 ||
               (layer - eighth) % 3 == 2;
    }
    return false;
}

// What the recipe wants, before the shape is asked.
Type wanted(const Recipe& recipe, const GgufTensor& tensor, const Counts& counts) {
    if (is_float(recipe.base)) return recipe.base;
    const bool head =
        tensor.name == "output.weight" || (counts.tied && tensor.name == "token_embd.weight");
    if (head) return recipe.base == Type::Q8_0 ? Type::Q8_0 : Type::Q6_K;
    if (tensor.name == "token_embd.weight") return recipe.base;
    if (recipe.base == Type::MXFP4) {
        // Only stacks of experts: the format is meant for them, the rest is small.
        return tensor.ne[2] > 1 || counts.experts == 0 ? Type::MXFP4 : Type::Q8_0;
    }
    const Role role = role_of(tensor.name);
    if (counts.experts == 8 && (role == Role::Value || role == Role::Key)) return Type::Q8_0;
    for (const Rule& rule : kRules) {
        if (rule.name != recipe.file_type || rule.role != role) continue;
        if (holds(rule.where, counts, layer_of(tensor.name))) return rule.type;
    }
    return recipe.base;
}

// A type for rows that do not fit the blocks of `type`.
Type smaller_blocks(Type type) {
    switch (type) {
    case Type::Q2_K:
    case Type::Q3_K:
    case Type::Q4_K:
        return Type::Q5_0;
    case Type::Q5_K:
        return Type::Q5_1;
    case Type::Q6_K:
        return Type::Q8_0;
    case Type::IQ4_XS:
        return Type::IQ4_NL;
    default:
        return Type::F16;
    }
}

TensorPlan plan_tensor(const GgufTensor& tensor, Type wish) {
    TensorPlan plan{.source = &tensor, .def = &info(wish), .wish = &info(wish)};
    while (tensor.ne[0] % plan.def->block_elems != 0)
        plan.def = &info(smaller_blocks(plan.def->type));
    plan.bytes = row_bytes(*plan.def, tensor.ne[0]) * (tensor.elements() / tensor.ne[0]);
    return plan;
}

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

const Recipe* find_recipe(std::string_view name) {
    std::string word(name);
    std::transform(word.begin(), word.end(), word.begin(), lower);
    for (const Recipe& recipe : kRecipes) {
        if (word == recipe.name && info(recipe.base).encode) return &recipe;
    }
    return nullptr;
}

std::string recipe_names() {
    std::string names;
    for (const Recipe& recipe : kRecipes) {
        if (info(recipe.base).encode)
            names += (names.empty() ? "" : " ") + std::string(recipe.name);
    }
    return names;
}

QuantPlan plan_quantization(const GgufFile& file,
                            const Recipe& recipe,
                            const PlanOptions& options) {
    QuantPlan plan{.recipe = &recipe};
    const Counts counts = count(file);
    for (const GgufTensor& tensor : file.tensors()) {
        Type type = tensor.def->type;
        if (is_quantized_by_rule(tensor)) {
            type = options.pure ? recipe.base : wanted(recipe, tensor, counts);
            const auto choice =
                std::find_if(options.choices.begin(), options.choices.end(),
                             [&](const TensorChoice& c) { return contains(tensor.name, c.part); });
            if (choice != options.choices.end()) type = choice->type;
        }
        plan.tensors.push_back(plan_tensor(tensor, type));
        plan.bytes_in += tensor.bytes;
        plan.bytes_out += plan.tensors.back().bytes;
        plan.parameters += tensor.elements();
    }
    return plan;
}

}  // namespace nib
