// SPDX-License-Identifier: MIT
// What filters and string methods share: Python's string operations on marked texts.
#pragma once
#include "ggml-like/result.h"
#include "src/chat/evaluator.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace nib::jinja {

enum class Side { Left, Right, Both };

// chars: null for white space.
MarkedText strip(const MarkedText& text, Side side, const std::string* chars);
Result<MarkedText> replace(Budget& budget,
                           const MarkedText& text,
                           std::string_view from,
                           const MarkedText& to,
                           int64_t count);
Result<MarkedText> pad(
    Budget& budget, const MarkedText& text, int64_t width, std::string_view fill, Side text_side);
Result<MarkedText> join(Evaluator& ev, const MarkedText& between, const std::vector<Value>& items);
// No text is split into more parts than this; one part more says that there would be.
constexpr size_t kMostParts = 1'000'000;
std::vector<MarkedText> split_lines(const MarkedText& text);
// & < > " ' as HTML entities.
MarkedText escape_html(const MarkedText& text);
// Quoted for a URL; for_query: '/' is quoted and a blank is '+'.
MarkedText url_quote(const MarkedText& text, bool for_query);

}  // namespace nib::jinja
