// SPDX-License-Identifier: MIT
// What a device must be able to do: hold weights in its own layout, hold KV blocks, and run the
// steps of a plan. Everything above (models, engine) speaks to this interface only.
//
// Threads: one thread at a time calls a Backend, a WeightStore or an Executor.
#pragma once
#include "ggml-like/plan.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nib {

inline constexpr int32_t kBlockTokens = 64;  // tokens of a KV block

// KV blocks of layers that see the same positions. A block holds kBlockTokens tokens of all its
// layers; inside, the device decides. Keys and values are F16, or Q8_0 in blocks of 32 along the
// head; what is left of a head whose size is not a multiple of 32 is a block too. They are rounded
// once, when they are written.
struct KvGroupSpec {
    int32_t window = 0;  // 0: everything
    std::vector<AttentionSpec> layers;
    Type type_k = Type::F16, type_v = Type::F16;
};
// "f16", "q8_0". Errors: BadRequest that names both.
Result<Type> kv_type(std::string_view name);
// The same for the types of a group that was put together without names.
Result<void> check_kv_types(const KvGroupSpec& group);
// Bytes that K and V of one token take in all layers of the group.
size_t kv_token_bytes(const KvGroupSpec& group);

// The device memory of one group: a number of equal blocks.
class KvMemory {
  public:
    virtual ~KvMemory() = default;
    virtual size_t block_bytes() const = 0;
    virtual int32_t n_blocks() const = 0;
    // Copies the first n_tokens of a block; what is after them in `to` is undefined.
    virtual void copy(int32_t from, int32_t to, int32_t n_tokens) = 0;
    // The same out of a block and into one, block_bytes() of the caller's in the device's own form;
    // read() makes zeros of what no token has.
    virtual void read(int32_t block, int32_t n_tokens, uint8_t* to) const = 0;
    virtual void write(int32_t block, int32_t n_tokens, const uint8_t* from) = 0;
};

// One instruction of a step as it was run: an executor that is asked for a trace adds them in
// order.
struct TracedOp {
    const char* name = "";  // "matmul", "quantize"; lives as long as the program
    int32_t node = -1;      // of the plan's graph that it belongs to; -1: none
    int32_t rows = 0;       // that it worked on
    int64_t ns = 0;         // from its start to the start of the next one
};
using OpTrace = std::vector<TracedOp>;

// The rows of one step. Arrays belong to the caller and live through run().
struct StepInputs {
    int32_t n_rows = 0;
    const int32_t* tokens = nullptr;     // [n_rows]
    const int64_t* positions = nullptr;  // [n_rows]; rows of a sequence follow each other in order
    const int32_t* sequences = nullptr;  // [n_rows]: index into tables
    int32_t n_outputs = 0;
    const int32_t* outputs = nullptr;  // [n_outputs]: rows whose logits are wanted, ascending
    // tables[group][sequence][position / kBlockTokens]: block ids; blocks before a window are not
    // read.
    std::vector<std::vector<const int32_t*>> tables;
    std::vector<KvMemory*> kv;  // [group]
    // Called for each wanted row in order; logits [n_vocab] live until it returns.
    std::function<void(int32_t output, std::span<const float> logits)> on_logits;
    OpTrace* trace = nullptr;  // null: nothing is measured; else what was run is added
};

using LoadProgress = std::function<bool(const uint8_t* data, size_t bytes)>;

class WeightStore {
  public:
    virtual ~WeightStore() = default;
    virtual size_t bytes() const = 0;
};

// What a device can do at most, measured now: the limits that a step's time is judged by.
struct Roofline {
    struct Row {
        std::string name;  // "memory read, huge pages, 2 threads"
        std::string unit;  // "GB/s", "GMAC/s", "ns"
        double best = 0, median = 0;
    };
    // The best of all repetitions, with all threads.
    double read_bytes_per_s = 0;  // from memory, once
    double int8_macs_per_s = 0;   // as matmuls of quantized weights multiply
    double float_macs_per_s = 0;  // fused multiply-adds in F32
    double sync_ns = 0;           // an op without work: what every instruction costs at least
    std::vector<Row> rows;        // everything that was measured, for people
};

// A plan bound to weights, ready to run.
class Executor {
  public:
    virtual ~Executor() = default;
    virtual size_t workspace_bytes() const = 0;
    virtual Result<void> run(const StepInputs& step) = 0;
};

class Backend {
  public:
    virtual ~Backend() = default;
    virtual std::string description() const = 0;  // "cpu avx512, 2 threads"
    // Bytes that could still be taken for weights and KV without hurting others.
    virtual uint64_t memory_available() const = 0;
    // Whether it can run the node as it is.
    virtual bool supports(const Graph& graph, const Node& node) const = 0;
    // Bytes that an executor of the plan needs beside weights and KV.
    virtual size_t workspace(const Plan& plan) const = 0;
    // Copies weights into the device's layout. `done(data, bytes)` says which bytes of the file are
    // not needed any more; it may be called from any thread and returns false to give up.
    virtual Result<std::unique_ptr<WeightStore>> load(std::span<const Weight> weights,
                                                      const LoadProgress& done) = 0;
    virtual Result<std::unique_ptr<KvMemory>> make_kv(const KvGroupSpec& group,
                                                      int32_t n_blocks) = 0;
    // kv_groups: as the blocks were made; every attention layer is in exactly one of them.
    virtual Result<std::unique_ptr<Executor>> prepare(std::shared_ptr<const Plan> plan,
                                                      const WeightStore& weights,
                                                      std::span<const KvGroupSpec> kv_groups) = 0;
    // Takes a second or two of all threads. Errors: Unsupported, OutOfMemory.
    virtual Result<Roofline> measure_limits() {
        return Error{Status::Unsupported, description() + ": has no way to measure its limits"};
    }
};

struct BackendOptions {
    int32_t threads = 0;    // cpu; 0: what the process may really use
    std::string cpu_level;  // cpu: "scalar", "avx2", "avx512"; "": the best that it has
};

// What a backend's folder registers.
struct BackendDef {
    const char* name;
    // Errors: BadRequest for options that cannot be met, Device if there is none.
    Result<std::unique_ptr<Backend>> (*create)(const BackendOptions& options);
};
std::span<const BackendDef* const> all_backends();
const BackendDef* find_backend(const std::string& name);  // nullptr if it is not built in

}  // namespace nib
