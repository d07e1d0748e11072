// SPDX-License-Identifier: MIT
// WordPiece, as BERT and its kin use it: clean the text, lower case without accents (if the file
// does not say otherwise), words at blanks, each punctuation mark and CJK character a word of its
// own; then the longest token that fits, again and again. A word that does not come out even is the
// unknown token.
//
// GGUF files write a word's first piece with U+2581 in front and the others bare; older ones write
// ## before the others. Bytes that are not valid UTF-8 are dropped, as the reference drops U+FFFD.
#include "src/tokenizer/text_model.h"
#include "src/tokenizer/utf8.h"

#include <algorithm>

#include <utf8proc.h>

namespace nib {
namespace {

constexpr size_t kWordCharactersMax = 100;  // longer words are unknown to the reference as well

utf8proc_category_t category_of(uint32_t c) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_blank(uint32_t c) {
    return c == '\t' || c == '\n' || c == '\r' || category_of(c) == UTF8PROC_CATEGORY_ZS ||
           category_of(c) == UTF8PROC_CATEGORY_ZL || category_of(c) == UTF8PROC_CATEGORY_ZP;
}

bool is_dropped(uint32_t c) {
    const utf8proc_category_t category = category_of(c);
    return c == 0 || c == 0xFFFD || category == UTF8PROC_CATEGORY_CC ||
           category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO ||
           category == UTF8PROC_CATEGORY_CS;
}

bool is_cjk(uint32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool stands_alone(uint32_t c) {
    if (c < 0x80)
        return c > 0x20 && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z') && !(c >= '0' && c <= '9');
    const utf8proc_category_t category = category_of(c);
    return (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO) || is_cjk(c);
}

class WpmModel final : public TextModel {
  public:
    explicit WpmModel(const Vocabulary& vocabulary) : v_(vocabulary) {
        for (Token t = 0; t < v_.size() && !phantom_; ++t) {
            phantom_ = v_.text(t).substr(0, kSpaceMark.size()) == kSpaceMark;
        }
    }

    void encode(std::string_view text, std::vector<Token>& out) const override {
        Word word;
        for (size_t i = 0; i < text.size();) {
            const Utf8Char c = utf8_at(text, i);
            i += c.bytes;
            if (!c.valid) continue;
            if (is_blank(c.code)) {
                finish(word, out);
            } else if (!is_dropped(c.code)) {
                add(c.code, word, out);
            }
        }
        finish(word, out);
    }

  private:
    struct Word {
        std::string text;
        size_t characters = 0;
        std::string key;  // what is looked up
    };

    void add(uint32_t code, Word& word, std::vector<Token>& out) const {
        if (!v_.switches.strip_accents) return add_part(code, word, out);
        int32_t parts[8];
        int boundary = 0;
        constexpr auto kDecompose =
            static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE);
        const auto n =
            utf8proc_decompose_char(static_cast<int32_t>(code), parts, 8, kDecompose, &boundary);
        if (n < 1 || n > 8) return add_part(code, word, out);
        for (utf8proc_ssize_t k = 0; k < n; ++k) {
            const auto part = static_cast<uint32_t>(parts[k]);
            if (category_of(part) != UTF8PROC_CATEGORY_MN) add_part(part, word, out);
        }
    }

    void add_part(uint32_t code, Word& word, std::vector<Token>& out) const {
        if (v_.switches.lowercase) {
            code = static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
        }
        const bool alone = stands_alone(code);
        if (alone) finish(word, out);
        if (word.characters < kWordCharactersMax) utf8_append(word.text, code);
        ++word.characters;
        if (alone) finish(word, out);
    }

    // The longest token that the word has at byte `begin`; its bytes in the word go to `bytes`.
    Token longest(Word& word, size_t begin, size_t& bytes) const {
        const std::string_view front =
            begin == 0 ? (phantom_ ? kSpaceMark : "") : (phantom_ ? "" : "##");
        if (v_.text_bytes_max < front.size()) return kNoToken;
        size_t end = begin + std::min(word.text.size() - begin, v_.text_bytes_max - front.size());
        word.key = front;
        word.key.append(word.text, begin, end - begin);
        for (; end > begin; --end) {
            const Token token =
                v_.ordinary.find(std::string_view(word.key).substr(0, front.size() + end - begin));
            if (token != kNoToken) {
                bytes = end - begin;
                return token;
            }
        }
        return kNoToken;
    }

    void finish(Word& word, std::vector<Token>& out) const {
        if (word.characters == 0) return;
        const size_t before = out.size();
        bool known = word.characters <= kWordCharactersMax;
        for (size_t i = 0, bytes = 0; known && i < word.text.size(); i += bytes) {
            const Token token = longest(word, i, bytes);
            known = token != kNoToken;
            if (known) out.push_back(token);
        }
        if (!known) {
            out.resize(before);
            if (v_.ids.unknown != kNoToken) out.push_back(v_.ids.unknown);
        }
        word.text.clear();
        word.characters = 0;
    }

    const Vocabulary& v_;
    bool phantom_ = false;
};

}  // namespace

std::unique_ptr<const TextModel> make_wpm(const Vocabulary& vocabulary) {
    return std::make_unique<WpmModel>(vocabulary);
}

}  // namespace nib
