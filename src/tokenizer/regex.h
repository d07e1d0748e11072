// SPDX-License-Identifier: MIT
// The door to PCRE2: the patterns by which tokenizers cut text into words. A pattern is compiled
// once, with UTF and Unicode classes; \s and \S mean Unicode's White_Space, as in the published
// tokenizers.
//
// Matching has limits on steps and memory. When they are reached, what is left of the text becomes
// one piece: any text gives some split, in bounded time. Threads: immutable after compile(); any
// thread may use it.
#pragma once
#include "ggml-like/result.h"

#include <memory>
#include <string_view>
#include <vector>

namespace nib {

class Regex {
  public:
    // Errors: Internal, with what PCRE2 says and where in the pattern.
    static Result<Regex> compile(std::string_view pattern);

    // Cuts each piece of `text` (valid UTF-8) at the borders of all matches in it. A piece ends
    // where the list says, and the next begins there; the list given is replaced by the finer one.
    // A match sees its piece and nothing around it.
    void split(std::string_view text, std::vector<size_t>& ends) const;

  private:
    struct Matcher;
    struct Code;
    std::shared_ptr<const Code> code_;
};

}  // namespace nib
