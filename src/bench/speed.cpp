// SPDX-License-Identifier: MIT
#include "src/bench/speed.h"

#include <algorithm>
#include <map>

namespace nib::bench {
namespace {

constexpr int32_t kVerifySteps = 8;  // of each kind in a repetition

enum class Kind { Prompt, Generate, Batch, Verify };

struct Case {
    Kind kind;
    int32_t n = 0;                                     // tokens; verify: rows
    int32_t batch = 1;                                 // sequences
    int32_t depth = 0;                                 // tokens in the cache before
    std::vector<double> speeds, milliseconds, ratios;  // of each repetition

    std::string name() const {
        const std::string before = depth > 0 ? "@d" + std::to_string(depth) : "";
        switch (kind) {
        case Kind::Prompt:
            return "pp" + std::to_string(n) + before;
        case Kind::Generate:
            return "tg" + std::to_string(n) + before;
        case Kind::Batch:
            return "tg" + std::to_string(n) + "@b" + std::to_string(batch);
        case Kind::Verify:
            break;
        }
        return "verify" + std::to_string(n);
    }
    double tokens() const { return double(n) * (kind == Kind::Verify ? kVerifySteps : batch); }
};

std::vector<Case> cases_of(const SpeedRequest& r) {
    std::vector<Case> cases;
    for (const int32_t d : r.depths) {
        for (const int32_t n : r.prompts)
            cases.push_back({.kind = Kind::Prompt, .n = n, .depth = d});
    }
    for (const int32_t d : r.depths) {
        for (const int32_t n : r.generates)
            cases.push_back({.kind = Kind::Generate, .n = n, .depth = d});
    }
    for (const int32_t b : r.batches) {
        cases.push_back(
            {.kind = Kind::Batch, .n = kBatchTokens, .batch = b, .depth = r.batch_prompt});
    }
    for (const int32_t n : r.verifies)
        cases.push_back({.kind = Kind::Verify, .n = n, .depth = r.batch_prompt});
    return cases;
}

int32_t largest(const std::vector<int32_t>& list, int32_t least) {
    for (const int32_t n : list)
        least = std::max(least, n);
    return least;
}

class SpeedRun {
  public:
    SpeedRun(Runner& runner, const SpeedRequest& request)
        : runner_(runner), request_(request), cases_(cases_of(request)) {}

    Result<std::vector<SpeedRow>> run() {
        for (int32_t round = 0; round <= request_.repetitions; round++) {
            for (Case& c : cases_) {
                NIB_TRY(run(c));
                if (round == 0) c.speeds.clear(), c.milliseconds.clear(), c.ratios.clear();
            }
        }
        std::vector<SpeedRow> rows;
        for (const Case& c : cases_)
            rows.push_back(row_of(c));
        return rows;
    }

  private:
    static void ignore(size_t, int32_t, std::span<const float>) {}

    Result<void> run(Case& c) {
        switch (c.kind) {
        case Kind::Prompt:
            return prompt(c);
        case Kind::Generate: {
            NIB_ASSIGN(const int32_t sequence, alone(c.depth));
            return generate(c, {sequence});
        }
        case Kind::Batch: {
            NIB_TRY(fill_batch(c));
            return generate(c, std::vector(batch_.begin(), batch_.begin() + c.batch));
        }
        case Kind::Verify:
            break;
        }
        return verify(c);
    }

    // A sequence that holds `depth` tokens.
    Result<int32_t> alone(int32_t depth) {
        const auto [found, is_new] = alone_.try_emplace(depth, -1);
        if (is_new) found->second = runner_.kv().open_sequence();
        if (found->second < 0) return Error{Status::Internal, "no room for a sequence"};
        NIB_TRY(set_length(runner_, found->second, depth));
        return found->second;
    }

    // The sequences of a batch hold the short prompt.
    Result<void> fill_batch(const Case& c) {
        while (batch_.size() < static_cast<size_t>(c.batch)) {
            batch_.push_back(runner_.kv().open_sequence());
            if (batch_.back() < 0) return Error{Status::Internal, "no room for a sequence"};
        }
        for (int32_t i = 0; i < c.batch; i++)
            NIB_TRY(set_length(runner_, batch_[static_cast<size_t>(i)], c.depth));
        return {};
    }

    Result<void> prompt(Case& c) {
        NIB_ASSIGN(const int32_t sequence, alone(c.depth));
        const auto start = Clock::now();
        NIB_TRY(feed(runner_, sequence, c.n));
        const double seconds = seconds_since(start);
        c.speeds.push_back(c.n / seconds);
        c.milliseconds.push_back(seconds * 1e3);
        return {};
    }

