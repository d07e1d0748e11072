// SPDX-License-Identifier: MIT
// Byte-level BPE. A run of text goes: valid UTF-8 stretches (normalised if the model wants it) are
// cut into words, rows of other bytes are words as they are; each word starts as its bytes' tokens
// and merges by rank (merge.h).
#include "src/tokenizer/byte_alphabet.h"
#include "src/tokenizer/merge.h"
#include "src/tokenizer/normalize.h"
#include "src/tokenizer/pre_tokenizer.h"
#include "src/tokenizer/text_model.h"
#include "src/tokenizer/utf8.h"

#include <algorithm>

namespace nib {
namespace {

class BpeModel final : public TextModel {
  public:
    BpeModel(const Vocabulary& vocabulary, const PreTokenizerDef& def, PreTokenizer pre)
        : v_(vocabulary), def_(def), pre_(std::move(pre)) {
        replacement_.push_back(v_.byte_tokens[0xEF]);
        replacement_.push_back(v_.byte_tokens[0xBF]);
        replacement_.push_back(v_.byte_tokens[0xBD]);
        const auto missing = std::count(replacement_.begin(), replacement_.end(), kNoToken);
        if (missing > 0) replacement_.clear();
    }

    void encode(std::string_view text, std::vector<Token>& out) const override {
        Work work{out, {}, {}, {}, {}, MergeQueue(v_.n_merges)};
        for (size_t i = 0; i < text.size();) {
            const size_t begin = i;
            while (i < text.size()) {
                const Utf8Char c = utf8_at(text, i);
                if (!c.valid) break;
                i += c.bytes;
            }
            if (i > begin) encode_valid(text.substr(begin, i - begin), work);
            const size_t broken = i;
            while (i < text.size()) {
                const Utf8Char c = utf8_at(text, i);
                if (c.valid) break;
                i += c.bytes;
            }
            if (i > broken) encode_word(text.substr(broken, i - broken), work);
        }
    }

  private:
    // What one call needs; kept between words so that nothing is allocated per word.
    struct Work {
        std::vector<Token>& out;
        std::vector<size_t> ends;
        std::string spelled;
        std::vector<Token> symbols;
        Chain chain;
        MergeQueue queue;
    };

    struct Pairs {
        const MergeTable& merges;
        std::vector<Token>& symbols;
        uint32_t rank(uint32_t left, uint32_t right) const {
            return merges.find(symbols[left], symbols[right]).rank;
        }
        void join(uint32_t left, uint32_t right) {
            symbols[left] = merges.find(symbols[left], symbols[right]).token;
        }
    };

    void encode_valid(std::string_view text, Work& work) const {
        std::string normal;
        if (def_.nfc && !is_plainly_nfc(text)) {
            normal = to_nfc(text);
            text = normal;
        }
        pre_.split(text, work.ends);
        size_t begin = 0;
        for (const size_t end : work.ends) {
            encode_word(text.substr(begin, end - begin), work);
            begin = end;
        }
    }

    void encode_word(std::string_view word, Work& work) const {
        if (def_.whole_words) {
            if (const Token whole = whole_word(word, work); whole != kNoToken) {
                work.out.push_back(whole);
                return;
            }
        }
        while (!word.empty()) {
            const size_t n = std::min(word.size(), kChainSymbolsMax);
            merge(word.substr(0, n), work);
            word.remove_prefix(n);
        }
    }

    Token whole_word(std::string_view word, Work& work) const {
        if (word.size() > v_.text_bytes_max) return kNoToken;
        work.spelled.clear();
        for (const char c : word)
            utf8_append(work.spelled, kByteAlphabet.code[static_cast<uint8_t>(c)]);
        const Token token = v_.ordinary.find(work.spelled);
        // The texts of user-defined tokens are not spelled in bytes.
        return token != kNoToken && v_.kind(token) != TokenKind::UserDefined ? token : kNoToken;
    }

    void merge(std::string_view word, Work& work) const {
        work.symbols.resize(word.size());
        for (size_t i = 0; i < word.size(); ++i) {
            work.symbols[i] = v_.byte_tokens[static_cast<uint8_t>(word[i])];
        }
        work.chain.reset(word.size());
        Pairs pairs{v_.merges, work.symbols};
        ChainMerger(work.chain, pairs).run(static_cast<uint32_t>(word.size()), work.queue);
        for (uint32_t i = 0; i != kNoSymbol; i = work.chain.next[i])
            emit(work.symbols[i], work.out);
    }

    // A byte that the vocabulary cannot say becomes U+FFFD, else the unknown token if it is no
    // mark.
    void emit(Token token, std::vector<Token>& out) const {
        if (token != kNoToken) {
            out.push_back(token);
        } else if (!replacement_.empty()) {
            out.insert(out.end(), replacement_.begin(), replacement_.end());
        } else if (v_.ids.unknown != kNoToken && v_.kind(v_.ids.unknown) != TokenKind::Control) {
            out.push_back(v_.ids.unknown);
        }
    }

    const Vocabulary& v_;
    const PreTokenizerDef& def_;
    PreTokenizer pre_;
    std::vector<Token> replacement_;  // U+FFFD in byte tokens; empty if they are missing too
};

}  // namespace

Result<std::unique_ptr<const TextModel>> make_bpe(const Vocabulary& vocabulary,
                                                  const PreTokenizerDef& pre) {
    NIB_ASSIGN(PreTokenizer splitter, PreTokenizer::create(pre));
    return std::unique_ptr<const TextModel>(
        std::make_unique<BpeModel>(vocabulary, pre, std::move(splitter)));
}

}  // namespace nib
