// SPDX-License-Identifier: MIT
// Reads tokenizer.ggml.* into a Vocabulary. The file's reader has checked that every string lies in
// the file, so no count here is larger than the file; what the values mean is checked here.
#include "src/tokenizer/vocabulary.h"

#include "ggml-like/files/text.h"
#include "src/tokenizer/byte_alphabet.h"
#include "src/tokenizer/utf8.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace nib {
namespace {

std::string key_of(std::string_view name) {
    return "tokenizer.ggml." + std::string(name);
}

class VocabularyReader {
  public:
    VocabularyReader(const GgufFile& file, Vocabulary& out) : file_(file), v_(out) {}

    Result<void> read(uint64_t n_rows) {
        NIB_TRY(read_model());
        NIB_TRY(read_tokens(n_rows));
        NIB_TRY(read_ids());
        NIB_TRY(read_kinds());
        NIB_TRY(read_scores());
        NIB_TRY(check_texts());
        build_tables();
        if (v_.model == TokenizerModel::Bpe) NIB_TRY(read_merges());
        return read_switches();
    }

  private:
    Result<void> read_model() {
        NIB_ASSIGN(const std::string model, file_.string("tokenizer.ggml.model"));
        if (model == "gpt2") {
            v_.model = TokenizerModel::Bpe;
        } else if (model == "llama") {
            v_.model = TokenizerModel::Spm;
        } else if (model == "bert") {
            v_.model = TokenizerModel::Wpm;
        } else {
            return file_.bad("tokenizer.ggml.model " + quoted(model) +
                             " is not known (known: bert, gpt2, llama)");
        }
        v_.pre = "default";
        if (file_.find("tokenizer.ggml.pre")) {
            NIB_ASSIGN(v_.pre, file_.string("tokenizer.ggml.pre"));
        }
        return {};
    }

    // An array of `element` with one entry per token; nullptr if the key is absent.
    Result<const GgufValue*> array(std::string_view name, GgufType element, uint64_t count) const {
        const std::string key = key_of(name);
        const GgufValue* value = file_.find(key);
        if (!value) return value;
        if (value->type != GgufType::Array || value->element != element) {
            const bool is_array = value->type == GgufType::Array;
            return file_.bad(key + ": expected an array of " + gguf_type_name(element) + ", got " +
                             (is_array ? "an array of " : "") +
                             gguf_type_name(is_array ? value->element : value->type));
        }
        if (count != kAnyCount && value->count != count) {
            return file_.bad(key + ": expected " + std::to_string(count) +
                             " entries, one per token, got " + std::to_string(value->count));
        }
        return value;
    }

    Result<void> read_tokens(uint64_t n_rows) {
        NIB_ASSIGN(const GgufValue* tokens, array("tokens", GgufType::String, kAnyCount));
        if (!tokens) return file_.bad("tokenizer.ggml.tokens is missing");
        const auto& texts = tokens->strings;
        if (texts.empty()) return file_.bad("tokenizer.ggml.tokens has no entries");
        if (texts.size() >= INT32_MAX) {
            return file_.bad("tokenizer.ggml.tokens has " + std::to_string(texts.size()) +
                             " entries: more than ids can number");
        }
        if (n_rows > 0 && texts.size() != n_rows) {
            return file_.bad("tokenizer.ggml.tokens has " + std::to_string(texts.size()) +
                             " entries, expected " + std::to_string(n_rows) +
                             ", one per row of token_embd.weight");
        }
        uint64_t total = 0;
        for (const std::string_view t : texts)
            total += t.size();
        if (total > UINT32_MAX) {
            return file_.bad("tokenizer.ggml.tokens: the texts take " + std::to_string(total) +
                             " bytes, expected less than 4 GiB");
        }
        v_.arena.reserve(total);
        v_.begin.reserve(texts.size() + 1);
        for (const std::string_view t : texts) {
            v_.begin.push_back(static_cast<uint32_t>(v_.arena.size()));
            v_.arena.insert(v_.arena.end(), t.begin(), t.end());
        }
        v_.begin.push_back(static_cast<uint32_t>(v_.arena.size()));
        v_.kinds.assign(texts.size(), TokenKind::Normal);
        return {};
    }

    Result<void> read_id(std::string_view name, Token& out) {
        constexpr int64_t kNone = UINT32_MAX;  // how some writers say that there is none
        const std::string key = key_of(name);
        NIB_ASSIGN(const int64_t id, file_.integer_or(key, kNone, -1, kNone));
        if (id == kNone || id == -1) return {};
        if (id >= v_.size()) {
            return file_.bad(key + " is " + std::to_string(id) + ", expected an id below " +
                             std::to_string(v_.size()));
        }
        out = static_cast<Token>(id);
        return {};
    }

