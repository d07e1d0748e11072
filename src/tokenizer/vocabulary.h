// SPDX-License-Identifier: MIT
// What a GGUF file says about its tokenizer, checked and laid flat: texts in one arena, kinds,
// scores, hash tables, special ids. Whoever holds a Vocabulary may trust it: every array has one
// entry per token, every id is in range or kNoToken, every merge names tokens.
#pragma once
#include "src/tokenizer/tables.h"
#include "src/tokenizer/tokenizer.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nib {

enum class TokenizerModel : uint8_t { Bpe, Spm, Wpm };

// U+2581 stands for a space in the tokens of SentencePiece and for a word's begin in WordPiece
// files.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// A mark longer than this is refused: looking for marks costs time at every place of a text.
inline constexpr size_t kMarkBytesMax = 512;

struct SpecialIds {
    Token bos = kNoToken, eos = kNoToken, eot = kNoToken, eom = kNoToken, unknown = kNoToken,
          padding = kNoToken, separator = kNoToken, cls = kNoToken;
};

// -1: the file does not say.
struct TokenizerSwitches {
    int add_bos = -1, add_eos = -1, add_sep = -1, add_space_prefix = -1;
    bool lowercase = true, strip_accents = true;
};

struct Vocabulary {
    TokenizerModel model = TokenizerModel::Bpe;
    std::string pre;  // tokenizer.ggml.pre, "default" if the file does not say

    std::vector<char> arena;
    std::vector<uint32_t> begin;  // of token i in the arena; one more than there are tokens
    std::vector<TokenKind> kinds;
    std::vector<float> scores;  // SPM only
    size_t text_bytes_max = 0;  // of ordinary tokens

    TextTable ordinary;  // what text can become: all kinds but control, unknown and byte
    TextTable reserved;  // the others
    std::array<Token, 256> byte_tokens{};  // kNoToken if the vocabulary cannot say the byte

    MergeTable merges;  // BPE only
    uint32_t n_merges = 0;

    SpecialIds ids;
    TokenizerSwitches switches;

    Vocabulary() = default;
    Vocabulary(const Vocabulary&) = delete;  // the tables point into the arena
    Vocabulary& operator=(const Vocabulary&) = delete;

    int32_t size() const { return static_cast<int32_t>(kinds.size()); }
    bool has(Token token) const { return token >= 0 && token < size(); }
    std::string_view text(Token token) const {
        const size_t i = static_cast<size_t>(token);
        return {arena.data() + begin[i], begin[i + 1] - begin[i]};
    }
    TokenKind kind(Token token) const { return kinds[static_cast<size_t>(token)]; }
    bool is_reserved(Token token) const {
        return kind(token) == TokenKind::Control || kind(token) == TokenKind::Unknown ||
               kind(token) == TokenKind::Byte;
    }
};

// The byte that a text such as <0x0A> names, or -1.
int named_byte(std::string_view text);

// Errors: BadFile naming the key. n_rows: rows of token_embd, 0 if there is none.
Result<std::unique_ptr<const Vocabulary>> read_vocabulary(const GgufFile& file, uint64_t n_rows);

}  // namespace nib
