// SPDX-License-Identifier: MIT
// SentencePiece by scores (llama, gemma). A run of text is one chain of characters; the pair whose
// joined text is the token with the best score merges first. Characters that end without a token
// become byte tokens. Bytes that are not valid UTF-8 are symbols of their own and can only become
// byte tokens.
#include "src/tokenizer/merge.h"
#include "src/tokenizer/text_model.h"
#include "src/tokenizer/utf8.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>

namespace nib {
namespace {

class SpmModel final : public TextModel {
  public:
    SpmModel(const Vocabulary& vocabulary, bool space_prefix)
        : v_(vocabulary), space_prefix_(space_prefix) {
        rank_tokens();
        note_joins();
    }

    void encode(std::string_view text, std::vector<Token>& out) const override {
        std::string spelled;
        spelled.reserve(text.size() + 16);
        if (space_prefix_) spelled += kSpaceMark;
        for (const char c : text) {
            if (c == ' ') {
                spelled += kSpaceMark;
            } else {
                spelled += c;
            }
        }
        Work work(n_ranks_, out);
        std::string_view rest = spelled;
        while (!rest.empty()) {
            const size_t n = first_chain(rest);
            encode_chain(rest.substr(0, n), work);
            rest.remove_prefix(n);
        }
    }

  private:
    // The ranks of short texts that were looked up lately: texts repeat, and finding one here is
    // cheaper than hashing it for the vocabulary's table.
    struct KnownRank {
        uint64_t text = 0;  // its bytes in a word, zeros behind them
        uint32_t bytes = 0;
        uint32_t rank = kNoRank;
    };
    using KnownRanks = std::array<KnownRank, 1024>;

    // What one call needs; kept between chains so that nothing is allocated per chain.
    struct Work {
        Work(uint32_t n_ranks, std::vector<Token>& o) : queue(n_ranks), out(o) {}
        MergeQueue queue;
        KnownRanks known{};
        Chain chain;
        std::vector<uint32_t> begin;  // of symbol i in the chain's text
        std::vector<Token>& out;
    };

    // The word with zeros behind its first n bytes in memory, n in 1..8.
    static uint64_t first_bytes(uint64_t word, size_t n) {
        const size_t unwanted = 64 - 8 * n;
        if constexpr (std::endian::native == std::endian::little)
            return word << unwanted >> unwanted;
        return word >> unwanted << unwanted;
    }

    struct Pairs {
        static constexpr uint64_t kSpread = 0x9E3779B97F4A7C15u;
        const SpmModel& model;
        std::string_view text;
        const std::vector<uint32_t>& begin;
        const Chain& chain;
        KnownRanks& known;

        size_t end_of(uint32_t symbol) const {
            const uint32_t next = chain.next[symbol];
            return next == kNoSymbol ? text.size() : begin[next];
        }
        uint32_t rank(uint32_t left, uint32_t right) const {
            const size_t at = begin[left], bytes = end_of(right) - at;
            if (bytes > model.v_.text_bytes_max) return kNoRank;
            uint64_t word = 0;
            // Near the end of the text a whole word cannot be read.
            if (bytes > sizeof word || text.size() - at < sizeof word) return find(at, bytes);
            std::memcpy(&word, text.data() + at, sizeof word);
            word = first_bytes(word, bytes);
            KnownRank& slot = known[mix_bits(word, kSpread) % known.size()];
            if (slot.text != word || slot.bytes != bytes)
                slot = {word, static_cast<uint32_t>(bytes), find(at, bytes)};
            return slot.rank;
        }
        uint32_t find(size_t at, size_t bytes) const {
            const Token token = model.v_.ordinary.find(text.substr(at, bytes));
            return token == kNoToken ? kNoRank : model.ranks_[static_cast<size_t>(token)];
        }
        void join(uint32_t, uint32_t) {}
    };

    // Equal scores share a rank: the leftmost pair goes first then.
    void rank_tokens() {
        std::vector<float> order(v_.scores);
        std::sort(order.begin(), order.end(), std::greater<>());
        order.erase(std::unique(order.begin(), order.end()), order.end());
        n_ranks_ = static_cast<uint32_t>(order.size());
        ranks_.resize(v_.scores.size());
        for (size_t i = 0; i < ranks_.size(); ++i) {
            const auto place =
                std::lower_bound(order.begin(), order.end(), v_.scores[i], std::greater<>());
            ranks_[i] = static_cast<uint32_t>(place - order.begin());
        }
    }

    // Notes which bytes stand side by side in some token, for join_at().
    void note_joins() {
        joins_.assign(256 * 257, false);
        for (Token t = 0; t < v_.size(); ++t) {
            const std::string_view text = v_.text(t);
            for (size_t i = 1; i < text.size() && !v_.is_reserved(t); ++i)
                joins_[join_at(text, i)] = true;
        }
    }

    // The place in joins_ of the border before byte i. A space mark counts as a 257th byte of its
    // own, as its first byte begins other marks too.
    static size_t join_at(std::string_view text, size_t i) {
        const bool space = text.substr(i, kSpaceMark.size()) == kSpaceMark;
        const size_t next = space ? 256 : static_cast<uint8_t>(text[i]);
        return next * 256 + static_cast<uint8_t>(text[i - 1]);
    }

    // How much of the text can be merged alone: no token reaches across its end, so the result is
    // the same as for the whole text. Short chains stay in the cache and merge several times
    // faster.
    size_t first_chain(std::string_view text) const {
        size_t i = 0;
        for (;;) {
            const Utf8Char c = utf8_at(text, i);
            i += c.valid ? c.bytes : 1;
            if (i >= text.size() || i >= kChainSymbolsMax || !joins_[join_at(text, i)]) return i;
        }
    }

    void encode_chain(std::string_view text, Work& work) const {
        work.begin.clear();
        for (size_t i = 0; i < text.size();) {
            work.begin.push_back(static_cast<uint32_t>(i));
            const Utf8Char c = utf8_at(text, i);
            i += c.valid ? c.bytes : 1;
        }
        work.chain.reset(work.begin.size());
        Pairs pairs{*this, text, work.begin, work.chain, work.known};
        ChainMerger(work.chain, pairs).run(static_cast<uint32_t>(work.begin.size()), work.queue);
        for (uint32_t i = 0; i != kNoSymbol; i = work.chain.next[i]) {
            emit(text.substr(work.begin[i], pairs.end_of(i) - work.begin[i]), work.out);
        }
    }

    void emit(std::string_view symbol, std::vector<Token>& out) const {
        const Token token = v_.ordinary.find(symbol);
        if (token != kNoToken) {
            out.push_back(token);
            return;
        }
        bool unknown = false;
        for (const char c : symbol) {
            const Token byte = v_.byte_tokens[static_cast<uint8_t>(c)];
            if (byte != kNoToken) {
                out.push_back(byte);
            } else if (!unknown && v_.ids.unknown != kNoToken) {
                unknown = true;  // one for the whole character
                out.push_back(v_.ids.unknown);
            }
        }
    }

    const Vocabulary& v_;
    bool space_prefix_;
    std::vector<uint32_t> ranks_;  // by token: 0 is the best score
    uint32_t n_ranks_ = 0;
    std::vector<bool> joins_;
};

}  // namespace

std::unique_ptr<const TextModel> make_spm(const Vocabulary& vocabulary, bool space_prefix) {
    return std::make_unique<SpmModel>(vocabulary, space_prefix);
}

}  // namespace nib
