// SPDX-License-Identifier: MIT
// attention: stores k and v of each row in the KV cache, then for each q head softmax(scale * q .
// k) v over the positions that the row sees: max(0, p - window + 1) .. p. q heads share KV heads in
// groups.
#include "ggml-like/backend.h"
#include "ggml-like/op.h"
#include "ggml-like/reference.h"

#include <algorithm>
#include <cmath>

namespace nib {
namespace {

Result<Shape> shape(const Graph& g, const Node& n) {
    const AttentionSpec& a = n.params.attention;
    const Shape q = g.node(n.inputs[0]).shape;
    const Shape k = g.node(n.inputs[1]).shape;
    const Shape v = g.node(n.inputs[2]).shape;
    if (a.n_kv_heads < 1 || a.n_heads % a.n_kv_heads || q.width() != a.n_heads * a.head_dim ||
        k.width() != a.n_kv_heads * a.head_dim || v.width() != k.width()) {
        return Error{Status::BadFile, "attention: " + std::to_string(a.n_heads) + " heads, " +
                                          std::to_string(a.n_kv_heads) + " kv heads of " +
                                          std::to_string(a.head_dim) + " do not fit q, k, v of " +
                                          std::to_string(q.width()) + ", " +
                                          std::to_string(k.width()) + ", " +
                                          std::to_string(v.width())};
    }
    return Shape{q.width(), 1, q.rows};
}

void attend(const AttentionSpec& a,
            const float* q,
            const std::vector<const float*>& keys,
            int32_t head,
            float* out) {
    const auto dim = static_cast<size_t>(a.head_dim);
    const size_t k_at = static_cast<size_t>(head / (a.n_heads / a.n_kv_heads)) * dim;
    const size_t v_at = k_at + static_cast<size_t>(a.n_kv_heads) * dim;
    std::vector<double> scores(keys.size());
    double most = -HUGE_VAL;
    for (size_t t = 0; t < keys.size(); t++) {
        double dot = 0;
        for (size_t i = 0; i < dim; i++)
            dot += double(q[i]) * keys[t][k_at + i];
        dot *= a.scale;
        if (a.softcap > 0) dot = a.softcap * std::tanh(dot / a.softcap);
        scores[t] = dot;
        most = std::max(most, dot);
    }
    double sum = 0;
    for (double& s : scores)
        sum += s = std::exp(s - most);
    for (size_t i = 0; i < dim; i++) {
        double value = 0;
        for (size_t t = 0; t < keys.size(); t++)
            value += scores[t] * keys[t][v_at + i];
        out[i] = static_cast<float>(value / sum);
    }
}

void reference(ReferenceContext& c) {
    const AttentionSpec& a = c.node.params.attention;
    const auto token = [&](int32_t r, int64_t p) {
        const int32_t* table = nullptr;
        ReferenceKv& kv = c.kv_of(a.layer, table, c.step.sequences[r]);
        return kv.token(table[p / kBlockTokens], a.layer, static_cast<int32_t>(p % kBlockTokens));
    };
    for (int32_t r = 0; r < c.n_rows; r++) {
        const int64_t p = c.step.positions[r];
        const int32_t* table = nullptr;
        ReferenceKv& kv = c.kv_of(a.layer, table, c.step.sequences[r]);
        kv.write(table[p / kBlockTokens], a.layer, static_cast<int32_t>(p % kBlockTokens),
                 c.inputs[1]->row(r), c.inputs[2]->row(r));
    }
    for (int32_t r = 0; r < c.n_rows; r++) {
        const int64_t p = c.step.positions[r];
        std::vector<const float*> keys;
        for (int64_t t = a.window ? std::max<int64_t>(0, p - a.window + 1) : 0; t <= p; t++) {
            keys.push_back(token(r, t));
        }
        for (int32_t h = 0; h < a.n_heads; h++) {
            const size_t at = static_cast<size_t>(h) * static_cast<size_t>(a.head_dim);
            attend(a, c.inputs[0]->row(r) + at, keys, h, c.out.row(r) + at);
        }
    }
}

}  // namespace

extern const OpDef op_attention = {.name = "attention", .shape = shape, .reference = reference};

}  // namespace nib
