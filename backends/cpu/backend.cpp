// SPDX-License-Identifier: MIT
// The CPU backend: packs weights in parallel into one huge-page buffer, lowers a plan to
// instructions once, and runs the instructions of every step on the thread pool. After the first
// step of the largest size nothing is allocated.
#include "ggml-like/backend.h"

#include "backends/cpu/cpu_info.h"
#include "backends/cpu/op.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/roofline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

namespace nib::cpu {

const CpuOp* find_cpu_op(const char* name) {
    for (const CpuOp* op : all_cpu_ops()) {
        if (std::strcmp(op->name, name) == 0) return op;
    }
    return nullptr;
}

Instruction Lowering::make(int32_t index, const char* name) const {
    const Node& n = node(index);
    const auto value = [&](int32_t i) {
        const Place& p = plan_.places[static_cast<size_t>(i)];
        const Shape& s = node(i).shape;
        return Value{p.offset, p.stride, s.ne0, s.ne1};
    };
    Instruction i;
    i.name = name;
    i.node = index;
    i.params = n.params;
    i.out = value(index);
    Value* inputs[] = {&i.x, &i.y, &i.z};
    for (size_t t = 0; t < n.inputs.size(); t++)
        *inputs[t] = value(n.inputs[t].node);
    i.has_y = n.inputs.size() > 1;
    if (!n.weights.empty()) {
        i.matrix = &weights_.matrices[static_cast<size_t>(n.weights[0]->id)];
        i.vector = vector(n.weights[0]);
    }
    return i;
}

size_t Lowering::rope_offset(int32_t rope) const {
    size_t floats = 0;
    for (int32_t i = 0; i < rope; i++) {
        floats += static_cast<size_t>(plan_.graph.ropes()[static_cast<size_t>(i)].n_dims) *
                  static_cast<size_t>(plan_.max_rows);
    }
    return floats;
}

void Lowering::find_kv(int32_t layer, Instruction& i) const {
    for (size_t g = 0; g < kv_.size(); g++) {
        i.group = static_cast<int>(g);
        i.page_offset = 0;
        for (const AttentionSpec& a : kv_[g].layers) {
            i.page = page_of(kv_[g], a);
            if (a.layer == layer) return;
            i.page_offset += static_cast<size_t>(a.n_kv_heads) * i.page.bytes;
        }
    }
    NIB_ASSERT(!"every attention layer is in one KV group");
}

namespace {

bool overlap(const Value& a, const Value& b, int rows) {
    const auto size = [&](const Value& v) {
        return static_cast<size_t>(v.stride) * static_cast<size_t>(rows - 1) +
               static_cast<size_t>(v.width());
    };
    return a.offset < b.offset + size(b) && b.offset < a.offset + size(a);
}

// Whether row r of one value shares memory with row r of the other only.
bool same_rows(const Value& a, const Value& b) {
    const size_t first = std::min(a.offset, b.offset);
    const size_t end = std::max(a.offset + static_cast<size_t>(a.width()),
                                b.offset + static_cast<size_t>(b.width()));
    return a.stride == b.stride && end - first <= static_cast<size_t>(a.stride);
}

// Whether two values that are not both only read may be used at the same time: at all, or, where
// the instructions go through the same rows, by different rows.
bool may_meet(const Value& a, const Value& b, int rows, bool by_rows) {
    return !overlap(a, b, rows) || (by_rows && same_rows(a, b));
}

// Whether instruction b may run together with a. Places of values that are not needed any more are
// used again with other strides, so instructions on the same rows must be asked too.
bool together(const Instruction& a, const Instruction& b, int rows) {
    const bool by_rows = !b.units;
    if (by_rows != !a.units) return false;
    if (!by_rows && std::strcmp(a.name, b.name) != 0) return false;
    for (const Value* v : {&b.x, &b.y, &b.z, &b.out}) {
        if (!may_meet(a.out, *v, rows, by_rows)) return false;
    }
    for (const Value* v : {&a.x, &a.y, &a.z}) {
        if (!may_meet(b.out, *v, rows, by_rows)) return false;
    }
    return true;
}

}  // namespace

void Lowering::push(const Instruction& i) {
    const int rows = std::max(plan_.max_rows, plan_.max_outputs);
    bool joins = false;
    for (size_t n = out->size(); n-- > 0;) {
        joins = together((*out)[n], i, rows);
        if (!joins || !(*out)[n].joins) break;
    }
    out->push_back(i);
    out->back().joins = joins;
}

PageShape page_of(const KvGroupSpec& group, const AttentionSpec& layer) {
    return page_shape(layer.head_dim, group.type_k == Type::Q8_0, group.type_v == Type::Q8_0);
}

Result<std::unique_ptr<KvMemory>> CpuKv::create(const KvGroupSpec& group, int32_t n_blocks) {
    NIB_TRY(check_kv_types(group));
    auto kv = std::make_unique<CpuKv>();
    for (const AttentionSpec& a : group.layers) {
        kv->layers_.push_back({page_of(group, a), a.n_kv_heads});
        kv->block_bytes_ += static_cast<size_t>(a.n_kv_heads) * kv->layers_.back().shape.bytes;
    }
    kv->n_blocks_ = n_blocks;
    NIB_ASSIGN(kv->memory_, HugeBuffer::create(kv->block_bytes() * static_cast<size_t>(n_blocks)));
    return std::unique_ptr<KvMemory>(std::move(kv));
}

// A tile of K is whole groups of 16 tokens, one of V whole tokens; scales are few.
void CpuKv::copy_tokens(const uint8_t* source, uint8_t* target, int32_t n_tokens) const {
    const auto tokens = static_cast<size_t>(n_tokens);
    const size_t k_tokens = static_cast<size_t>(round_up(n_tokens, 16));
    for (const Layer& layer : layers_) {
        const PageShape& s = layer.shape;
        const size_t k = (s.k_bytes ? 1 : 2) * static_cast<size_t>(s.head_dim) * k_tokens;
        const size_t v = (s.v_bytes ? 1 : 2) * static_cast<size_t>(s.head_dim) * tokens;
        for (int h = 0; h < layer.heads; h++, source += s.bytes, target += s.bytes) {
            std::memcpy(target, source, k);
            if (s.k_bytes) std::memcpy(target + s.k_scales, source + s.k_scales, s.v - s.k_scales);
            std::memcpy(target + s.v, source + s.v, v);
            if (s.v_bytes)
                std::memcpy(target + s.v_scales, source + s.v_scales, s.bytes - s.v_scales);
        }
    }
}

void CpuKv::copy(int32_t from, int32_t to, int32_t n_tokens) {
    copy_tokens(block(from), block(to), n_tokens);
}

void CpuKv::read(int32_t block, int32_t n_tokens, uint8_t* to) const {
    std::memset(to, 0, block_bytes_);
    copy_tokens(memory_.data() + static_cast<size_t>(block) * block_bytes_, to, n_tokens);
}

void CpuKv::write(int32_t block, int32_t n_tokens, const uint8_t* from) {
    copy_tokens(from, this->block(block), n_tokens);
}

namespace {

void run_rope_table(const Instruction& i, const Pass& p, int first, int end, int) {
    const auto half = static_cast<size_t>(i.rope->n_dims / 2);
    for (int r = first; r < end; r++) {
        float* cos = p.ropes + i.rope_offset + static_cast<size_t>(r) * 2 * half;
        fill_rope(*i.rope, p.step->positions[r], cos, cos + half);
    }
}

// Instructions that run together and their pass: the context of a pool op. Either they go through
// the same rows, or the units are those of all of them, one after another.
struct Bound {
    const Instruction* instructions = nullptr;
    const int* starts = nullptr;  // [count]: the unit at which each begins
    int count = 0;
    int rows = 0;  // of a unit; 0: units are not rows
    const Pass* pass = nullptr;
    int64_t* started = nullptr;  // where a trace wants to know when the first unit was begun

