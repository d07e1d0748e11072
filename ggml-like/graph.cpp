// SPDX-License-Identifier: MIT
// Building a graph: every call finds its op, lets the op's rule make the shape, and appends a node.
// After the first mistake nothing is appended any more and finish() tells it.
#include "ggml-like/graph.h"

#include "ggml-like/op.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace nib {

const OpDef* find_op(const char* name) {
    for (const OpDef* op : all_ops()) {
        if (std::strcmp(op->name, name) == 0) return op;
    }
    return nullptr;
}

const char* op_name(const Node& node) {
    return node.op->name;
}

void Graph::fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
}

Tensor Graph::push(Node node) {
    if (!error_.empty()) return {};
    for (Tensor t : node.inputs) {
        if (!t.valid()) {
            fail(std::string(node.op->name) + ": an input is missing");
            return {};
        }
    }
    for (const Weight* w : node.weights) {
        if (!w) {
            fail(std::string(node.op->name) + ": a weight is missing");
            return {};
        }
    }
    Result<Shape> shape = node.op->shape(*this, node);
    if (!shape.ok()) {
        fail(shape.error().message);
        return {};
    }
    node.shape = *shape;
    nodes_.push_back(std::move(node));
    return {static_cast<int32_t>(nodes_.size()) - 1};
}

namespace {
const OpDef* op(const char* name) {
    const OpDef* found = find_op(name);
    NIB_ASSERT(found != nullptr);
    return found;
}
}  // namespace

Tensor Graph::embed(const Weight* table) {
    return push({.op = op("embed"), .weights = {table}});
}

Tensor Graph::matmul(const Weight* w, Tensor x, Precision p) {
    return push({.op = op("matmul"),
                 .inputs = {x},
                 .weights = {w},
                 .params = {.precise = p == Precision::High}});
}

Tensor Graph::add_bias(Tensor x, const Weight* bias) {
    return push({.op = op("add_bias"), .inputs = {x}, .weights = {bias}});
}

Tensor Graph::rms_norm(Tensor x, const Weight* w, float eps) {
    return push({.op = op("rms_norm"), .inputs = {x}, .weights = {w}, .params = {.eps = eps}});
}

Tensor Graph::add(Tensor a, Tensor b) {
    return push({.op = op("add"), .inputs = {a, b}});
}

Tensor Graph::scale(Tensor x, float factor) {
    return push({.op = op("scale"), .inputs = {x}, .params = {.factor = factor}});
}

Tensor Graph::softcap(Tensor x, float cap) {
    return push({.op = op("softcap"), .inputs = {x}, .params = {.factor = cap}});
}

Tensor Graph::silu_mul(Tensor gate, Tensor up) {
    return push({.op = op("silu_mul"), .inputs = {gate, up}});
}

Tensor Graph::gelu_mul(Tensor gate, Tensor up) {
    return push({.op = op("gelu_mul"), .inputs = {gate, up}});
}

Tensor Graph::view(Tensor x, int32_t offset, int32_t ne0, int32_t ne1) {
    Node node{.op = op("view"), .inputs = {x}, .params = {.offset = offset}};
    node.shape = {ne0, ne1, Rows::Step};
    return push(std::move(node));
}

Tensor Graph::heads(Tensor x, int32_t head_dim) {
    if (!x.valid()) return push({.op = op("view"), .inputs = {x}});
    const int32_t width = node(x).shape.width();
    if (head_dim < 1 || width % head_dim) {
        fail("heads: " + std::to_string(width) + " values are no multiple of head_dim " +
             std::to_string(head_dim));
        return {};
    }
    return view(x, 0, head_dim, width / head_dim);
}

Tensor Graph::rope(Tensor x, const RopeSpec& spec) {
    const auto found = std::find(ropes_.begin(), ropes_.end(), spec);
    const auto index = static_cast<int32_t>(found - ropes_.begin());
    if (found == ropes_.end()) ropes_.push_back(spec);
    return push({.op = op("rope"), .inputs = {x}, .params = {.rope = index}});
}

Tensor Graph::attention(Tensor q, Tensor k, Tensor v, const AttentionSpec& spec) {
    return push({.op = op("attention"), .inputs = {q, k, v}, .params = {.attention = spec}});
}

Tensor Graph::select_outputs(Tensor x) {
    return push({.op = op("select_outputs"), .inputs = {x}});
}

void Graph::output(Tensor logits) {
    if (!logits.valid()) return;
    if (node(logits).shape.rows != Rows::Output) return fail("output: needs selected rows");
    result_ = logits;
}

void Graph::end_at(Tensor t) {
    nodes_.resize(static_cast<size_t>(t.node) + 1);
    output(t);
}

Result<void> Graph::finish() const {
    if (!error_.empty()) return Error{Status::BadFile, error_};
    if (!result_.valid()) return Error{Status::Internal, "the graph has no output"};
    return {};
}

std::vector<AttentionSpec> Graph::attention_layers() const {
    std::vector<AttentionSpec> layers;
    for (const Node& n : nodes_) {
        if (n.op && std::strcmp(n.op->name, "attention") == 0) layers.push_back(n.params.attention);
    }
    return layers;
}

namespace {

// Yarn's ramp: 0 below `low`, 1 above `high` (pair index).
double yarn_ramp(double low, double high, int pair) {
    const double y = (pair - low) / std::max(0.001, high - low);
    return 1 - std::min(1.0, std::max(0.0, y));
}

// The pair whose wave length turns `rotations` times within the original context.
double yarn_correction(const RopeSpec& s, double rotations) {
    const double pi = 3.14159265358979323846;
    return s.n_dims * std::log(s.original_context / (rotations * 2 * pi)) /
           (2 * std::log(static_cast<double>(s.base)));
}

}  // namespace

void fill_rope(const RopeSpec& spec, int64_t position, float* cos, float* sin) {
    double low = 0, high = 0;
    const bool yarn = spec.scaling == RopeSpec::Scaling::Yarn && spec.original_context > 0;
    if (yarn) {
        low = std::max(0.0, std::floor(yarn_correction(spec, spec.beta_fast)));
        high = std::min(spec.n_dims - 1.0, std::ceil(yarn_correction(spec, spec.beta_slow)));
    }
    const double log_base = std::log(static_cast<double>(spec.base));
    for (int32_t i = 0; i < spec.n_dims / 2; i++) {
        double freq = std::exp(-2.0 * i / spec.n_dims * log_base);
        if (!spec.freq_factors.empty()) freq /= spec.freq_factors[static_cast<size_t>(i)];
        if (spec.scaling == RopeSpec::Scaling::Linear) freq /= spec.factor;
        if (yarn) {
            const double keep = yarn_ramp(low, high, i);
            freq = freq / spec.factor * (1 - keep) + freq * keep;
        }
        const double angle = static_cast<double>(position) * freq;
        cos[i] = static_cast<float>(std::cos(angle) * spec.mscale);
        sin[i] = static_cast<float>(std::sin(angle) * spec.mscale);
    }
}

}  // namespace nib
