// SPDX-License-Identifier: MIT
// The planner: fuse while something matches, order what is left, give every value a place. A place
// is free again after the last node that reads it; an op that may work in place takes over its
// dying input.
#include "ggml-like/plan.h"

#include "ggml-like/op.h"

#include <algorithm>
#include <map>

namespace nib {
namespace {

std::vector<int32_t> count_uses(const Graph& graph) {
    std::vector<int32_t> uses(graph.nodes().size());
    for (const Node& n : graph.nodes()) {
        if (!n.op) continue;
        for (Tensor t : n.inputs)
            uses[static_cast<size_t>(t.node)]++;
    }
    uses[static_cast<size_t>(graph.result().node)]++;
    return uses;
}

void fuse(Plan& plan) {
    std::vector<int32_t> uses = count_uses(plan.graph);
    for (int32_t i = 0; i < static_cast<int32_t>(plan.graph.nodes().size()); i++) {
        for (const FusionDef* fusion : all_fusions()) {
            if (!plan.graph.nodes()[static_cast<size_t>(i)].op) break;
            if (!fusion->apply(plan.graph, i, uses)) continue;
            plan.fused.push_back(fusion->name);
            uses = count_uses(plan.graph);
        }
    }
}

// Free and used stretches of the arena, first fit.
class Arena {
  public:
    size_t take(size_t floats) {
        for (auto it = free_.begin(); it != free_.end(); ++it) {
            if (it->second < floats) continue;
            const size_t at = it->first;
            const size_t left = it->second - floats;
            free_.erase(it);
            if (left) free_[at + floats] = left;
            return at;
        }
        // Nothing fits: grow, taking over a free stretch at the end.
        size_t at = end_;
        if (!free_.empty()) {
            const auto last = std::prev(free_.end());
            if (last->first + last->second == end_) {
                at = last->first;
                free_.erase(last);
            }
        }
        end_ = at + floats;
        return at;
    }

    void give(size_t at, size_t floats) {
        auto it = free_.emplace(at, floats).first;
        const auto next = std::next(it);
        if (next != free_.end() && it->first + it->second == next->first) {
            it->second += next->second;
            free_.erase(next);
        }
        if (it == free_.begin()) return;
        const auto before = std::prev(it);
        if (before->first + before->second == it->first) {
            before->second += it->second;
            free_.erase(it);
        }
    }

    size_t size() const { return end_; }

  private:
    std::map<size_t, size_t> free_;
    size_t end_ = 0;
};

class Placer {
  public:
    explicit Placer(Plan& plan) : plan_(plan), nodes_(plan.graph.nodes()) {}

    void run() {
        find_last_uses();
        plan_.places.resize(nodes_.size());
        for (size_t step = 0; step < order_.size(); step++) {
            place(order_[step], step);
            release(step);
        }
        for (size_t i = 0; i < nodes_.size(); i++)
            place_alias(static_cast<int32_t>(i));
        plan_.arena_floats = arena_.size();
    }

  private:
    // The node whose place a value lies in, and where.
    int32_t root(int32_t i) const {
        while (node(i).op->alias)
            i = node(i).inputs[0].node;
        return i;
    }

    void find_last_uses() {
        order_ = plan_.trunk;
        order_.insert(order_.end(), plan_.tail.begin(), plan_.tail.end());
        last_use_.assign(nodes_.size(), 0);
        for (size_t step = 0; step < order_.size(); step++) {
            last_use_[static_cast<size_t>(order_[step])] = step;  // even if nobody reads it
            const bool in_tail = step >= plan_.trunk.size();
            for (Tensor t : node(order_[step]).inputs) {
                const auto r = static_cast<size_t>(root(t.node));
                // The tail runs once for each slice: what it reads of the trunk must stay.
                const bool keep = in_tail && nodes_[r].shape.rows == Rows::Step;
                last_use_[r] = keep ? order_.size() : std::max(last_use_[r], step);
            }
        }
        last_use_[static_cast<size_t>(root(plan_.graph.result().node))] = order_.size();
    }

    size_t floats_of(int32_t i) const {
        const int32_t rows = node(i).shape.rows == Rows::Step ? plan_.max_rows : plan_.max_outputs;
        return static_cast<size_t>(stride_of(i)) * static_cast<size_t>(rows);
    }

    int32_t stride_of(int32_t i) const { return (node(i).shape.width() + 15) / 16 * 16; }

    void place(int32_t i, size_t step) {
        Place& p = plan_.places[static_cast<size_t>(i)];
        p.stride = stride_of(i);
        if (const int32_t from = reusable_input(i, step); from >= 0) {
            p.offset = plan_.places[static_cast<size_t>(from)].offset;
            owner_moved_.push_back(from);
            return;
        }
        p.offset = arena_.take(floats_of(i));
    }

    int32_t reusable_input(int32_t i, size_t step) const {
        const Node& n = node(i);
        if (!n.op->in_place || n.inputs.empty()) return -1;
        const int32_t from = root(n.inputs[0].node);
        const bool same = nodes_[static_cast<size_t>(from)].shape.width() == n.shape.width() &&
                          nodes_[static_cast<size_t>(from)].shape.rows == n.shape.rows;
        return same && last_use_[static_cast<size_t>(from)] == step ? from : -1;
    }

    void release(size_t step) {
        for (size_t s = 0; s <= step; s++) {
            const int32_t i = order_[s];
            if (last_use_[static_cast<size_t>(i)] != step) continue;
            if (std::find(owner_moved_.begin(), owner_moved_.end(), i) != owner_moved_.end())
                continue;
            arena_.give(plan_.places[static_cast<size_t>(i)].offset, floats_of(i));
        }
    }

    void place_alias(int32_t i) {
        if (!node(i).op || !node(i).op->alias) return;
        size_t offset = 0;
        for (int32_t at = i; node(at).op->alias; at = node(at).inputs[0].node) {
            offset += static_cast<size_t>(node(at).params.offset);
        }
        const Place& base = plan_.places[static_cast<size_t>(root(i))];
        plan_.places[static_cast<size_t>(i)] = {base.offset + offset, base.stride};
    }

    const Node& node(int32_t i) const { return nodes_[static_cast<size_t>(i)]; }

    Plan& plan_;
    const std::vector<Node>& nodes_;
    Arena arena_;
    std::vector<int32_t> order_;
    std::vector<size_t> last_use_;
    std::vector<int32_t> owner_moved_;  // their place went on to another value
};

}  // namespace

Result<std::shared_ptr<const Plan>> make_plan(Graph graph, const PlanOptions& options) {
    NIB_TRY(graph.finish());
    auto plan = std::make_shared<Plan>();
    plan->graph = std::move(graph);
    plan->max_rows = options.max_rows;
    plan->max_outputs = options.max_outputs;
    if (options.fuse) fuse(*plan);
    const std::vector<int32_t> uses = count_uses(plan->graph);
    const std::vector<Node>& nodes = plan->graph.nodes();
    for (size_t i = 0; i < nodes.size(); i++) {
        if (!nodes[i].op || nodes[i].op->alias || !uses[i]) continue;
        (nodes[i].shape.rows == Rows::Step ? plan->trunk : plan->tail)
            .push_back(static_cast<int32_t>(i));
    }
    Placer(*plan).run();
    return std::shared_ptr<const Plan>(std::move(plan));
}

}  // namespace nib
