// SPDX-License-Identifier: MIT
// Strict readers of flag values. Errors are "expected ..., got ..." for the caller to put a name
// before.
#pragma once
#include "ggml-like/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace nib {

// Quoted for a message, shortened, control characters shown as '?'.
std::string shown(std::string_view text);

Result<int64_t> read_integer(std::string_view text, int64_t low, int64_t high);
Result<float> read_float(std::string_view text);  // finite
Result<bool> read_switch(std::string_view text);  // 1 on true enabled yes, 0 off false disabled no
// What a seed of -1 stands for: 32 bits are enough to be different and short enough to be typed
// again.
uint64_t fresh_seed();
Result<uint64_t> read_seed(std::string_view text);                   // u64; the caller handles -1
Result<std::pair<int32_t, float>> read_bias(std::string_view text);  // "15043+1.5", "15043-inf"
// \n \t \r \\ \" \' \0 \xHH; anything else stays as it is.
std::string unescape(std::string_view text);

}  // namespace nib
