// SPDX-License-Identifier: MIT
#include "ggml-like/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace nib {
namespace {

// n values of heads of head_dim as Q8_0 blocks would be read. A block with a value that is not
// finite is NaN.
void round_q8_0(float* x, size_t n, size_t head_dim) {
    const QuantDef& def = info(Type::Q8_0);
    for (size_t head = 0; head < n; head += head_dim) {
        for (size_t i = 0; i < head_dim; i += 32) {
            float* at = x + head + i;
            const size_t size = std::min<size_t>(32, head_dim - i);
            float values[32] = {};
            uint8_t block[64];
            std::copy_n(at, size, values);
            if (std::all_of(at, at + size, [](float v) { return std::isfinite(v); })) {
                def.encode(values, block, 32);
                def.decode(block, values, 32);
            } else {
                std::fill(values, values + 32, NAN);
            }
            std::copy_n(values, size, at);
        }
    }
}

}  // namespace

ReferenceKv::ReferenceKv(const KvGroupSpec& group, int32_t n_blocks)
    : type_k_(group.type_k), type_v_(group.type_v), n_blocks_(n_blocks) {
    for (const AttentionSpec& a : group.layers) {
        const size_t token =
            2 * static_cast<size_t>(a.n_kv_heads) * static_cast<size_t>(a.head_dim);
        layers_.push_back({a.layer, a.head_dim, block_floats_, token});
        block_floats_ += token * kBlockTokens;
    }
    data_.resize(block_floats_ * static_cast<size_t>(n_blocks));
}

bool ReferenceKv::has(int32_t layer) const {
    return std::any_of(layers_.begin(), layers_.end(),
                       [&](const Layer& l) { return l.layer == layer; });
}

const ReferenceKv::Layer& ReferenceKv::find(int32_t layer) const {
    const auto l = std::find_if(layers_.begin(), layers_.end(),
                                [&](const Layer& x) { return x.layer == layer; });
    NIB_ASSERT(l != layers_.end());
    return *l;
}

float* ReferenceKv::token(int32_t block, int32_t layer, int32_t slot) {
    const Layer& l = find(layer);
    NIB_ASSERT(block >= 0 && block < n_blocks_);
    return data_.data() + static_cast<size_t>(block) * block_floats_ + l.offset +
           static_cast<size_t>(slot) * l.token_floats;
}

void ReferenceKv::write(
    int32_t block, int32_t layer, int32_t slot, const float* k, const float* v) {
    const Layer& l = find(layer);
    const size_t n = l.token_floats / 2;
    const auto head_dim = static_cast<size_t>(l.head_dim);
    float* to = token(block, layer, slot);
    std::copy_n(k, n, to);
    std::copy_n(v, n, to + n);
    if (type_k_ == Type::Q8_0) round_q8_0(to, n, head_dim);
    if (type_v_ == Type::Q8_0) round_q8_0(to + n, n, head_dim);
}

void ReferenceKv::copy(int32_t from, int32_t to, int32_t n_tokens) {
    for (const Layer& l : layers_) {
        std::memcpy(token(to, l.layer, 0), token(from, l.layer, 0),
                    static_cast<size_t>(n_tokens) * l.token_floats * sizeof(float));
    }
}

void ReferenceKv::read(int32_t block, int32_t n_tokens, uint8_t* to) const {
    std::memset(to, 0, block_bytes());
    const float* from = data_.data() + static_cast<size_t>(block) * block_floats_;
    for (const Layer& l : layers_) {
        std::memcpy(to + l.offset * sizeof(float), from + l.offset,
                    static_cast<size_t>(n_tokens) * l.token_floats * sizeof(float));
    }
}

void ReferenceKv::write(int32_t block, int32_t n_tokens, const uint8_t* from) {
    for (const Layer& l : layers_) {
        std::memcpy(token(block, l.layer, 0), from + l.offset * sizeof(float),
                    static_cast<size_t>(n_tokens) * l.token_floats * sizeof(float));
    }
}

ReferenceKv& ReferenceContext::kv_of(int32_t layer, const int32_t*& table, int32_t sequence) const {
    const auto found = std::find_if(step.kv.begin(), step.kv.end(), [&](KvMemory* kv) {
        return static_cast<ReferenceKv*>(kv)->has(layer);
    });
    NIB_ASSERT(found != step.kv.end());
    table =
        step.tables[static_cast<size_t>(found - step.kv.begin())][static_cast<size_t>(sequence)];
    return static_cast<ReferenceKv&>(**found);
}

