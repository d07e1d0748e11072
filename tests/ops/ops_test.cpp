// SPDX-License-Identifier: MIT
// Every op on every backend level against its plain reference, in a small graph of its own: table
// -> op -> selected rows. An op without a case here fails the suite.
#include "backends/cpu/op.h"
#include "ggml-like/backend.h"
#include "ggml-like/op.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <tuple>

#include <gtest/gtest.h>

namespace nib {
namespace {

constexpr int32_t kWidth = 96, kOut = 48, kVocab = 64, kRows = 70;

// Float weights that live as long as the test.
class Weights {
  public:
    const Weight* matrix(int32_t ne0, int32_t ne1, float scale = 1) {
        return add(ne0, ne1, false, scale);
    }
    const Weight* vector(int32_t n) { return add(n, 1, true, 1); }
    std::vector<Weight> all() const { return {weights_.begin(), weights_.end()}; }

  private:
    const Weight* add(int32_t ne0, int32_t ne1, bool is_vector, float scale) {
        data_.emplace_back(static_cast<size_t>(ne0) * static_cast<size_t>(ne1));
        std::normal_distribution<float> normal(0, scale);
        for (float& v : data_.back())
            v = normal(rng_);
        weights_.push_back({.name = "w" + std::to_string(weights_.size()),
                            .def = find_type("f32"),
                            .ne0 = ne0,
                            .ne1 = ne1,
                            .id = static_cast<int32_t>(weights_.size()),
                            .is_vector = is_vector,
                            .data = reinterpret_cast<const uint8_t*>(data_.back().data())});
        return &weights_.back();
    }

    std::mt19937 rng_{3};
    std::deque<std::vector<float>> data_;
    std::deque<Weight> weights_;
};

using Case = std::function<Tensor(Graph&, Weights&, Tensor)>;

constexpr AttentionSpec kAttention{
    .n_heads = 3, .n_kv_heads = 1, .head_dim = 32, .window = 20, .scale = 0.2f, .softcap = 5};

const std::multimap<std::string, Case>& cases() {
    static const std::multimap<std::string, Case> all = {
        {"embed", [](Graph&, Weights&, Tensor x) { return x; }},
        {"add", [](Graph& g, Weights&, Tensor x) { return g.add(x, g.scale(x, 0.5f)); }},
        {"add_bias",
         [](Graph& g, Weights& w, Tensor x) { return g.add_bias(x, w.vector(kWidth)); }},
        {"scale", [](Graph& g, Weights&, Tensor x) { return g.scale(x, -3.25f); }},
        {"softcap", [](Graph& g, Weights&, Tensor x) { return g.softcap(x, 1.5f); }},
        {"silu_mul", [](Graph& g, Weights&, Tensor x) { return g.silu_mul(g.scale(x, 4), x); }},
        {"gelu_mul", [](Graph& g, Weights&, Tensor x) { return g.gelu_mul(g.scale(x, 4), x); }},
        {"matmul",
         [](Graph& g, Weights& w, Tensor x) { return g.matmul(w.matrix(kWidth, kOut), x); }},
        {"matmul",
         [](Graph& g, Weights& w, Tensor x) {
             return g.add(x, g.add_bias(g.matmul(w.matrix(kWidth, kWidth), x), w.vector(kWidth)));
         }},
        {"rms_norm",
         [](Graph& g, Weights& w, Tensor x) { return g.rms_norm(x, w.vector(kWidth), 1e-5f); }},
        {"rms_norm", [](Graph& g, Weights& w,
                        Tensor x) { return g.rms_norm(g.heads(x, 32), w.vector(32), 1e-6f); }},
        {"view", [](Graph& g, Weights&, Tensor x) { return g.scale(g.view(x, 32, 16, 2), 2); }},
        {"rope",
         [](Graph& g, Weights&, Tensor x) { return g.rope(g.heads(x, 32), {.n_dims = 32}); }},
        {"rope",
         [](Graph& g, Weights&, Tensor x) {
             return g.rope(g.heads(x, 32), {.n_dims = 16,
                                            .neox = true,
                                            .base = 1e6f,
                                            .factor = 2,
                                            .freq_factors = {1, 1, 1, 1, 2, 2, 4, 4}});
         }},
        {"select_outputs", [](Graph& g, Weights&, Tensor x) { return g.select_outputs(x); }},
        {"attention",
         [](Graph& g, Weights& w, Tensor x) {
             return g.attention(x, g.matmul(w.matrix(kWidth, 32, 0.1f), x),
                                g.matmul(w.matrix(kWidth, 32, 0.1f), x), kAttention);
         }},
    };
    return all;
}

// A graph around an op on a backend, with one KV group of four blocks.
class Session {
  public:
    // nullptr if this CPU lacks the level.
    static std::unique_ptr<Session> open(const char* backend_name,
                                         const char* level,
                                         const Case& build,
                                         KvGroupSpec group = {.window = 20, .layers = {}},
                                         int32_t threads = 2) {
        auto backend = find_backend(backend_name)->create({.threads = threads, .cpu_level = level});
        if (!backend.ok()) return nullptr;
        auto s = std::make_unique<Session>();
        s->backend_ = std::move(*backend);
        Graph g;
        Tensor y = build(g, s->weights_, g.embed(s->weights_.matrix(kWidth, kVocab)));
        if (y.valid() && g.node(y).shape.rows == Rows::Step) y = g.select_outputs(y);
        g.output(y);
        group.layers = g.attention_layers();
        const auto plan = make_plan(std::move(g), {.max_rows = kRows, .max_outputs = 16});
        EXPECT_TRUE(plan.ok()) << plan.error().message;
        s->list_ = s->weights_.all();
        auto store = s->backend_->load(s->list_, {});
        auto kv = s->backend_->make_kv(group, 4);
        EXPECT_TRUE(store.ok() && kv.ok());
        auto executor = s->backend_->prepare(*plan, **store, {&group, 1});
        EXPECT_TRUE(executor.ok());
        s->store_ = std::move(*store);
        s->kv_ = std::move(*kv);
        s->executor_ = std::move(*executor);
        return s;
    }

