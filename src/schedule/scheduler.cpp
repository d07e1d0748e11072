// SPDX-License-Identifier: MIT
#include "src/schedule/scheduler.h"

#include <algorithm>

namespace nib {
namespace {

// A prompt that may get rows in this step.
struct Claim {
    const ScheduleItem* item = nullptr;
    int32_t rows = 0;    // that it wants
    int64_t blocks = 0;  // Waiting: needed for all of them
    int32_t granted = 0;
};

bool goes_first(const ScheduleItem* a, const ScheduleItem* b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    if (a->served != b->served) return a->served < b->served;
    return a->id < b->id;
}

class StepPlanner {
  public:
    StepPlanner(std::span<const ScheduleItem> items,
                const ScheduleLimits& limits,
                const WaitingProbe& probe)
        : limits_(limits), probe_(probe), blocks_(limits.blocks_available) {
        for (const ScheduleItem& item : items) {
            if (item.phase == Phase::Decode) decode_.push_back(&item);
            if (item.phase == Phase::Prompt) prompts_.push_back(&item);
            if (item.phase == Phase::Paused) paused_.push_back(&item);
            if (item.phase == Phase::Waiting) waiting_.push_back(&item);
        }
        for (auto* list : {&prompts_, &waiting_})
            std::sort(list->begin(), list->end(), goes_first);
        // Who came first gets its block first.
        std::sort(decode_.begin(), decode_.end(), [](const auto* a, const auto* b) {
            return a->priority != b->priority ? a->priority > b->priority : a->id < b->id;
        });
    }

    SchedulePlan run() {
        make_room_for_growth();
        make_room_for_priority();
        give_decode_rows();
        const int32_t budget = prompt_budget();
        if (budget <= 0) return std::move(plan_);
        std::vector<Claim> claims;
        for (const ScheduleItem* p : prompts_)
            claims.push_back({.item = p, .rows = p->rows_left});
        admit(budget, claims);
        share(budget, claims);
        for (const Claim& c : claims) {
            if (c.granted > 0) plan_.rows.push_back({c.item->id, c.granted});
        }
        return std::move(plan_);
    }

  private:
    int64_t blocks_for(const ScheduleItem& item, int32_t rows) const {
        const int64_t beyond = int64_t{rows} - item.tail_room;
        return beyond <= 0 ? 0 : (beyond + limits_.block_tokens - 1) / limits_.block_tokens;
    }
    size_t n_running() const { return decode_.size() + prompts_.size() + paused_.size(); }

    // The one that is put back when memory is short: lowest priority, then who came last. The
    // oldest of the highest priority always goes on, and so does who was put back often enough.
    const ScheduleItem* victim() const {
        std::vector<const ScheduleItem*> all;
        for (const auto* list : {&decode_, &prompts_, &paused_})
            all.insert(all.end(), list->begin(), list->end());
        if (all.size() < 2) return nullptr;
        std::sort(all.begin(), all.end(), [](const auto* a, const auto* b) {
            return a->priority != b->priority ? a->priority < b->priority : a->id > b->id;
        });
        all.pop_back();
        for (const ScheduleItem* item : all) {
            if (item->preemptions < kMostPreemptions) return item;
        }
        return nullptr;
    }

    void put_back(const ScheduleItem* item) {
        plan_.preempt.push_back(item->id);
        blocks_ += item->blocks_held;
        for (auto* list : {&decode_, &prompts_, &paused_})
            std::erase(*list, item);
    }

    // Every sequence that generates can have its next row; if none generates, a prompt can go on.
    void make_room_for_growth() {
        for (;;) {
            int64_t needed = 0;
            for (const ScheduleItem* d : decode_)
                needed += blocks_for(*d, 1);
            if (decode_.empty() && !prompts_.empty()) needed = blocks_for(*prompts_.front(), 1);
            const ScheduleItem* back = needed > blocks_ ? victim() : nullptr;
            if (!back) return;
            put_back(back);
        }
    }

