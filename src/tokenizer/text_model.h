// SPDX-License-Identifier: MIT
// The three ways from ordinary text to tokens. A model sees runs of text between marks; it never
// emits a control token (an unknown token is what the vocabulary has for text it cannot say).
// Threads: immutable; any thread may call encode().
#pragma once
#include "src/tokenizer/vocabulary.h"

#include <memory>
#include <string_view>
#include <vector>

namespace nib {

struct PreTokenizerDef;

class TextModel {
  public:
    virtual ~TextModel() = default;
    // Appends the tokens of one run; `text` is not empty.
    virtual void encode(std::string_view text, std::vector<Token>& out) const = 0;
};

// Byte-level BPE: any bytes have tokens. Bytes that are not valid UTF-8 are kept as they are; each
// unbroken row of them is a word of its own. Errors: Internal, a pattern that PCRE2 refuses.
Result<std::unique_ptr<const TextModel>> make_bpe(const Vocabulary& vocabulary,
                                                  const PreTokenizerDef& pre);
// SentencePiece by scores, with byte tokens for what has no token. space_prefix: each run begins
// with a space of its own.
std::unique_ptr<const TextModel> make_spm(const Vocabulary& vocabulary, bool space_prefix);
std::unique_ptr<const TextModel> make_wpm(const Vocabulary& vocabulary);

}  // namespace nib