    // The instruction that a unit belongs to.
    int find(int unit) const {
        int i = count - 1;
        while (starts[i] > unit)
            i--;
        return i;
    }
};

int64_t now_ns() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void run_rows(const Bound& b, int first, int end, int thread) {
    for (int u = first; u < end; u++) {
        const int row = u * b.rows, stop = std::min(row + b.rows, b.pass->n);
        for (int i = 0; i < b.count; i++)
            b.instructions[i].run(b.instructions[i], *b.pass, row, stop, thread);
    }
}

void run_bound(void* context, int first, int end, int thread) {
    const Bound& b = *static_cast<const Bound*>(context);
    if (b.started) {
        int64_t none = 0;
        std::atomic_ref(*b.started).compare_exchange_strong(none, now_ns());
    }
    if (b.rows) return run_rows(b, first, end, thread);
    for (int i = b.find(first); i < b.count && b.starts[i] < end; i++) {
        const Instruction& each = b.instructions[i];
        const int stop = i + 1 < b.count ? std::min(b.starts[i + 1], end) : end;
        if (first < stop) each.run(each, *b.pass, first - b.starts[i], stop - b.starts[i], thread);
        first = std::max(first, stop);
    }
}

void ahead_bound(void* context, int first, int part) {
    const Bound& b = *static_cast<const Bound*>(context);
    const int i = b.find(first);
    const Instruction& each = b.instructions[i];
    if (each.ahead) each.ahead(each, first - b.starts[i], part);
}

// Values that one thread computes in less time than the others need to hear of them.
constexpr int64_t kAloneValues = 4096;
// Rows of a unit, where there are enough of them: what one instruction wrote is still in L1 or L2
// for the next.
constexpr int kUnitRows = kTile;

class CpuExecutor : public Executor {
  public:
    static Result<std::unique_ptr<Executor>> create(std::shared_ptr<const Plan> plan,
                                                    Pool& pool,
                                                    const Kernels& kernels,
                                                    const CpuWeights& weights,
                                                    std::span<const KvGroupSpec> kv) {
        auto e = std::unique_ptr<CpuExecutor>(new CpuExecutor(std::move(plan), pool));
        e->kv_.assign(kv.begin(), kv.end());
        e->attention_.resize(kv.size());
        e->pass_.attention = e->attention_.data();
        NIB_TRY(e->prepare(kernels, weights, kv));
        return std::unique_ptr<Executor>(std::move(e));
    }