    Result<void> read_ids() {
        SpecialIds& ids = v_.ids;
        NIB_TRY(read_id("bos_token_id", ids.bos));
        NIB_TRY(read_id("eos_token_id", ids.eos));
        NIB_TRY(read_id("eot_token_id", ids.eot));
        NIB_TRY(read_id("eom_token_id", ids.eom));
        NIB_TRY(read_id("unknown_token_id", ids.unknown));
        NIB_TRY(read_id("padding_token_id", ids.padding));
        NIB_TRY(read_id("seperator_token_id", ids.separator));  // the file format spells it so
        NIB_TRY(read_id("cls_token_id", ids.cls));
        Token mask = kNoToken;
        return read_id("mask_token_id", mask);
    }

    Result<void> read_kinds() {
        NIB_ASSIGN(const GgufValue* types, array("token_type", GgufType::I32, v_.kinds.size()));
        if (!types) return guess_kinds();
        for (size_t i = 0; i < v_.kinds.size(); ++i) {
            const int64_t type = types->integer_at(i);
            if (type < 0 || type > 6) {
                return file_.bad("tokenizer.ggml.token_type[" + std::to_string(i) + "] is " +
                                 std::to_string(type) + ", expected 1 to 6");
            }
            if (type != 0) v_.kinds[i] = static_cast<TokenKind>(type);  // 0 is an old "not said"
        }
        return {};
    }

    // Files without token types: the special ids are control tokens, <0xNN> of SentencePiece are
    // bytes.
    Result<void> guess_kinds() {
        const SpecialIds& ids = v_.ids;
        for (const Token t :
             {ids.bos, ids.eos, ids.eot, ids.eom, ids.padding, ids.separator, ids.cls}) {
            if (t != kNoToken) v_.kinds[static_cast<size_t>(t)] = TokenKind::Control;
        }
        const Token unknown = ids.unknown;
        if (unknown != kNoToken) v_.kinds[static_cast<size_t>(unknown)] = TokenKind::Unknown;
        for (Token t = 0; v_.model == TokenizerModel::Spm && t < v_.size(); ++t) {
            if (named_byte(v_.text(t)) >= 0) v_.kinds[static_cast<size_t>(t)] = TokenKind::Byte;
        }
        return {};
    }

    Result<void> read_scores() {
        NIB_ASSIGN(const GgufValue* scores, array("scores", GgufType::F32, v_.kinds.size()));
        if (v_.model != TokenizerModel::Spm) return {};
        if (!scores) return file_.bad("tokenizer.ggml.scores is missing");
        v_.scores.resize(v_.kinds.size());
        std::memcpy(v_.scores.data(), scores->data, v_.scores.size() * sizeof(float));
        for (size_t i = 0; i < v_.scores.size(); ++i) {
            if (std::isnan(v_.scores[i])) {
                return file_.bad("tokenizer.ggml.scores[" + std::to_string(i) +
                                 "] is not a number");
            }
        }
        return {};
    }

    Result<void> check_texts() {
        for (Token t = 0; t < v_.size(); ++t) {
            const std::string_view text = v_.text(t);
            const TokenKind kind = v_.kind(t);
            const bool mark = kind == TokenKind::Control || kind == TokenKind::UserDefined ||
                              kind == TokenKind::Unknown;
            if (mark && text.size() > kMarkBytesMax) {
                return file_.bad("tokenizer.ggml.tokens[" + std::to_string(t) + "]: a mark of " +
                                 std::to_string(text.size()) + " bytes, expected at most " +
                                 std::to_string(kMarkBytesMax));
            }
            if (v_.model != TokenizerModel::Bpe && !utf8_valid(text)) {
                return file_.bad("tokenizer.ggml.tokens[" + std::to_string(t) + "] is not UTF-8");
            }
            if (kind == TokenKind::Byte && v_.model == TokenizerModel::Spm &&
                named_byte(text) < 0) {
                return file_.bad("tokenizer.ggml.tokens[" + std::to_string(t) +
                                 "]: a byte token, expected a text such as <0x0A>");
            }
        }
        return {};
    }

