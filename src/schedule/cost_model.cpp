// SPDX-License-Identifier: MIT
#include "src/schedule/cost_model.h"

#include <algorithm>

namespace nib {
namespace {

// Moves an average towards a new value; the first one counts whole.
void follow(double& average, double value, double share) {
    average = average <= 0 ? value : average + share * (value - average);
}

}  // namespace

void CostModel::observe(int32_t decode_rows, int32_t prompt_rows, double ms) {
    if (decode_rows + prompt_rows <= 0 || ms <= 0) return;
    if (prompt_rows == 0) {
        const auto n = static_cast<size_t>(decode_rows);
        if (decode_ms_.size() <= n) decode_ms_.resize(n + 1);
        // A step that was interrupted says little about the next one.
        const double known = decode_ms_[n];
        follow(decode_ms_[n], known > 0 ? std::min(ms, 4 * known) : ms, 0.1);
        return;
    }
    const double alone = decode_rows > 0 ? decode_time(decode_rows) : 0;
    if (decode_rows > 0 && alone <= 0) return;
    const double row = std::max(ms - alone, 0.0) / prompt_rows;
    // Steps of prompts alone are cheaper by the row: they are a first guess only.
    if (decode_rows == 0 && prompt_row_ms_ > 0) return;
    // Underestimating makes streams wait, so news of higher cost is believed sooner.
    follow(prompt_row_ms_, std::max(row, 1e-4), row > prompt_row_ms_ ? 0.3 : 0.1);
}

// From the nearest number of rows that was seen. More rows cost more, but never more than in
// proportion.
double CostModel::decode_time(int32_t rows) const {
    const auto n = static_cast<size_t>(rows);
    if (n < decode_ms_.size() && decode_ms_[n] > 0) return decode_ms_[n];
    for (size_t below = std::min(n, decode_ms_.size()); below-- > 1;) {
        if (decode_ms_[below] > 0) return decode_ms_[below];
    }
    for (size_t above = n + 1; above < decode_ms_.size(); above++) {
        if (decode_ms_[above] > 0)
            return decode_ms_[above] * static_cast<double>(n) / static_cast<double>(above);
    }
    return 0;
}

StepCost CostModel::expect(int32_t decode_rows) const {
    return {.decode_ms = decode_rows > 0 ? decode_time(decode_rows) : 0,
            .prompt_row_ms = prompt_row_ms_};
}

}  // namespace nib