    size_t workspace_bytes() const override { return memory_.bytes(); }

    Result<void> run(const StepInputs& step) override {
        NIB_ASSERT(step.n_rows >= 1 && step.n_rows <= plan_->max_rows);
        pass_.step = &step;
        pass_.n = step.n_rows;
        fit_pages(step);
        for (size_t g = 0; g < kv_.size(); g++)
            plan_attention(step, kv_[g], step.tables[g], pool_.threads(), attention_[g]);
        run_list(trunk_);
        const Place& logits = plan_->places[static_cast<size_t>(plan_->graph.result().node)];
        const int32_t n_vocab = plan_->graph.node(plan_->graph.result()).shape.width();
        for (int32_t first = 0; first < step.n_outputs; first += plan_->max_outputs) {
            pass_.first_output = first;
            pass_.n = std::min(plan_->max_outputs, step.n_outputs - first);
            run_list(tail_);
            for (int32_t r = 0; r < pass_.n; r++) {
                const float* row = pass_.arena + logits.offset +
                                   static_cast<size_t>(r) * static_cast<size_t>(logits.stride);
                step.on_logits(first + r, {row, static_cast<size_t>(n_vocab)});
            }
        }
        return {};
    }

  private:
    CpuExecutor(std::shared_ptr<const Plan> plan, Pool& pool)
        : plan_(std::move(plan)), pool_(pool) {}

