// SPDX-License-Identifier: MIT
#include "src/chat/budget.h"

#include "src/chat/value.h"

#include <algorithm>

namespace nib::jinja {
namespace {

constexpr uint64_t kLiveBytes = 192u << 20;
constexpr uint64_t kMoreOutputPerInputByte = 64;
constexpr uint64_t kOutputMost = 256u << 20;

std::chrono::steady_clock::time_point after(double seconds) {
    using std::chrono::steady_clock;
    const double bounded = std::clamp(seconds, 0.0, 86400.0);
    return steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(
                                     std::chrono::duration<double>(bounded));
}

}  // namespace

Budget::Budget(const RenderLimits& limits, uint64_t input_bytes)
    : steps_max_(limits.steps),
      live_max_(kLiveBytes + 4 * input_bytes),
      text_max_(limits.output_bytes + std::min(kOutputMost, kMoreOutputPerInputByte * input_bytes)),
      depth_max_(limits.depth),
      deadline_(after(limits.seconds)) {}

bool Budget::look() {
    if (reason_) return fail(reason_);
    if (steps_ > steps_max_) return fail("the template needs too many steps");
    if (std::chrono::steady_clock::now() > deadline_) return fail("the template runs too long");
    next_look_ = std::min(steps_ + kStepsPerLook, steps_max_ + 1);
    return true;
}

bool Budget::look_at_text(uint64_t bytes) {
    if (bytes > text_max_) return fail("the template makes too much text");
    return fail("the values of the template need too much memory");
}

bool Budget::allow_values(uint64_t count) {
    if (count > steps_max_) return fail("the template needs too many steps");
    if (live_ + count * sizeof(Value) > live_max_) {
        return fail("the values of the template need too much memory");
    }
    return spend(count);
}

}  // namespace nib::jinja
