// SPDX-License-Identifier: MIT
// A phase runs its step with and without a trace in turns. The seconds of a row are added up within
// each step, then the median over the steps is taken, so that one disturbed step does not count.
#include "src/bench/profile.h"

#include "ggml-like/op.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace nib::bench {
namespace {

std::string shape_of(const Node& node) {
    std::string text;
    for (const Weight* w : node.weights) {
        if (w->is_vector) continue;
        text += (text.empty() ? "" : " + ") + std::string(w->def->name) + " " +
                std::to_string(w->ne0) + "x" + std::to_string(w->ne1);
    }
    if (!text.empty()) return text;
    const AttentionSpec& a = node.params.attention;
    if (a.n_heads > 0) {
        text = std::to_string(a.n_heads) + "/" + std::to_string(a.n_kv_heads) + " heads of " +
               std::to_string(a.head_dim);
        return a.window ? text + ", window " + std::to_string(a.window) : text;
    }
    return std::to_string(node.shape.width());
}

// Several instructions may belong to a node; the bytes and multiplications are of the one that has
// the op's name, or of the last.
bool carries_cost(const OpTrace& trace, size_t at, const Node& node) {
    const auto is_main = [&](size_t i) { return std::strcmp(trace[i].name, node.op->name) == 0; };
    if (is_main(at)) return true;
    size_t first = at, end = at + 1;
    while (first > 0 && trace[first - 1].node == trace[at].node)
        first--;
    while (end < trace.size() && trace[end].node == trace[at].node)
        end++;
    for (size_t i = first; i < end; i++) {
        if (is_main(i)) return false;
    }
    return at + 1 == end;
}

struct Sums {
    ProfileRow row;
    std::vector<double> seconds;  // of each step
};

class Profiler {
  public:
    Profiler(Runner& runner, const PhaseRequest& phase, const Roofline& limits)
        : runner_(runner), phase_(phase), limits_(limits) {}

    Result<Profile> run() {
        for (int32_t s = 0; s < phase_.sequences; s++) {
            sequences_.push_back(runner_.kv().open_sequence());
            if (sequences_.back() < 0) return Error{Status::Internal, "no room for a sequence"};
        }
        auto profile = measure();
        for (const int32_t s : sequences_)
            runner_.kv().close_sequence(s);
        return profile;
    }

  private:
    Result<Profile> measure() {
        tokens_.assign(static_cast<size_t>(phase_.rows), 1);
        std::vector<double> plain, traced, outside;
        NIB_ASSIGN(const double warm_up, step());
        static_cast<void>(warm_up);
        for (int32_t i = 0; i < phase_.steps; i++) {
            NIB_ASSIGN(const double seconds, step());
            plain.push_back(seconds);
            trace_.clear();
            runner_.set_trace(&trace_);
            auto result = step();
            runner_.set_trace(nullptr);
            NIB_ASSIGN(const double with_trace, std::move(result));
            traced.push_back(with_trace);
            outside.push_back(with_trace - add_trace());
        }
        Profile p;
        p.phase = phase_;
        p.step_seconds = spread_of(plain).median;
        p.traced_seconds = spread_of(traced).median;
        p.outside_seconds = spread_of(outside).median;
        finish(p);
        return p;
    }

    // Every step starts at the same depth.
    Result<double> step() {
        std::vector<StepPart> parts;
        for (const int32_t s : sequences_) {
            NIB_TRY(set_length(runner_, s, phase_.depth));
            parts.push_back({.sequence = s, .tokens = tokens_});
        }
        const auto start = Clock::now();
        NIB_TRY(runner_.step(parts, [](size_t, int32_t, std::span<const float>) {}));
        return seconds_since(start);
    }

    StepShape shape() const {
        StepShape shape = empty_step(runner_.kv().groups());
        shape.sequences.assign(sequences_.size(), {phase_.depth, phase_.rows});
        shape.outputs = phase_.sequences;
        return shape;
    }

    // Returns the seconds of all instructions.
    double add_trace() {
        const StepShape step_shape = shape();
        std::map<std::string, double> seconds;
        double sum = 0;
        for (auto& [key, s] : sums_)
            s.row.calls = 0, s.row.cost = {}, s.row.limit_seconds = 0;
        for (size_t i = 0; i < trace_.size(); i++) {
            const TracedOp& t = trace_[i];
            ProfileRow row{.op = t.name, .calls = 1, .seconds = double(t.ns) * 1e-9};
            sum += row.seconds;
            if (t.node >= 0) {
                const Node& node = runner_.plan().graph.nodes()[static_cast<size_t>(t.node)];
                const bool main = carries_cost(trace_, i, node);
                row.shape = main ? shape_of(node) : std::to_string(input_width(node));
                if (main) row.cost = cost_of_node(node, t.rows, step_shape);
                row.limit_seconds = limit_seconds(row.cost, limits_);
            }
            const std::string key = row.op + " " + row.shape;
            seconds[key] += row.seconds;
            Sums& s = sums_.try_emplace(key).first->second;
            s.row.op = row.op, s.row.shape = row.shape, s.row.calls++;
            s.row.cost += row.cost;
            s.row.limit_seconds += row.limit_seconds;
        }
        for (const auto& [key, value] : seconds)
            sums_[key].seconds.push_back(value);
        return sum;
    }

    int32_t input_width(const Node& node) const {
        return node.inputs.empty() ? node.shape.width()
                                   : runner_.plan().graph.node(node.inputs[0]).shape.width();
    }

    void finish(Profile& p) {
        for (auto& [key, s] : sums_) {
            s.row.seconds = spread_of(s.seconds).median;
            p.limit_seconds += s.row.limit_seconds;
            p.rows.push_back(std::move(s.row));
        }
        std::stable_sort(
            p.rows.begin(), p.rows.end(),
            [](const ProfileRow& a, const ProfileRow& b) { return a.seconds > b.seconds; });
    }

    Runner& runner_;
    const PhaseRequest& phase_;
    const Roofline& limits_;
    std::vector<int32_t> sequences_, tokens_;
    OpTrace trace_;
    std::map<std::string, Sums> sums_;  // by op and shape
};

}  // namespace

Result<Profile> profile_phase(Runner& runner, const PhaseRequest& phase, const Roofline& limits) {
    return Profiler(runner, phase, limits).run();
}

}  // namespace nib::bench