    Result<void> prepare(const Kernels& kernels,
                         const CpuWeights& weights,
                         std::span<const KvGroupSpec> kv) {
        Lowering l(*plan_, weights, kv);
        l.out = &trunk_;
        for (int32_t r = 0; r < static_cast<int32_t>(plan_->graph.ropes().size()); r++) {
            Instruction i;
            i.name = "rope_table";
            i.rope = &l.rope(r);
            i.rope_offset = l.rope_offset(r);
            i.row_work = 16 * i.rope->n_dims;  // sines and cosines in double
            i.run = run_rope_table;
            l.push(i);
        }
        for (int32_t n : plan_->trunk)
            NIB_TRY(lower(l, n));
        l.out = &tail_;
        l.quantized = -1;
        for (int32_t n : plan_->tail)
            NIB_TRY(lower(l, n));
        return allocate(l, kernels);
    }

    static Result<void> lower(Lowering& l, int32_t n) {
        const CpuOp* op = find_cpu_op(l.node(n).op->name);
        if (!op) return Error{Status::Unsupported, std::string("cpu: no op ") + l.node(n).op->name};
        op->lower(l, n);
        return {};
    }

    // One buffer: arena, rope tables, int8 activations, scratch of each thread.
    Result<void> allocate(const Lowering& l, const Kernels& kernels) {
        const auto align = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
        const size_t arena = align(plan_->arena_floats * sizeof(float));
        const size_t ropes = align(l.rope_floats() * sizeof(float));
        const size_t a8 = align(l.a8_bytes);
        const size_t rest = l.needs_rest ? a8 : 0;
        const size_t scratch = align(l.scratch_bytes);
        const auto threads = static_cast<size_t>(pool_.threads());
        NIB_ASSIGN(memory_, HugeBuffer::create(arena + ropes + a8 + rest + scratch * threads + 64));
        uint8_t* at = memory_.data();
        pass_.kernels = &kernels;
        pass_.arena = reinterpret_cast<float*>(at);
        pass_.ropes = reinterpret_cast<float*>(at += arena);
        pass_.a8 = at += ropes;
        pass_.a8_rest = at += a8;
        at += rest;
        scratch_.resize(threads);
        for (ThreadScratch& s : scratch_)
            s.bytes = at, at += scratch;
        pass_.scratch = scratch_.data();
        bound_.resize(std::max(trunk_.size(), tail_.size()));
        starts_.resize(bound_.size());
        ops_.resize(bound_.size());
        return {};
    }

    void fit_pages(const StepInputs& step) {
        int64_t most = 0;
        for (int32_t r = 0; r < step.n_rows; r++)
            most = std::max(most, step.positions[r]);
        const auto pages = static_cast<size_t>(most / kBlockTokens + 1) * kAttentionRows;
        if (scratch_[0].pages.size() >= pages) return;
        for (ThreadScratch& s : scratch_)
            s.pages.resize(pages * 2);
    }

    void run_list(const std::vector<Instruction>& list) {
        OpTrace* trace = pass_.step->trace;
        if (trace) started_.assign(list.size(), 0);
        size_t n_ops = 0;
        int64_t work = 0;  // of a row in the op that is being made
        for (size_t n = 0; n < list.size(); n++) {
            const Instruction& i = list[n];
            if (!i.joins || trace) {  // a trace tells one from the other
                const int rows = i.units ? 0 : pass_.n < 4 * kUnitRows ? 1 : kUnitRows;
                bound_[n_ops] = {&i, &starts_[n], 0, rows, &pass_, trace ? &started_[n] : nullptr};
                ops_[n_ops] = {.run = run_bound, .context = &bound_[n_ops]};
                work = 0;
                n_ops++;
            }
            Bound& bound = bound_[n_ops - 1];
            PoolOp& op = ops_[n_ops - 1];
            bound.count++;
            work += i.row_work;
            op.alone = work > 0 && work * pass_.n <= kAloneValues;
            starts_[n] = op.units;
            if (bound.rows) {
                op.units = (pass_.n + bound.rows - 1) / bound.rows;
            } else {
                op.units += i.units(i, pass_);
            }
            if (i.most) op.most = std::min(op.most, i.most(i, pass_));
            if (i.ahead) op.ahead = ahead_bound;
        }
        pool_.run({ops_.data(), n_ops});
        if (trace) add_trace(list, *trace);
    }

