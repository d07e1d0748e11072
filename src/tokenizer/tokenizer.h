// SPDX-License-Identifier: MIT
// Text to token ids and back, as the model's own tokenizer does it: byte-level BPE, SentencePiece
// (llama, gemma) with byte fallback, WordPiece. Built once from a GGUF file's metadata into flat
// tables.
//
// Text from outside never becomes a control token unless the caller says that marks are to be
// parsed (parse_special), or hands over segments that say which parts are the template's own
// (encode_segments). Threads: immutable after create(); any thread may use it.
#pragma once
#include "ggml-like/files/gguf.h"
#include "ggml-like/result.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nib {

using Token = int32_t;
inline constexpr Token kNoToken = -1;

// GGUF's token_type numbers.
enum class TokenKind : uint8_t {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    UserDefined = 4,
    Unused = 5,
    Byte = 6
};

// A piece of a rendered prompt. `trusted` text came from the template, so marks in it are control
// tokens; other text came from a message and stays text whatever it spells.
struct TextSegment {
    std::string_view text;
    bool trusted = false;
};

struct TokenizerOptions {
    bool allow_unknown_pre = false;  // use the default pattern for an unknown tokenizer.ggml.pre
};

class Tokenizer {
  public:
    // Reads tokenizer.ggml.* of `file`. Errors: BadFile naming the key. n_rows: rows of token_embd,
    // or 0 if there is none (vocabulary-only files): ids at or beyond it are refused.
    static Result<std::shared_ptr<const Tokenizer>> create(const GgufFile& file,
                                                           uint64_t n_rows,
                                                           TokenizerOptions options = {});

    // add_special: BOS / EOS as the model wants them (never a second BOS if the text begins with
    // its mark and parse_special is set). parse_special: control marks in the text become control
    // tokens; user-defined tokens are always matched. Any bytes are accepted, valid UTF-8 or not.
    std::vector<Token> encode(std::string_view text, bool add_special, bool parse_special) const;
    // A prompt made of trusted and untrusted pieces; tokenized as one text, except that marks are
    // found in trusted pieces only.
    std::vector<Token> encode_segments(std::span<const TextSegment> segments,
                                       bool add_special) const;

    // The bytes of one token; control tokens give their mark only if `special`. Ids out of range:
    // empty.
    std::string piece(Token token, bool special = false) const;
    // The text of a sequence. Undoes the leading space of SentencePiece if the tokens start a text.
    std::string decode(std::span<const Token> tokens, bool special = false) const;

    int32_t n_vocab() const;
    TokenKind kind(Token token) const;
    std::string_view raw_text(Token token) const;  // as the file spells it
    Token find(std::string_view raw_text) const;   // kNoToken if absent; duplicates: the lowest id

    Token bos() const;  // kNoToken if the model has none
    Token eos() const;
    Token eot() const;
    Token unknown() const;
    Token padding() const;
    bool adds_bos() const;
    bool adds_eos() const;
    bool is_end(Token token) const;  // EOS, EOT, EOM and their kin: generation stops here
    const char* model_name() const;  // "bpe", "spm", "wpm"

    ~Tokenizer();

  private:
    Tokenizer();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// Turns a stream of tokens into text that never ends inside a character: bytes of an incomplete
// UTF-8 character are held back, invalid ones become U+FFFD (one for each maximal subpart).
class StreamDecoder {
  public:
    // starts_text: undoes SentencePiece's leading space; false if the tokens go on with a text (a
    // reply that continues a prompt).
    explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer,
                           bool special = false,
                           bool starts_text = true);
    std::string push(Token token);  // what may be shown now
    std::string finish();           // what was held back

  private:
    std::shared_ptr<const Tokenizer> tokenizer_;
    std::string held_;
    bool special_;
    bool at_start_;
};

}  // namespace nib
