// SPDX-License-Identifier: MIT
// How the CPU backend runs a node: its CpuOp lowers it to instructions, each a number of equal
// units for the thread pool. One file of ops/ for each op; the word is the same as in
// ggml-like/ops.
//
// An instruction never depends on how its units are spread over threads, nor on how many rows a
// pass has: every output is computed by one chain of operations in one place.
#pragma once
#include "backends/cpu/kernels.h"
#include "backends/cpu/memory.h"
#include "ggml-like/backend.h"
#include "ggml-like/op.h"

#include <cstdint>
#include <span>
#include <vector>

namespace nib::cpu {

// Weights in CPU layout: matrices as panels, vectors as floats.
struct CpuWeights : WeightStore {
    std::vector<Matrix> matrices;       // by Weight::id; data null for vectors
    std::vector<const float*> vectors;  // by Weight::id; null for matrices
    HugeBuffer memory;
    size_t bytes() const override { return memory.bytes(); }
};

// KV blocks: for each layer and KV head one page (kernels.h), layers of the group one after
// another.
class CpuKv : public KvMemory {
  public:
    static Result<std::unique_ptr<KvMemory>> create(const KvGroupSpec& group, int32_t n_blocks);
    size_t block_bytes() const override { return block_bytes_; }
    int32_t n_blocks() const override { return n_blocks_; }
    void copy(int32_t from, int32_t to, int32_t n_tokens) override;
    void read(int32_t block, int32_t n_tokens, uint8_t* to) const override;
    void write(int32_t block, int32_t n_tokens, const uint8_t* from) override;
    uint8_t* block(int32_t id) { return memory_.data() + static_cast<size_t>(id) * block_bytes_; }

  private:
    struct Layer {
        PageShape shape;
        int heads;
    };
    void copy_tokens(const uint8_t* source, uint8_t* target, int32_t n_tokens) const;

    HugeBuffer memory_;
    std::vector<Layer> layers_;
    size_t block_bytes_ = 0;
    int32_t n_blocks_ = 0;
};

// The page of one KV head of a layer in a group.
PageShape page_of(const KvGroupSpec& group, const AttentionSpec& layer);

struct ThreadScratch {
    uint8_t* bytes = nullptr;           // scratch_bytes of the executor, 64-byte aligned
    std::vector<const uint8_t*> pages;  // kAttentionRows times those of the step's longest sequence
};

// Attention of a step, the same for all layers of a KV group. A set is up to kAttentionRows rows
// that mostly see the same blocks, those of a sequence in order and next to each other; a piece is
// a set, or one chunk of positions of it where there are too few sets to share out.
struct AttentionWork {
    struct Set {
        int row[kAttentionRows];
        int rows;
        int first_piece = 0, pieces = 0;
    };
    struct Piece {
        int set;
        int64_t chunk;  // -1: all of them
    };
    std::vector<Set> sets;
    std::vector<Piece> pieces;
    bool split = false;
    int64_t seen = 0;          // positions, over all rows
    std::vector<float> parts;  // [piece][KV head] while split
};

// One pass over a list of instructions: the trunk, or one slice of the tail.
struct Pass {
    const StepInputs* step = nullptr;
    const Kernels* kernels = nullptr;
    float* arena = nullptr;
    uint8_t* a8 = nullptr;               // int8 activations of the current input
    uint8_t* a8_rest = nullptr;          // what they leave of it, for matmuls of high precision
    float* ropes = nullptr;              // tables of the step: see Instruction::rope_offset
    ThreadScratch* scratch = nullptr;    // [threads]
    AttentionWork* attention = nullptr;  // [KV group]
    int n = 0;                           // rows of this pass
    int first_output = 0;                // tail: which wanted row is row 0
};

struct Value {
    size_t offset = 0;
    int stride = 0, ne0 = 0, ne1 = 0;
    float* row(const Pass& p, int r) const {
        return p.arena + offset + static_cast<size_t>(r) * static_cast<size_t>(stride);
    }
    int width() const { return ne0 * ne1; }
};

struct Instruction {
    // Null: the units are the rows of the pass, and what row r needs of the instructions right
    // before it is row r too. Such instructions run together, a few rows at a time.
    int (*units)(const Instruction& i, const Pass& p) = nullptr;
    void (*run)(const Instruction& i, const Pass& p, int first, int end, int thread) = nullptr;
    int (*most)(const Instruction& i, const Pass& p) = nullptr;  // units of one claim; null: any
    // Prefetches part 0 .. kAheadParts of what unit `first` reads; null: nothing.
    void (*ahead)(const Instruction& i, int first, int part) = nullptr;
    // Values that a row computes, where a row is about a nanosecond for each four; 0: more than
    // that. A few thousand of them are done faster by one thread than shared out.
    int row_work = 0;
    bool joins = false;  // its units may run together with those of the instruction before it
    const char* name = "";
    int32_t node = -1;   // of the plan, for traces
    Value x, y, z, out;  // inputs and result
    bool has_y = false;
    const Matrix* matrix = nullptr;
    const float* vector = nullptr;
    OpParams params;
    const RopeSpec* rope = nullptr;
    size_t rope_offset = 0;  // floats, for max_rows rows: cos [n_dims / 2] then sin, per row
    int group = 0;           // attention: index of the KV group
    PageShape page;
    size_t page_offset = 0;  // bytes from the start of a block to the layer's first page
};

// What a CpuOp sees while it lowers a node.
class Lowering {
  public:
    Lowering(const Plan& plan, const CpuWeights& weights, std::span<const KvGroupSpec> kv)
        : plan_(plan), weights_(weights), kv_(kv) {}

