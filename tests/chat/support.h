// SPDX-License-Identifier: MIT
// Short ways to render a template in a test.
#pragma once
#include "src/chat/chat_template.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace nib::test {

constexpr int64_t kClock = 1767312000;  // 2026-01-02 00:00:00

inline Json json(std::string_view text) {
    Result<Json> parsed = parse_json(text);
    if (!parsed.ok()) {
        ADD_FAILURE() << parsed.error().message;
        return Json::object();
    }
    return std::move(parsed).value();
}

// The text, or "ERROR " and the message.
inline std::string render(std::string_view source,
                          const Json& context = Json::object(),
                          const RenderLimits& limits = {}) {
    const auto parsed = ChatTemplate::parse(source);
    if (!parsed.ok()) return "ERROR " + parsed.error().message;
    const Result<Rendered> rendered = (*parsed)->render(context, kClock, limits);
    return rendered.ok() ? rendered->text : "ERROR " + rendered.error().message;
}

inline bool fails(const std::string& rendered) {
    return rendered.rfind("ERROR ", 0) == 0;
}

// The text with every range of data in brackets.
inline std::string show_data(std::string_view source, const Json& context) {
    const auto parsed = ChatTemplate::parse(source);
    if (!parsed.ok()) return "ERROR " + parsed.error().message;
    const Result<Rendered> rendered = (*parsed)->render(context, kClock);
    if (!rendered.ok()) return "ERROR " + rendered.error().message;
    std::string out;
    size_t at = 0;
    for (const Rendered::Range& range : rendered->data) {
        if (range.begin < at || range.end <= range.begin || range.end > rendered->text.size()) {
            return "ERROR bad range";
        }
        out += rendered->text.substr(at, range.begin - at);
        out += "[" + rendered->text.substr(range.begin, range.end - range.begin) + "]";
        at = range.end;
    }
    return out + rendered->text.substr(at);
}

}  // namespace nib::test
