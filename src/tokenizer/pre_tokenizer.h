// SPDX-License-Identifier: MIT
// How each family of byte-level BPE models cuts text into words before merging: a table from the
// names of tokenizer.ggml.pre to the published patterns. The most used patterns have a hand-written
// twin.
#pragma once
#include "ggml-like/result.h"
#include "src/tokenizer/regex.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nib {

// Hand-written splitters that cut exactly as the patterns of the same row do.
enum class FastSplit : uint8_t { None, Gpt2, DigitsThenGpt2, Words1, Words3 };

struct PreTokenizerDef {
    std::string_view names;                      // separated by blanks
    std::span<const std::string_view> patterns;  // each cuts the pieces of those before it
    FastSplit fast = FastSplit::None;
    bool nfc = false;          // text is brought to Unicode's form NFC first
    bool adds_bos = false;     // if the file does not say
    bool whole_words = false;  // a word that is a token is that token, whatever the merges say
};

// nullptr if the name is not known.
const PreTokenizerDef* find_pre_tokenizer(std::string_view name);
std::string known_pre_tokenizers();  // all names, for messages

class PreTokenizer {
  public:
    static Result<PreTokenizer> create(const PreTokenizerDef& def);
    // The ends of the words of `text` (valid UTF-8), ascending; the last is text.size().
    void split(std::string_view text, std::vector<size_t>& ends) const;
    // The same by the patterns alone.
    void split_by_patterns(std::string_view text, std::vector<size_t>& ends) const;

  private:
    const PreTokenizerDef* def_ = nullptr;
    std::vector<Regex> patterns_;
};

// fast is not None.
void split_fast(FastSplit fast, std::string_view text, std::vector<size_t>& ends);

}  // namespace nib
