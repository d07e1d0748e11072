// SPDX-License-Identifier: MIT
#include "src/schedule/cost_model.h"

#include <algorithm>

namespace nib {
namespace {

// Steps with prompts after which one without is wanted, where one was seen and where none was.
constexpr int32_t kMostMixed = 32, kMostUnknown = 2;

// Moves an average towards a new value; the first one counts whole.
void follow(double& average, double value, double share) {
    average = average <= 0 ? value : average + share * (value - average);
}

}  // namespace

CostModel::Decode& CostModel::decode(int32_t rows) {
    const auto n = static_cast<size_t>(rows);
    if (decode_.size() <= n) decode_.resize(n + 1);
    return decode_[n];
}

void CostModel::observe(int32_t decode_rows, int32_t prompt_rows, double ms) {
    if (decode_rows + prompt_rows <= 0 || ms <= 0) return;
    if (prompt_rows == 0) {
        Decode& d = decode(decode_rows);
        // A step that was interrupted says little about the next one; what is old says less.
        const double share = d.mixed > kMostMixed / 2 ? 0.5 : 0.1;
        follow(d.ms, d.ms > 0 ? std::min(ms, 4 * d.ms) : ms, share);
        d.mixed = 0;
        return;
    }
    if (decode_rows > 0) decode(decode_rows).mixed++;
    const double alone = decode_rows > 0 ? decode_time(decode_rows) : 0;
    if (decode_rows > 0 && alone <= 0) return;
    const double row = std::max(ms - alone, 0.0) / prompt_rows;
    // Steps of prompts alone are cheaper by the row: they are a first guess only.
    if (decode_rows == 0 && row_ms_ > 0) return;
    // Underestimating makes streams wait, so news of higher cost is believed sooner.
    follow(row_ms_, std::max(row, 1e-4), row > row_ms_ ? 0.3 : 0.1);
}

// From the nearest number of rows that was seen, and what a row adds.
double CostModel::decode_time(int32_t rows) const {
    const auto n = static_cast<size_t>(rows);
    if (n < decode_.size() && decode_[n].ms > 0) return decode_[n].ms;
    for (size_t below = std::min(n, decode_.size()); below-- > 1;) {
        const double ms = decode_[below].ms, more = static_cast<double>(n - below);
        // Rows of a prompt may be deep in a long context: never more than in proportion.
        if (ms > 0) return ms + more * std::min(row_ms_, ms / static_cast<double>(below));
    }
    for (size_t above = n + 1; above < decode_.size(); above++) {
        if (decode_[above].ms > 0)
            return decode_[above].ms * static_cast<double>(n) / static_cast<double>(above);
    }
    return 0;
}

StepCost CostModel::expect(int32_t decode_rows, int32_t all) const {
    StepCost cost{.crowd_ms = all > decode_rows ? decode_time(all) : 0, .prompt_row_ms = row_ms_};
    if (decode_rows <= 0) return cost;
    cost.decode_ms = decode_time(decode_rows);
    const auto n = static_cast<size_t>(decode_rows);
    const Decode known = n < decode_.size() ? decode_[n] : Decode{};
    cost.measure = known.mixed >= (known.ms > 0 ? kMostMixed : kMostUnknown);
    return cost;
}

}  // namespace nib