std::vector<float> ReferenceContext::weight(size_t i) const {
    const Weight& w = *node.weights[i];
    std::vector<float> values(static_cast<size_t>(w.ne0) * static_cast<size_t>(w.ne1));
    w.def->decode(weight_bytes(i), values.data(), values.size());
    return values;
}

namespace {

struct ReferenceWeights : WeightStore {
    std::vector<std::vector<uint8_t>> rows;  // by Weight::id
    size_t bytes() const override {
        size_t sum = 0;
        for (const auto& r : rows)
            sum += r.size();
        return sum;
    }
};

class ReferenceExecutor : public Executor {
  public:
    ReferenceExecutor(std::shared_ptr<const Plan> plan, const ReferenceWeights& weights)
        : plan_(std::move(plan)), weights_(weights) {}
    size_t workspace_bytes() const override { return 0; }

    Result<void> run(const StepInputs& step) override {
        values_.assign(plan_->graph.nodes().size(), {});
        for (int32_t i : plan_->trunk)
            run_node(i, step, step.n_rows);
        if (!step.n_outputs) return {};
        for (int32_t i : plan_->tail)
            run_node(i, step, step.n_outputs);
        const ReferenceValue& logits = values_[static_cast<size_t>(plan_->graph.result().node)];
        for (int32_t o = 0; o < step.n_outputs; o++) {
            step.on_logits(o, {logits.row(o), static_cast<size_t>(logits.shape.width())});
        }
        return {};
    }

  private:
    void run_node(int32_t index, const StepInputs& step, int32_t n_rows) {
        const Node& node = plan_->graph.nodes()[static_cast<size_t>(index)];
        ReferenceValue& out = values_[static_cast<size_t>(index)];
        out.shape = node.shape;
        out.data.assign(static_cast<size_t>(n_rows) * static_cast<size_t>(node.shape.width()), 0);
        ReferenceContext c{plan_->graph, node, step, {}, n_rows, out, weights_.rows};
        for (Tensor t : node.inputs)
            c.inputs.push_back(&value_of(t, step, n_rows));
        node.op->reference(c);
    }

    // Aliases are not in the plan's lists: they are made when somebody reads them.
    const ReferenceValue& value_of(Tensor t, const StepInputs& step, int32_t n_rows) {
        if (plan_->graph.node(t).op->alias) run_node(t.node, step, n_rows);
        return values_[static_cast<size_t>(t.node)];
    }

    std::shared_ptr<const Plan> plan_;
    const ReferenceWeights& weights_;
    std::vector<ReferenceValue> values_;
};

class ReferenceBackend : public Backend {
  public:
    std::string description() const override { return "reference"; }
    uint64_t memory_available() const override { return uint64_t{1} << 40; }
    bool supports(const Graph&, const Node&) const override { return true; }
    size_t workspace(const Plan&) const override { return 0; }

    Result<std::unique_ptr<WeightStore>> load(std::span<const Weight> weights,
                                              const LoadProgress& done) override {
        auto store = std::make_unique<ReferenceWeights>();
        for (const Weight& w : weights) {
            store->rows.emplace_back(w.data, w.data + w.bytes());
            if (done && !done(w.data, w.bytes()))
                return Error{Status::Cancelled, "loading was given up"};
        }
        return std::unique_ptr<WeightStore>(std::move(store));
    }

    Result<std::unique_ptr<KvMemory>> make_kv(const KvGroupSpec& group, int32_t n_blocks) override {
        NIB_TRY(check_kv_types(group));
        return std::unique_ptr<KvMemory>(new ReferenceKv(group, n_blocks));
    }

    Result<std::unique_ptr<Executor>> prepare(std::shared_ptr<const Plan> plan,
                                              const WeightStore& weights,
                                              std::span<const KvGroupSpec>) override {
        return std::unique_ptr<Executor>(
            new ReferenceExecutor(std::move(plan), static_cast<const ReferenceWeights&>(weights)));
    }
};

}  // namespace

extern const BackendDef backend_reference = {
    .name = "reference", .create = [](const BackendOptions&) -> Result<std::unique_ptr<Backend>> {
        return std::unique_ptr<Backend>(new ReferenceBackend());
    }};

}  // namespace nib