    Result<void> generate(Case& c, const std::vector<int32_t>& sequences) {
        std::vector<StepPart> parts;
        for (const int32_t s : sequences)
            parts.push_back({.sequence = s, .tokens = {&token_, 1}});
        const auto start = Clock::now();
        for (int32_t i = 0; i < c.n; i++)
            NIB_TRY(runner_.step(parts, ignore));
        c.speeds.push_back(c.tokens() / seconds_since(start));
        return {};
    }

    Result<double> step_seconds(int32_t sequence, int32_t rows, int32_t depth) {
        NIB_TRY(set_length(runner_, sequence, depth));
        const std::vector<int32_t> tokens(static_cast<size_t>(rows), token_);
        const StepPart part{.sequence = sequence, .tokens = tokens, .all_logits = true};
        const auto start = Clock::now();
        NIB_TRY(runner_.step({&part, 1}, ignore));
        return seconds_since(start);
    }

    Result<void> verify(Case& c) {
        NIB_TRY(fill_batch(c));
        double one = 0, several = 0;
        for (int32_t i = 0; i < kVerifySteps; i++) {
            NIB_ASSIGN(const double with_one, step_seconds(batch_[0], 1, c.depth));
            NIB_ASSIGN(const double with_all, step_seconds(batch_[0], c.n, c.depth));
            one += with_one;
            several += with_all;
        }
        c.speeds.push_back(c.tokens() / several);
        c.ratios.push_back(several / one);
        return {};
    }

    SpeedRow row_of(const Case& c) const {
        SpeedRow row{.test = c.name(), .tokens_per_s = spread_of(c.speeds), .tokens = c.tokens()};
        if (!c.milliseconds.empty()) row.first_token_ms = spread_of(c.milliseconds);
        if (!c.ratios.empty()) row.step_ratio = spread_of(c.ratios);
        row.costs = costs_of(c);
        return row;
    }

    // Of one repetition. Steps of a generation are alike but for their depth, so all are taken to
    // be the one in the middle.
    std::vector<Cost> costs_of(const Case& c) const {
        std::vector<Cost> costs;
        const auto add = [&](const StepShape& shape, double times) {
            for (Cost cost : costs_of_step(runner_.plan(), shape)) {
                costs.push_back(
                    {cost.bytes * times, cost.int8_macs * times, cost.float_macs * times});
            }
        };
        StepShape shape = empty_step(runner_.kv().groups());
        shape.outputs = c.batch;
        if (c.kind == Kind::Prompt) {
            for (int32_t at = 0; at < c.n; at += runner_.max_rows()) {
                const int32_t rows = std::min(runner_.max_rows(), c.n - at);
                shape.sequences = {{c.depth + at, rows}};
                shape.outputs = at + rows == c.n ? 1 : 0;
                add(shape, 1);
            }
        } else if (c.kind == Kind::Verify) {
            shape.sequences = {{c.depth, c.n}};
            shape.outputs = c.n;
            add(shape, kVerifySteps);
        } else {
            shape.sequences.assign(static_cast<size_t>(c.batch), {c.depth + c.n / 2, 1});
            add(shape, c.n);
        }
        return costs;
    }

    Runner& runner_;
    const SpeedRequest& request_;
    std::vector<Case> cases_;
    std::map<int32_t, int32_t> alone_;  // depth -> the sequence that holds it
    std::vector<int32_t> batch_;        // sequences of the batch tests
    const int32_t token_ = 1;
};

}  // namespace

int32_t SpeedRequest::context() const {
    int32_t most = 1;
    if (!prompts.empty() || !generates.empty())
        most = largest(depths, 0) + std::max(largest(prompts, 1), largest(generates, 1));
    if (!batches.empty()) most = std::max(most, batch_prompt + kBatchTokens);
    if (!verifies.empty()) most = std::max(most, batch_prompt + largest(verifies, 1));
    return most;
}

int32_t SpeedRequest::rows() const {
    return std::max(largest(batches, 1), largest(verifies, 1));
}

int32_t SpeedRequest::sequences() const {
    return static_cast<int32_t>(depths.size()) + largest(batches, verifies.empty() ? 0 : 1);
}

double SpeedRow::limit_share(const Roofline& limits) const {
    return tokens_per_s.median * limit_seconds(costs, limits) / std::max(tokens, 1.0);
}

Result<std::vector<SpeedRow>> measure_speed(Runner& runner, const SpeedRequest& request) {
    return SpeedRun(runner, request).run();
}

}  // namespace nib::bench
