// SPDX-License-Identifier: MIT
// Values as text: str() and repr() as Python writes them, and JSON as json.dumps lays it out. All
// write behind what `out` holds; marks of data inside texts are kept, quotes and brackets are the
// template's own.
#pragma once
#include "ggml-like/result.h"
#include "src/chat/value.h"

#include <string>

namespace nib::jinja {

std::string float_repr(double x);
Result<void> print_str(Budget& budget, const Value& value, MarkedText& out);
Result<void> print_repr(Budget& budget, const Value& value, MarkedText& out);
Result<MarkedText> to_str(Budget& budget, const Value& value);

struct JsonLayout {
    bool ascii = false, sort_keys = false, pretty = false;
    std::string indent, between_items = ", ", after_key = ": ";
};
Result<void> print_json(Budget& budget,
                        const Value& value,
                        const JsonLayout& layout,
                        MarkedText& out);

}  // namespace nib::jinja
