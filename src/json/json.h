// SPDX-License-Identifier: MIT
// The one door to nlohmann-json. Json keeps the order of keys (templates need it). Text from
// outside comes in through parse_json only: it checks depth, size, duplicate keys, UTF-8 and
// numbers before a tree is built, so the recursive parts of the library never meet deep input.
#pragma once
#include "ggml-like/result.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace nib {

using Json = nlohmann::ordered_json;

struct JsonLimits {
    uint32_t depth = 128;
    uint64_t values = 1'000'000;
    uint64_t string_bytes = 16u << 20;
};

// Errors: BadRequest with the byte offset and the reason.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

// Compact text; invalid UTF-8 in strings is replaced by U+FFFD. indent >= 0: pretty.
std::string dump_json(const Json& value, int indent = -1);

}  // namespace nib
