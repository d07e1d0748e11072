// SPDX-License-Identifier: MIT
// Marks are tokens that are found in text as they are spelled, before any model sees it:
// user-defined tokens anywhere, control and unknown tokens only where the caller trusts the text.
// At each place the longest mark wins. Threads: immutable after construction; any thread may use
// it.
#pragma once
#include "src/tokenizer/vocabulary.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace nib {

class MarkSet {
  public:
    explicit MarkSet(const Vocabulary& vocabulary);

    struct Found {
        Token token = kNoToken;
        size_t bytes = 0;
    };
    // The longest mark at byte i. Control marks must end at or before control_end (0: none are
    // seen).
    Found find(std::string_view text, size_t i, size_t control_end) const;

  private:
    struct Mark {
        std::string_view text;
        Token token;
        bool user_defined;
    };

    std::vector<std::string> spellings_;  // of marks that text spells otherwise than the vocabulary
    std::vector<Mark> marks_;             // sorted by text
    std::array<uint32_t, 257> first_{};   // where the marks that begin with a byte are
    std::array<bool, 256> user_defined_first_{};
};

}  // namespace nib