    // An instruction lasts until the next one that has units begins.
    void add_trace(const std::vector<Instruction>& list, OpTrace& trace) {
        int64_t next = now_ns();
        const size_t first = trace.size();
        for (size_t n = list.size(); n-- > 0;) {
            if (!started_[n]) continue;
            trace.push_back({list[n].name, list[n].node, pass_.n, next - started_[n]});
            next = started_[n];
        }
        std::reverse(trace.begin() + static_cast<ptrdiff_t>(first), trace.end());
    }

    std::shared_ptr<const Plan> plan_;
    Pool& pool_;
    std::vector<Instruction> trunk_, tail_;
    HugeBuffer memory_;
    std::vector<ThreadScratch> scratch_;
    std::vector<KvGroupSpec> kv_;
    std::vector<AttentionWork> attention_;  // [KV group] of the step
    Pass pass_;
    std::vector<Bound> bound_;
    std::vector<int> starts_;
    std::vector<PoolOp> ops_;
    std::vector<int64_t> started_;  // of each instruction while a trace is wanted, ns
};

// A stretch of panels (or a vector) of one weight: the unit of loading.
struct LoadJob {
    const Weight* weight;
    const Matrix* matrix;
    uint8_t* to;
    int first, end;
};

struct LoadRun {
    std::vector<LoadJob> jobs;
    const LoadProgress* done;
    std::atomic<bool> stopped{false};

    static void run(void* context, int first, int end, int) {
        auto& self = *static_cast<LoadRun*>(context);
        for (int j = first; j < end && !self.stopped.load(std::memory_order_relaxed); j++) {
            const LoadJob& job = self.jobs[static_cast<size_t>(j)];
            const Weight& w = *job.weight;
            const uint8_t* read = w.data;
            size_t bytes = w.bytes();
            if (w.is_vector) {
                w.def->decode(w.data, reinterpret_cast<float*>(job.to), static_cast<size_t>(w.ne0));
            } else {
                pack_panels(*job.matrix, w.data, job.first, job.end, job.to);
                const size_t row = row_bytes(*w.def, static_cast<uint64_t>(w.ne0));
                const int rows = std::min(job.end * kPanelRows, w.ne1) - job.first * kPanelRows;
                read += static_cast<size_t>(job.first) * kPanelRows * row;
                bytes = static_cast<size_t>(rows) * row;
            }
            if (*self.done && !(*self.done)(read, bytes)) self.stopped.store(true);
        }
    }
};

class CpuBackend : public Backend {
  public:
    CpuBackend(std::unique_ptr<Pool> pool, const Kernels& kernels)
        : pool_(std::move(pool)), kernels_(kernels) {}

    std::string description() const override {
        const int n = pool_->threads();
        return std::string("cpu ") + kernels_.name + ", " + std::to_string(n) +
               (n == 1 ? " thread" : " threads");
    }

    uint64_t memory_available() const override { return read_cpu_info().memory_available; }

    bool supports(const Graph& graph, const Node& node) const override {
        const CpuOp* op = find_cpu_op(node.op->name);
        return op && op->supports(graph, node);
    }

    size_t workspace(const Plan& plan) const override { return plan.arena_floats * sizeof(float); }

