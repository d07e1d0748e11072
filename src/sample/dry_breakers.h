// SPDX-License-Identifier: MIT
// Breaker strings as token sequences, for SamplingParams::dry_breakers.
#pragma once
#include "src/tokenizer/tokenizer.h"

#include <span>
#include <string>
#include <vector>

namespace nib {

// Every token whose text holds a breaker is one by itself. A breaker that no single token holds is
// the sequence of its own tokens. Empty strings are skipped.
std::vector<std::vector<Token>> make_dry_breakers(const Tokenizer& tokenizer,
                                                  std::span<const std::string> breakers);

}  // namespace nib