    // An instruction with params, inputs, result and weight 0 of the node filled in.
    Instruction make(int32_t node, const char* name) const;
    // Appends an instruction. It joins those before it if they go through the same rows or are
    // equal in kind and independent, and no place that one uses is another's.
    void push(const Instruction& i);
    const Node& node(int32_t i) const { return plan_.graph.nodes()[static_cast<size_t>(i)]; }
    const float* vector(const Weight* w) const {
        return weights_.vectors[static_cast<size_t>(w->id)];
    }
    void need_scratch(size_t bytes) {
        scratch_bytes = bytes > scratch_bytes ? bytes : scratch_bytes;
    }
    void need_a8(size_t bytes) { a8_bytes = bytes > a8_bytes ? bytes : a8_bytes; }
    int max_rows(const Shape& s) const {
        return s.rows == Rows::Step ? plan_.max_rows : plan_.max_outputs;
    }
    size_t rope_offset(int32_t rope) const;
    size_t rope_floats() const {
        return rope_offset(static_cast<int32_t>(plan_.graph.ropes().size()));
    }
    const RopeSpec& rope(int32_t i) const { return plan_.graph.ropes()[static_cast<size_t>(i)]; }
    // Fills group, page and page_offset of an instruction of a layer.
    void find_kv(int32_t layer, Instruction& i) const;

    std::vector<Instruction>* out = nullptr;
    size_t scratch_bytes = 0, a8_bytes = 0;
    bool needs_rest = false;
    int32_t quantized = -1;  // the node whose value the int8 buffer holds
    int quantized_k = 0;
    size_t quantized_at = 0;  // the instruction that does it

  private:
    const Plan& plan_;
    const CpuWeights& weights_;
    std::span<const KvGroupSpec> kv_;
};

// Plans the attention of a step for `threads` threads. Storage is kept from step to step.
// tables: those of the group.
void plan_attention(const StepInputs& step,
                    const KvGroupSpec& group,
                    const std::vector<const int32_t*>& tables,
                    int threads,
                    AttentionWork& w);

struct CpuOp {
    const char* name;  // of the op
    bool (*supports)(const Graph& graph, const Node& node);
    void (*lower)(Lowering& l, int32_t node);
};
std::span<const CpuOp* const> all_cpu_ops();
const CpuOp* find_cpu_op(const char* name);

inline bool always(const Graph&, const Node&) {
    return true;
}

}  // namespace nib::cpu
