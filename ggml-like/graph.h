// SPDX-License-Identifier: MIT
// The graph of a model: what to compute for the rows of a step, described once. The number of rows
// is not part of it: prefill, decode and batches are the same graph with other rows.
//
// Building never fails half way: the first mistake (a shape that does not fit) is kept and returned
// by finish(). A graph is then planned (plan.h) and run by a backend (backend.h).
#pragma once
#include "ggml-like/result.h"
#include "ggml-like/tensor.h"

#include <cstdint>
#include <string>
#include <vector>

namespace nib {

// Rotary position embedding. Angle of pair i at position p: p * freq_i, with
// freq_i = base^(-2 i / n_dims), changed by `scaling`, times `mscale` on cos and sin.
struct RopeSpec {
    enum class Scaling : uint8_t { None, Linear, Yarn };
    int32_t n_dims = 0;  // rotated values of a head (even)
    bool neox = false;   // pairs (i, i + n_dims / 2); else (2 i, 2 i + 1)
    float base = 10000;
    Scaling scaling = Scaling::None;
    float factor =
        1;  // positions are divided by it (Linear), interpolated (Yarn, arXiv:2309.00071)
    int32_t original_context = 0;  // Yarn
    float beta_fast = 32, beta_slow = 1, mscale = 1;
    std::vector<float> freq_factors;  // [n_dims / 2], divide freq_i; empty: none

    bool operator==(const RopeSpec&) const = default;
};

// One layer of attention over the KV cache.
struct AttentionSpec {
    int32_t layer = 0;
    int32_t n_heads = 0, n_kv_heads = 0, head_dim = 0;
    int32_t window = 0;  // a row at p sees p - window + 1 .. p; 0: everything before it
    float scale = 1;     // of q . k
    float softcap = 0;   // > 0: c * tanh(s / c)
};

// Numbers of an op; each op says which it reads.
struct OpParams {
    bool precise = false;  // matmul: see Precision
    float eps = 0, factor = 0;
    int32_t offset = 0;  // view: first value
    int32_t rope = -1;   // index into Graph::ropes()
    AttentionSpec attention;
};

// How exactly a matmul must see its input where a backend would round it to int8.
enum class Precision : uint8_t {
    Usual,
    High,  // about 16 bits: for small matrices whose errors are not averaged away
};

struct OpDef;

struct Node {
    const OpDef* op = nullptr;
    std::vector<Tensor> inputs;
    std::vector<const Weight*> weights;
    OpParams params;
    Shape shape;
};

const char* op_name(const Node& node);

// All the weights that a node may use belong to the model and outlive the graph.
class Graph {
  public:
    Tensor embed(const Weight* table);  // [ne0]: row of each token id
    Tensor matmul(const Weight* w, Tensor x, Precision p = Precision::Usual);  // [w.ne1]
    Tensor add_bias(Tensor x, const Weight* bias);                             // x + bias, per row
    Tensor rms_norm(Tensor x, const Weight* w, float eps);  // over ne0, for each of ne1
    Tensor add(Tensor a, Tensor b);
    Tensor scale(Tensor x, float factor);
    Tensor softcap(Tensor x, float cap);      // cap * tanh(x / cap)
    Tensor silu_mul(Tensor gate, Tensor up);  // silu(gate) * up
    Tensor gelu_mul(Tensor gate, Tensor up);  // gelu_tanh(gate) * up
    Tensor view(Tensor x,
                int32_t offset,
                int32_t ne0,
                int32_t ne1 = 1);                 // part of each row, no copy
    Tensor heads(Tensor x, int32_t head_dim);     // [head_dim, width / head_dim]
    Tensor rope(Tensor x, const RopeSpec& spec);  // on [head_dim, heads]
    Tensor attention(Tensor q,
                     Tensor k,
                     Tensor v,
                     const AttentionSpec& spec);  // stores k and v, [width of q]
    Tensor select_outputs(Tensor x);              // the rows whose logits are wanted
    void output(Tensor logits);                   // the result, [n_vocab]

    // What comes after `t` is taken away again, and `t` is the result.
    void end_at(Tensor t);

    // The first mistake, or nothing.
    Result<void> finish() const;

    std::vector<Node>& nodes() { return nodes_; }
    const std::vector<Node>& nodes() const { return nodes_; }
    const Node& node(Tensor t) const { return nodes_[static_cast<size_t>(t.node)]; }
    const std::vector<RopeSpec>& ropes() const { return ropes_; }
    Tensor result() const { return result_; }
    // Every attention layer, in order of the layers.
    std::vector<AttentionSpec> attention_layers() const;

  private:
    friend class Fuser;
    Tensor push(Node node);
    void fail(std::string message);
    std::vector<Node> nodes_;
    std::vector<RopeSpec> ropes_;
    Tensor result_;
    std::string error_;
};

// cos and sin of one row: each [n_dims / 2]. The same bits on every level: plain double arithmetic.
void fill_rope(const RopeSpec& spec, int64_t position, float* cos, float* sin);

}  // namespace nib
