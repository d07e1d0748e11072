// SPDX-License-Identifier: MIT
// The counter-based generator behind uniform_random(): Philox 4x32 with 10 rounds (Salmon et al.,
// 2011). A number is a pure function of its key and counter, so nothing has to be stored, saved or
// replayed, and requests that run together cannot disturb each other.
#pragma once
#include <array>
#include <cstdint>

namespace nib {

// Stream numbers: independent numbers for one (seed, sequence, position).
inline constexpr uint32_t kDrawStream = 0;  // which candidate becomes the token
inline constexpr uint32_t kXtcStream = 1;   // whether XTC acts on this token

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

}  // namespace nib
