// SPDX-License-Identifier: MIT
// Counts one level of evaluation while it lives.
#pragma once
#include "src/chat/evaluator.h"

namespace nib::jinja {

struct Evaluator::Nest {
    explicit Nest(Evaluator& evaluator) : ev(evaluator) { ++ev.depth_; }
    ~Nest() { --ev.depth_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;
    bool ok() const { return ev.depth_ <= ev.budget_.depth_max(); }
    Error error() const { return ok() ? ev.budget_.error() : bad("nested or recursing too deep"); }
    Evaluator& ev;
};

}  // namespace nib::jinja
