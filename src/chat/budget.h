// SPDX-License-Identifier: MIT
// What one rendering may use: steps (each node and each piece of work in proportion to a size),
// wall time, bytes held by living values, bytes of one text. Going over is sticky: every later
// question answers no. Values that may come out much larger than what they are made of ask
// allow_text or allow_values first.
#pragma once
#include "ggml-like/result.h"
#include "src/chat/chat_template.h"

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace nib::jinja {

class Budget {
  public:
    Budget(const RenderLimits& limits, uint64_t input_bytes);
    Budget(const Budget&) = delete;
    Budget& operator=(const Budget&) = delete;

    bool spend(uint64_t steps) {
        steps_ += steps;
        return steps_ < next_look_ || look();
    }
    // Work on this many bytes that are read or written one after the other.
    bool spend_bytes(uint64_t bytes) { return spend(1 + bytes / kBytesPerStep); }
    // May a text have this many bytes? fits() asks only, for texts that grow; allow_text() also
    // pays for them.
    bool fits(uint64_t bytes) {
        return (bytes <= text_max_ && live_ + bytes <= live_max_) || look_at_text(bytes);
    }
    bool allow_text(uint64_t bytes) { return fits(bytes) && spend_bytes(bytes); }
    // May a list have this many items? Pays for them.
    bool allow_values(uint64_t count);
    void charge(size_t bytes) {
        live_ += bytes;
        if (live_ > live_max_) fail("the values of the template need too much memory");
    }
    void give_back(size_t bytes) { live_ -= bytes; }

    uint32_t depth_max() const { return depth_max_; }
    Error error() const { return Error{Status::BadRequest, reason_ ? reason_ : "out of budget"}; }

  private:
    static constexpr uint64_t kBytesPerStep = 32;
    static constexpr uint64_t kStepsPerLook = 4096;

    bool look();
    bool look_at_text(uint64_t bytes);
    bool fail(const char* reason) {
        if (!reason_) reason_ = reason;
        next_look_ = 0;
        return false;
    }

    uint64_t steps_ = 0, next_look_ = 0, steps_max_;
    uint64_t live_ = 0, live_max_, text_max_;
    uint32_t depth_max_;
    std::chrono::steady_clock::time_point deadline_;
    const char* reason_ = nullptr;
};

}  // namespace nib::jinja