    // A request of higher priority does not wait for one of lower priority to end.
    void make_room_for_priority() {
        if (waiting_.empty() || n_running() < static_cast<size_t>(limits_.max_running)) return;
        const ScheduleItem* back = victim();
        if (!back || back->priority >= waiting_.front()->priority) return;
        put_back(back);
    }

    void give_decode_rows() {
        for (const ScheduleItem* d : decode_) {
            const int64_t needed = blocks_for(*d, 1);
            if (needed > blocks_ || rows_ == limits_.max_rows) continue;
            blocks_ -= needed;
            rows_++;
            plan_.rows.push_back({d->id, 1});
        }
    }

    int32_t prompt_budget() const {
        const int32_t room = limits_.max_rows - rows_;
        if (rows_ == 0) return room;
        const StepCost& c = limits_.cost;
        if (c.measure) return 0;
        if (c.prompt_row_ms <= 0 || c.decode_ms <= 0) return std::min(room, kFirstBudget);
        const double allowed = limits_.max_stall_ms > 0
                                   ? limits_.max_stall_ms
                                   : kStallFactor * std::max(c.decode_ms, c.crowd_ms);
        const double fits = (allowed - c.decode_ms) / c.prompt_row_ms;
        // Prompts always go on, however slowly.
        return std::min(room, static_cast<int32_t>(std::clamp(fits, 1.0, 1e6)));
    }

    // Requests that wait, while there are rows, sequences and blocks for them.
    void admit(int32_t budget, std::vector<Claim>& claims) {
        int64_t reserved = kGrowthBlocks * static_cast<int64_t>(n_running());
        for (const ScheduleItem* p : prompts_)
            reserved += blocks_for(*p, p->rows_left + 1);
        for (const ScheduleItem* w : waiting_) {
            if (n_running() + plan_.admit.size() >= static_cast<size_t>(limits_.max_running)) break;
            if (claims.size() >= static_cast<size_t>(budget)) break;  // each has a row at least
            const WaitingNeeds needs = probe_(w->id);
            if (needs.wait) continue;
            const bool alone = n_running() + plan_.admit.size() == 0;
            if (!alone && needs.blocks + kGrowthBlocks + reserved > blocks_) break;
            reserved += needs.blocks + kGrowthBlocks;
            plan_.admit.push_back(w->id);
            claims.push_back({.item = w, .rows = needs.rows, .blocks = needs.blocks});
        }
    }

    // The first takes half of what is left, so that a short prompt behind a long one goes on too;
    // what nobody took goes to the first ones again.
    void share(int32_t budget, std::vector<Claim>& claims) {
        for (const bool halves : {true, false}) {
            for (size_t i = 0; i < claims.size() && budget > 0; i++) {
                Claim& c = claims[i];
                const bool last = i + 1 == claims.size();
                const int32_t most = halves && !last ? (budget + 1) / 2 : budget;
                const int32_t n = std::min(most, c.rows - c.granted);
                budget -= grant(c, n);
            }
        }
    }

    int32_t grant(Claim& c, int32_t n) {
        if (n <= 0) return 0;
        if (c.item->phase == Phase::Prompt) {
            const int64_t had = blocks_for(*c.item, c.granted);
            const int64_t most =
                (had + blocks_) * limits_.block_tokens + c.item->tail_room - c.granted;
            n = static_cast<int32_t>(std::clamp<int64_t>(most, 0, n));
            blocks_ -= blocks_for(*c.item, c.granted + n) - had;
        } else if (c.granted == 0) {
            blocks_ -= c.blocks;  // checked when it was admitted
        }
        c.granted += n;
        return n;
    }

    const ScheduleLimits& limits_;
    const WaitingProbe& probe_;
    std::vector<const ScheduleItem*> decode_, prompts_, paused_, waiting_;
    int64_t blocks_;
    int32_t rows_ = 0;
    SchedulePlan plan_;
};

}  // namespace

SchedulePlan plan_step(std::span<const ScheduleItem> items,
                       const ScheduleLimits& limits,
                       const WaitingProbe& probe) {
    return StepPlanner(items, limits, probe).run();
}

}  // namespace nib