    Result<std::unique_ptr<WeightStore>> load(std::span<const Weight> weights,
                                              const LoadProgress& done) override {
        auto store = std::make_unique<CpuWeights>();
        store->matrices.resize(weights.size());
        store->vectors.resize(weights.size());
        std::vector<size_t> offsets;
        size_t total = 0;
        for (size_t i = 0; i < weights.size(); i++) {
            const Weight& w = weights[i];
            offsets.push_back(total);
            if (!w.is_vector) store->matrices[i] = plan_matrix(w.def->type, w.ne0, w.ne1);
            total += w.is_vector ? static_cast<size_t>(round_up(w.ne0, 16)) * sizeof(float)
                                 : matrix_bytes(store->matrices[i]);
            total = (total + 63) / 64 * 64;
        }
        NIB_ASSIGN(store->memory, HugeBuffer::create(total + kMatrixSlack));
        LoadRun run;
        run.done = &done;
        for (size_t i = 0; i < weights.size(); i++) {
            add_jobs(weights[i], store->memory.data() + offsets[i], i, *store, run);
        }
        // In the order of the file: it is read ahead, and pages that are mapped around those that
        // were touched are dropped soon. Jobs of one weight are in order already.
        std::stable_sort(run.jobs.begin(), run.jobs.end(), [](const LoadJob& a, const LoadJob& b) {
            return a.weight->data < b.weight->data;
        });
        const PoolOp op{.run = LoadRun::run,
                        .context = &run,
                        .units = static_cast<int>(run.jobs.size()),
                        .most = 1};
        pool_->run({&op, 1});
        if (run.stopped) return Error{Status::Cancelled, "loading was given up"};
        return std::unique_ptr<WeightStore>(std::move(store));
    }

    Result<std::unique_ptr<KvMemory>> make_kv(const KvGroupSpec& group, int32_t n_blocks) override {
        return CpuKv::create(group, n_blocks);
    }

    Result<std::unique_ptr<Executor>> prepare(std::shared_ptr<const Plan> plan,
                                              const WeightStore& weights,
                                              std::span<const KvGroupSpec> kv) override {
        return CpuExecutor::create(std::move(plan), *pool_, kernels_,
                                   static_cast<const CpuWeights&>(weights), kv);
    }

    Result<Roofline> measure_limits() override {
        return measure_roofline(kernels_, pool_->threads());
    }

  private:
    static void add_jobs(
        const Weight& w, uint8_t* to, size_t index, CpuWeights& store, LoadRun& run) {
        if (w.is_vector) {
            store.vectors[index] = reinterpret_cast<const float*>(to);
            run.jobs.push_back({&w, nullptr, to, 0, 0});
            return;
        }
        Matrix& m = store.matrices[index];
        m.data = to;
        const int step = static_cast<int>(std::max<size_t>(1, (size_t(1) << 20) / m.panel_bytes));
        for (int p = 0; p < m.panels; p += step) {
            run.jobs.push_back({&w, &m, to, p, std::min(m.panels, p + step)});
        }
    }

    std::unique_ptr<Pool> pool_;
    const Kernels& kernels_;
};

std::string usable_names() {
    int count = 0;
    const Kernels* const* levels = usable_kernels(&count);
    std::string names;
    for (int i = 0; i < count; i++)
        names += (i ? ", " : "") + std::string(levels[i]->name);
    return names;
}

Result<std::unique_ptr<Backend>> create(const BackendOptions& options) {
    const Kernels* kernels = find_kernels(options.cpu_level.c_str());
    if (!kernels) {
        return Error{Status::BadRequest,
                     "CPU level '" + options.cpu_level +
                         "' is unknown or this CPU lacks it (usable: " + usable_names() + ")"};
    }
    const int threads = options.threads > 0 ? options.threads : read_cpu_info().default_threads;
    return std::unique_ptr<Backend>(new CpuBackend(Pool::create(threads), *kernels));
}

}  // namespace
}  // namespace nib::cpu

namespace nib {
extern const BackendDef backend_cpu = {.name = "cpu", .create = cpu::create};
}  // namespace nib