    // Positions first .. end of one sequence; logits of every third of them. salt: other tokens.
    std::vector<float> run(int32_t first, int32_t end, const int32_t* blocks, int32_t salt = 0) {
        std::vector<int32_t> tokens, outputs, sequences(static_cast<size_t>(end - first));
        std::vector<int64_t> positions;
        for (int32_t r = first; r < end; r++) {
            tokens.push_back((r * 37 + salt) % kVocab), positions.push_back(r);
            if (r % 3 == 0) outputs.push_back(r - first);
        }
        std::vector<float> out;
        const StepInputs step{.n_rows = end - first,
                              .tokens = tokens.data(),
                              .positions = positions.data(),
                              .sequences = sequences.data(),
                              .n_outputs = static_cast<int32_t>(outputs.size()),
                              .outputs = outputs.data(),
                              .tables = {{blocks}},
                              .kv = {kv_.get()},
                              .on_logits = [&](int32_t, std::span<const float> row) {
                                  out.insert(out.end(), row.begin(), row.end());
                              }};
        EXPECT_TRUE(executor_->run(step).ok());
        return out;
    }
    KvMemory& kv() { return *kv_; }

  private:
    std::unique_ptr<Backend> backend_;
    Weights weights_;
    std::vector<Weight> list_;
    std::unique_ptr<WeightStore> store_;
    std::unique_ptr<KvMemory> kv_;
    std::unique_ptr<Executor> executor_;
};

constexpr int32_t kBlocks[] = {3, 1};

std::vector<float> run(const char* backend_name,
                       const char* level,
                       const Case& build,
                       const KvGroupSpec& group = {.window = 20, .layers = {}},
                       int32_t threads = 2) {
    const auto session = Session::open(backend_name, level, build, group, threads);
    return session ? session->run(0, kRows, kBlocks) : std::vector<float>();
}

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
    double error = 0, signal = 0;
    for (size_t i = 0; i < got.size(); i++) {
        error += std::pow(double(got[i]) - want[i], 2);
        signal += std::pow(double(want[i]), 2);
    }
    return std::sqrt(error / signal);
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Ops : public testing::TestWithParam<const OpDef*> {};

TEST_P(Ops, EveryLevelAgreesWithTheReference) {
    const auto [begin, end] = cases().equal_range(GetParam()->name);
    ASSERT_NE(begin, end) << "no case for " << GetParam()->name;
    for (auto it = begin; it != end; ++it) {
        const std::vector<float> want = run("reference", "", it->second);
        ASSERT_FALSE(want.empty());
        std::vector<float> first;
        for (const char* level : {"scalar", "avx2", "avx512"}) {
            const std::vector<float> got = run("cpu", level, it->second);
            if (got.empty()) {
                std::printf("skipped: this CPU has no %s\n", level);
                continue;
            }
            ASSERT_EQ(got.size(), want.size());
            // Half precision of K and V in attention, float rounding elsewhere.
            const bool halves = it->first == "attention";
            EXPECT_LE(relative_error(got, want), halves ? 1e-3 : 2e-6) << level;
            if (first.empty()) first = got;
            EXPECT_TRUE(same(first, got)) << level;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All,
                         Ops,
                         testing::ValuesIn(all_ops().begin(), all_ops().end()),
                         [](const auto& i) { return std::string(i.param->name); });

// Attention over keys and values of every type. Heads of 48 have a block of 16 values.
class KvTypes : public testing::TestWithParam<std::tuple<Type, Type, int32_t>> {
  protected:
    KvGroupSpec group() const {
        const auto [k, v, window] = GetParam();
        return {.window = window, .layers = {}, .type_k = k, .type_v = v};
    }
    Case attention(int32_t n_heads, int32_t head_dim) const {
        return [=, window = std::get<2>(GetParam())](Graph& g, Weights& w, Tensor x) {
            const AttentionSpec spec{.n_heads = n_heads,
                                     .n_kv_heads = n_heads / 2,
                                     .head_dim = head_dim,
                                     .window = window,
                                     .scale = 0.2f};
            const int32_t width = n_heads * head_dim;
            return g.attention(g.matmul(w.matrix(kWidth, width, 0.1f), x),
                               g.matmul(w.matrix(kWidth, width / 2, 0.1f), x),
                               g.matmul(w.matrix(kWidth, width / 2, 0.1f), x), spec);
        };
    }
    std::vector<const char*> levels() const {
        std::vector<const char*> names;
        for (const char* level : {"scalar", "avx2", "avx512"}) {
            if (find_backend("cpu")->create({.threads = 1, .cpu_level = level}).ok())
                names.push_back(level);
        }
        return names;
    }
};

TEST_P(KvTypes, AgreeWithTheReferenceAtEveryLevelAndNumberOfThreads) {
    for (const int32_t head_dim : {32, 48}) {
        const Case build = attention(6, head_dim);
        const std::vector<float> want = run("reference", "", build, group());
        const std::vector<float> first = run("cpu", "scalar", build, group());
        // Queries of quantized keys are int8 too.
        const bool int8 = group().type_k == Type::Q8_0;
        EXPECT_LE(relative_error(first, want), int8 ? 1e-2 : 1e-3) << head_dim;
        for (const char* level : levels()) {
            for (const int32_t threads : {1, 2, 3})
                EXPECT_TRUE(same(run("cpu", level, build, group(), threads), first)) << level;
        }
    }
}

TEST_P(KvTypes, StepsOfAnySizeGiveTheSameBits) {
    const Case build = attention(4, 48);
    for (const char* level : levels()) {
        const std::vector<float> want = run("cpu", level, build, group());
        for (const int32_t rows : {1, 3, 16, 64}) {
            const auto session = Session::open("cpu", level, build, group());
            std::vector<float> got;
            for (int32_t at = 0; at < kRows; at += rows) {
                const auto part = session->run(at, std::min(kRows, at + rows), kBlocks);
                got.insert(got.end(), part.begin(), part.end());
            }
            EXPECT_TRUE(same(got, want)) << level << " " << rows;
        }
    }
}

// Going on in a copy of the beginning of a block is going on in the block.
TEST_P(KvTypes, CopiesHoldTheTokensThatWereAskedFor) {
    const Case build = attention(4, 48);
    for (const char* backend : {"cpu", "reference"}) {
        for (const int32_t n : {1, 15, 16, 23, 63, 64}) {
            const auto session = Session::open(backend, "", build, group());
            const std::vector<float> all = session->run(0, kRows, kBlocks);
            const int32_t others[] = {0, 2};
            session->run(0, kRows, others, 11);  // what lies there already
            session->kv().copy(3, 0, n);
            const size_t skipped = static_cast<size_t>((n + 2) / 3) * 4 * 48;
            const std::vector<float> want(all.begin() + static_cast<ptrdiff_t>(skipped), all.end());
            EXPECT_TRUE(same(session->run(n, kRows, others), want)) << backend << " " << n;
            EXPECT_TRUE(same(session->run(n, kRows, kBlocks), want)) << backend << " " << n;
        }
    }
}

TEST_P(KvTypes, BlocksAreAsLargeAsTheirTokens) {
    const auto [k, v, window] = GetParam();
    for (const int32_t head_dim : {16, 48, 64}) {
        KvGroupSpec spec = group();
        spec.layers = {{.layer = 0, .n_heads = 6, .n_kv_heads = 3, .head_dim = head_dim}};
        const size_t blocks = static_cast<size_t>((head_dim + 31) / 32);
        const auto bytes = [&](Type type) {
            return type == Type::F16 ? 2 * size_t(head_dim) : size_t(head_dim) + 2 * blocks;
        };
        EXPECT_EQ(kv_token_bytes(spec), 3 * (bytes(k) + bytes(v)));
        const auto backend = find_backend("cpu")->create({.threads = 1});
        const auto kv = (*backend)->make_kv(spec, 2);
        ASSERT_TRUE(kv.ok());
        EXPECT_EQ((*kv)->block_bytes(), kBlockTokens * kv_token_bytes(spec));
    }
}

INSTANTIATE_TEST_SUITE_P(All,
                         KvTypes,
                         testing::Combine(testing::Values(Type::F16, Type::Q8_0),
                                          testing::Values(Type::F16, Type::Q8_0),
                                          testing::Values(0, 20)));

TEST(KvType, OthersAreRefusedWithTheNamesOfThese) {
    EXPECT_EQ(*kv_type("q8_0"), Type::Q8_0);
    EXPECT_EQ(*kv_type("f16"), Type::F16);
    for (const char* name : {"", "q4_0", "F16 ", "f32"}) {
        const auto type = kv_type(name);
        ASSERT_FALSE(type.ok());
        EXPECT_EQ(type.error().status, Status::BadRequest);
        EXPECT_EQ(type.error().message,
                  "KV cache type: expected f16|q8_0, got '" + std::string(name) + "'");
    }
    for (const char* name : {"cpu", "reference"}) {
        const auto backend = find_backend(name)->create({.threads = 1});
        const auto kv = (*backend)->make_kv({.layers = {}, .type_v = Type::Q4_K}, 1);
        ASSERT_FALSE(kv.ok());
        EXPECT_EQ(kv.error().message, "KV cache type: expected f16|q8_0, got 'q4_k'");
        const auto none = (*backend)->make_kv({.layers = {}, .type_k = static_cast<Type>(4)}, 1);
        EXPECT_FALSE(none.ok());
    }
}

// A place is used again with another stride as soon as its value is not needed: the rows of the new
// value then lie on other rows of the old one, which another thread may still read.
TEST(Lowering, RowsRunTogetherOnlyWhereTheirPlacesAllow) {
    Plan plan;
    plan.max_rows = 64;
    const cpu::CpuWeights weights;
    const auto joins = [&](const cpu::Instruction& a, const cpu::Instruction& b) {
        cpu::Lowering l(plan, weights, {});
        std::vector<cpu::Instruction> list;
        l.out = &list;
        l.push(a);
        l.push(b);
        EXPECT_FALSE(list[0].joins);
        return list[1].joins;
    };
    const cpu::Value wide{.offset = 0, .stride = 96, .ne0 = 96, .ne1 = 1};
    const cpu::Value other{.offset = 64 * 96, .stride = 32, .ne0 = 32, .ne1 = 1};
    const cpu::Value reused{.offset = 0, .stride = 16, .ne0 = 16, .ne1 = 1};
    const cpu::Value part{.offset = 32, .stride = 96, .ne0 = 32, .ne1 = 1};
    const cpu::Value shifted{.offset = 80, .stride = 96, .ne0 = 32, .ne1 = 1};
    cpu::Instruction first, second;
    first.x = wide, first.out = other;
    second.x = other, second.out = reused;
    EXPECT_FALSE(joins(first, second));
    second.out = wide;
    EXPECT_TRUE(joins(first, second));
    second.out = part;  // within the same rows
    EXPECT_TRUE(joins(first, second));
    second.out = shifted;
    EXPECT_FALSE(joins(first, second));
    // Units that are not rows never join rows, nor an instruction whose result they read.
    first.name = second.name = "matmul";
    second.out = {.offset = 64 * 200, .stride = 32, .ne0 = 32, .ne1 = 1};
    second.units = [](const cpu::Instruction&, const cpu::Pass&) { return 1; };
    EXPECT_FALSE(joins(first, second));
    first.units = second.units;
    EXPECT_FALSE(joins(first, second));
    second.x = wide;
    EXPECT_TRUE(joins(first, second));
}

TEST(Graph, TheFirstMistakeIsKept) {
    Weights w;
    Graph g;
    Tensor x = g.embed(w.matrix(kWidth, kVocab));
    x = g.matmul(w.matrix(kWidth + 1, 4), x);
    x = g.rms_norm(x, w.vector(9), 1e-5f);
    g.output(x);
    const auto done = g.finish();
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().message, "w1: expected rows of 96 values, file has 97");
}

TEST(Plan, PlacesNeverOverlapWhileBothAreNeeded) {
    Weights w;
    Graph g;
    Tensor x = g.embed(w.matrix(kWidth, kVocab));
    for (int i = 0; i < 5; i++) {
        const Tensor h = g.rms_norm(x, w.vector(kWidth), 1e-5f);
        x = g.add(x, g.silu_mul(g.matmul(w.matrix(kWidth, kWidth), h), h));
    }
    g.output(g.select_outputs(x));
    const auto plan = make_plan(std::move(g), {.max_rows = 8, .max_outputs = 2});
    ASSERT_TRUE(plan.ok());
    // A node's place must differ from that of every input, unless it works in place.
    for (int32_t n : (*plan)->trunk) {
        const Node& node = (*plan)->graph.nodes()[static_cast<size_t>(n)];
        for (size_t i = 0; i < node.inputs.size(); i++) {
            if (node.op->in_place && i == 0) continue;
            EXPECT_NE((*plan)->places[static_cast<size_t>(n)].offset,
                      (*plan)->places[static_cast<size_t>(node.inputs[i].node)].offset);
        }
    }
    // The residual, one norm, one product: reuse keeps the arena near that.
    EXPECT_LE((*plan)->arena_floats, size_t{5} * 8 * kWidth);
}

}  // namespace
}  // namespace nib
