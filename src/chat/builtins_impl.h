// SPDX-License-Identifier: MIT
// What the files of builtins share. Each gives a table sorted by name; builtins.cpp looks names up
// in them.
#pragma once
#include "src/chat/builtins.h"
#include "src/chat/evaluator.h"

#include <utility>
#include <vector>

namespace nib::jinja {

using NativeTable = std::pair<const Native*, const Native*>;

NativeTable text_filters();
NativeTable list_filters();
NativeTable number_filters();
NativeTable select_filters();
NativeTable tests();
NativeTable globals();
NativeTable text_methods();
NativeTable dict_methods();
NativeTable sequence_methods();
NativeTable loop_methods();
NativeTable cycler_methods();

// Everything that can be walked over, as values.
Result<std::vector<Value>> all_items(Evaluator& ev, const Value& source);
// str.format() with plain fields.
Result<MarkedText> brace_format(Evaluator& ev, const MarkedText& format, const Args& args);
Result<int64_t> length_of(const Value& value);
// The value at an attribute path: "a.b.0", or one index. Missing steps become *otherwise, if given.
Result<Value> get_path(Evaluator& ev,
                       const Value& item,
                       const Value& path,
                       const Value* otherwise = nullptr);

}  // namespace nib::jinja
