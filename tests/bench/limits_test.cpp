// SPDX-License-Identifier: MIT
// What a step must read and multiply: counted by hand for single nodes, and as sums over a plan.
#include "src/bench/limits.h"

#include "ggml-like/op.h"
#include "tests/bench/fixtures.h"

namespace nib::bench {
namespace {

Weight matrix(Type type, int32_t ne0, int32_t ne1) {
    return {.name = "w", .def = &info(type), .ne0 = ne0, .ne1 = ne1, .id = 0};
}

Node node_of(const char* op, std::vector<const Weight*> weights) {
    Node node;
    node.op = find_op(op);
    node.weights = std::move(weights);
    return node;
}

TEST(Costs, AMatmulReadsItsWeightsOnceAndMultipliesForEachRow) {
    const Weight w = matrix(Type::Q8_0, 64, 10);
    Weight bias = matrix(Type::F32, 10, 1);
    bias.is_vector = true;
    const Cost cost = cost_of_node(node_of("matmul", {&w, &bias}), 3, {});
    EXPECT_EQ(cost.bytes, 2 * 34 * 10);
    EXPECT_EQ(cost.int8_macs, 64 * 10 * 3);
    EXPECT_EQ(cost.float_macs, 0);
}

TEST(Costs, FloatWeightsMultiplyAsFloats) {
    const Weight w = matrix(Type::BF16, 64, 10);
    const Cost cost = cost_of_node(node_of("matmul", {&w}), 1, {});
    EXPECT_EQ(cost.bytes, 64 * 10 * 2);
    EXPECT_EQ(cost.int8_macs, 0);
    EXPECT_EQ(cost.float_macs, 64 * 10);
}

TEST(Costs, APreciseMatmulMultipliesTwice) {
    const Weight w = matrix(Type::Q8_0, 64, 10);
    Node node = node_of("matmul", {&w});
    node.params.precise = true;
    EXPECT_EQ(cost_of_node(node, 1, {}).int8_macs, 2 * 64 * 10);
}

TEST(Costs, AnEmbeddingReadsARowForEachToken) {
    const Weight w = matrix(Type::Q8_0, 64, 1000);
    const Cost cost = cost_of_node(node_of("embed", {&w}), 5, {});
    EXPECT_EQ(cost.bytes, 5 * 68);
    EXPECT_EQ(cost.macs(), 0);
}

Node attention_node(int32_t window) {
    Node node = node_of("attention", {});
    node.params.attention = {
        .layer = 0, .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .window = window};
    return node;
}

TEST(Costs, AttentionReadsWhatEachSequenceHolds) {
    StepShape step;
    step.sequences = {{.first = 9, .rows = 1}, {.first = 19, .rows = 1}};
    const Cost cost = cost_of_node(attention_node(0), 2, step);
    const double token = 2 * 16 * 4;  // k and v as halves
    EXPECT_EQ(cost.bytes, (10 + 20) * token);
    EXPECT_EQ(cost.float_macs, (10 + 20) * 2 * 4 * 16);
}

TEST(Costs, AWindowBoundsWhatIsRead) {
    StepShape step;
    step.sequences = {{.first = 999, .rows = 1}};
    const Cost cost = cost_of_node(attention_node(8), 1, step);
    EXPECT_EQ(cost.bytes, 8 * 2 * 16 * 4);
    EXPECT_EQ(cost.float_macs, 8 * 2 * 4 * 16);
}

TEST(Costs, RowsOfAPromptSeeEachOther) {
    StepShape step;
    step.sequences = {{.first = 0, .rows = 4}};
    EXPECT_EQ(cost_of_node(attention_node(0), 4, step).float_macs, (1 + 2 + 3 + 4) * 2 * 4 * 16);
}

TEST(Costs, ADeadNodeCostsNothing) {
    EXPECT_EQ(cost_of_node(Node{}, 4, {}).bytes, 0);
}

TEST(Limits, TheSlowerOfReadingAndMultiplyingCounts) {
    const Roofline limits = round_limits();
    EXPECT_DOUBLE_EQ(limit_seconds(Cost{.bytes = 1e9}, limits), 1);
    EXPECT_DOUBLE_EQ(limit_seconds(Cost{.bytes = 1e6, .int8_macs = 1e11}, limits), 1);
    EXPECT_DOUBLE_EQ(limit_seconds(Cost{.int8_macs = 1e11, .float_macs = 1e10}, limits), 2);
    EXPECT_EQ(limit_seconds(Cost{.bytes = 1e9}, Roofline{}), 0);
}

class StepCosts : public TinyModelTest {};

// Every matrix but the table is read once, whatever the number of rows.
TEST_F(StepCosts, AStepReadsEveryMatrixOnce) {
    const LoadedModel loaded = load({.path = write(), .context = 64});
    ASSERT_TRUE(loaded.runner);
    const Model& model = loaded.runner->model();
    double bytes = 0, macs = 0;
    for (const Weight& w : model.weights) {
        if (w.is_vector || &w == model.fields.token_embd) continue;
        bytes += double(w.bytes());
        macs += double(w.ne0) * double(w.ne1);
    }
    for (const int32_t rows : {1, 4}) {
        StepShape step;
        step.sequences.assign(static_cast<size_t>(rows), {0, 1});
        step.outputs = rows;
        Cost sum;
        for (const Cost& c : costs_of_step(loaded.runner->plan(), step))
            sum += c;
        const double table_row = double(row_bytes(*model.fields.token_embd->def, 64));
        const double kv = 2 * 2 * 16 * 4;  // two layers, two heads of 16
        EXPECT_DOUBLE_EQ(sum.bytes, bytes + rows * (table_row + kv));
        EXPECT_GE(sum.int8_macs, rows * macs);
        EXPECT_LT(sum.int8_macs, rows * macs * 2);  // some are precise
    }
}

}  // namespace
}  // namespace nib::bench
