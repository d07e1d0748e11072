// SPDX-License-Identifier: MIT
// Arithmetic and slices as Python does them, with 64-bit integers: what does not fit is an error.
#pragma once
#include "ggml-like/result.h"
#include "src/chat/ast.h"
#include "src/chat/value.h"

#include <cstdint>
#include <optional>

namespace nib::jinja {

Error operand_error(const char* op, const Value& value);
Result<Value> negate(const Value& value);
Result<Value> arithmetic(Budget& budget, Op op, const Value& a, const Value& b);
Result<Value> slice(Budget& budget,
                    const Value& object,
                    std::optional<int64_t> start,
                    std::optional<int64_t> stop,
                    std::optional<int64_t> step);
// `format % values` and the filter `format`.
Result<Value> percent_format(Budget& budget, const Value& format, const Value& values);

}  // namespace nib::jinja