    void build_tables() {
        size_t n_reserved = 0;
        for (Token t = 0; t < v_.size(); ++t)
            n_reserved += v_.is_reserved(t);
        v_.ordinary.reserve(v_.kinds.size() - n_reserved, v_.arena.data(), v_.begin.data());
        v_.reserved.reserve(n_reserved, v_.arena.data(), v_.begin.data());
        v_.byte_tokens.fill(kNoToken);
        for (Token t = 0; t < v_.size(); ++t) {
            const std::string_view text = v_.text(t);
            const bool reserved = v_.is_reserved(t);
            if (!text.empty()) (reserved ? v_.reserved : v_.ordinary).insert(text, t);
            if (!reserved) v_.text_bytes_max = std::max(v_.text_bytes_max, text.size());
            int byte = -1;
            if (v_.model == TokenizerModel::Spm && v_.kind(t) == TokenKind::Byte) {
                byte = named_byte(text);
            } else if (v_.model == TokenizerModel::Bpe && v_.kind(t) == TokenKind::Normal) {
                byte = byte_spelled(text);
            }
            if (byte >= 0 && v_.byte_tokens[static_cast<size_t>(byte)] == kNoToken) {
                v_.byte_tokens[static_cast<size_t>(byte)] = t;
            }
        }
    }

    // The byte that one character of the byte alphabet stands for, or -1.
    static int byte_spelled(std::string_view text) {
        if (text.empty() || text.size() > 2) return -1;
        const Utf8Char c = utf8_at(text, 0);
        if (!c.valid || c.bytes != text.size() || c.code >= ByteAlphabet::kCodes) return -1;
        return kByteAlphabet.byte[c.code];
    }

    // Any token with this text, ordinary ones first.
    Token find(std::string_view text) const {
        const Token token = v_.ordinary.find(text);
        return token != kNoToken ? token : v_.reserved.find(text);
    }

    Result<void> read_merges() {
        NIB_ASSIGN(const GgufValue* merges, array("merges", GgufType::String, kAnyCount));
        if (!merges) return file_.bad("tokenizer.ggml.merges is missing");
        const auto& lines = merges->strings;
        if (lines.size() >= UINT32_MAX) {
            return file_.bad("tokenizer.ggml.merges has too many entries");
        }
        v_.merges.reserve(lines.size());
        v_.n_merges = static_cast<uint32_t>(lines.size());
        std::string joined;
        for (uint32_t rank = 0; rank < v_.n_merges; ++rank) {
            const std::string_view line = lines[rank];
            const size_t space = line.find(' ', 1);
            if (space == std::string_view::npos || space + 1 == line.size()) {
                return file_.bad("tokenizer.ggml.merges[" + std::to_string(rank) +
                                 "]: expected two tokens with a space between");
            }
            joined.assign(line, 0, space);
            joined.append(line, space + 1);
            const Token left = find(line.substr(0, space));
            const Token right = find(line.substr(space + 1));
            const Token whole = find(joined);
            if (left == kNoToken || right == kNoToken || whole == kNoToken) {
                return file_.bad("tokenizer.ggml.merges[" + std::to_string(rank) +
                                 "] names a token that the vocabulary does not have");
            }
            // Ordinary text must never grow into a control token.
            if (v_.is_reserved(left) || v_.is_reserved(right) || v_.is_reserved(whole)) continue;
            v_.merges.insert(left, right, {rank, whole});
        }
        return {};
    }

    Result<void> read_switch(std::string_view name, int& out) {
        const std::string key = key_of(name);
        if (!file_.find(key)) return {};
        NIB_ASSIGN(const bool value, file_.boolean_or(key, false));
        out = value;
        return {};
    }

    Result<void> read_switches() {
        TokenizerSwitches& s = v_.switches;
        NIB_TRY(read_switch("add_bos_token", s.add_bos));
        NIB_TRY(read_switch("add_eos_token", s.add_eos));
        NIB_TRY(read_switch("add_sep_token", s.add_sep));
        NIB_TRY(read_switch("add_space_prefix", s.add_space_prefix));
        NIB_ASSIGN(s.lowercase, file_.boolean_or("tokenizer.ggml.normalizer.lowercase", true));
        NIB_ASSIGN(s.strip_accents,
                   file_.boolean_or("tokenizer.ggml.normalizer.strip_accents", s.lowercase));
        return {};
    }

    static constexpr uint64_t kAnyCount = UINT64_MAX;
    const GgufFile& file_;
    Vocabulary& v_;
};

}  // namespace

int named_byte(std::string_view text) {
    if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
    int value = 0;
    for (const char c : text.substr(3, 2)) {
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                 : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

Result<std::unique_ptr<const Vocabulary>> read_vocabulary(const GgufFile& file, uint64_t n_rows) {
    auto vocabulary = std::make_unique<Vocabulary>();
    NIB_TRY(VocabularyReader(file, *vocabulary).read(n_rows));
    return std::unique_ptr<const Vocabulary>(std::move(vocabulary));
}

}  // namespace nib
