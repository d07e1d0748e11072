// SPDX-License-Identifier: MIT
// BPE, SentencePiece and WordPiece on small vocabularies: by hand, and against slow and obvious
// versions of the same algorithms on random text.
#include "tests/tokenizer/synthetic.h"

#include <map>

namespace nib::test {
namespace {

const std::vector<std::string> kMerges = {"h e", "l l", "he ll", "hell o", "\u0120 hello", "o o"};
constexpr Token kHe = 256, kLl = 257, kHell = 258, kHello = 259, kSpaceHello = 260, kOo = 261;

TEST(Bpe, MergesByRank) {
    const auto t = load(bpe_bytes(kMerges, "gpt-2"));
    ASSERT_TRUE(t);
    EXPECT_STREQ(t->model_name(), "bpe");
    EXPECT_EQ(t->encode("hello", false, false), (Tokens{kHello}));
    EXPECT_EQ(t->encode("hello hello", false, false), (Tokens{kHello, kSpaceHello}));
    EXPECT_EQ(t->encode("helloo", false, false), (Tokens{kHello, 'o'}));
    EXPECT_EQ(t->encode("llll", false, false), (Tokens{kLl, kLl}));
    EXPECT_EQ(t->encode("ooo", false, false), (Tokens{kOo, 'o'}));  // leftmost first
    EXPECT_EQ(t->encode("", true, true), (Tokens{}));
    EXPECT_EQ(t->decode(Tokens{kSpaceHello, kHe}), " hellohe");
    EXPECT_EQ(t->find("hell"), kHell);
}

TEST(Bpe, AnyBytesComeBack) {
    for (const char* pre :
         {"gpt-2", "smollm", "llama-bpe", "deepseek-coder", "gpt-4o", "deepseek-v3"}) {
        const auto t = load(bpe_bytes(kMerges, pre));
        ASSERT_TRUE(t);
        Random random(7);
        for (int round = 0; round < 300; ++round) {
            std::string text;
            const size_t n = random.below(80);
            // Half of the rounds are dense in bytes that begin or go on with characters.
            for (size_t i = 0; i < n; ++i) {
                const size_t byte = round % 2 ? random.below(256) : 0xC0 + random.below(64) - 32;
                text += static_cast<char>(random.below(4) ? byte : "hello 'r7\n"[random.below(10)]);
            }
            const Tokens ids = t->encode(text, false, true);
            ASSERT_EQ(t->decode(ids), text) << pre;
            const TextSegment segment{text, false};
            ASSERT_EQ(t->encode_segments({&segment, 1}, false), t->encode(text, false, false));
        }
    }
}

// Merges the best pair, looked for from left to right, until none is left.
Tokens slow_bpe(const std::string& word, const std::map<std::pair<Token, Token>, Token>& merges) {
    Tokens ids;
    for (const char c : word)
        ids.push_back(static_cast<uint8_t>(c));
    for (;;) {
        size_t best = ids.size();
        Token whole = 0;
        for (size_t i = 0; i + 1 < ids.size(); ++i) {
            const auto found = merges.find({ids[i], ids[i + 1]});
            // New tokens are numbered in the order of their ranks.
            if (found != merges.end() && (best == ids.size() || found->second < whole)) {
                best = i;
                whole = found->second;
            }
        }
        if (best == ids.size()) return ids;
        ids[best] = whole;
        ids.erase(ids.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
}

TEST(Bpe, LongAndShortWordsMergeAsTheSlowOnesDo) {
    Random random(3);
    for (int vocabulary = 0; vocabulary < 10; ++vocabulary) {
        std::vector<std::string> texts = {"a", "b", "c"};
        std::vector<Token> ids = {'a', 'b', 'c'};
        std::vector<std::string> lines;
        std::map<std::pair<Token, Token>, Token> merges;
        while (lines.size() < 40) {
            const size_t l = random.below(texts.size());
            const size_t r = random.below(texts.size());
            const std::string whole = texts[l] + texts[r];
            if (std::find(texts.begin(), texts.end(), whole) != texts.end()) continue;
            lines.push_back(texts[l] + " " + texts[r]);
            const auto id = static_cast<Token>(kFirstMerge + lines.size() - 1);
            merges[{ids[l], ids[r]}] = id;
            texts.push_back(whole);
            ids.push_back(id);
        }
        const auto t = load(bpe_bytes(lines, "gpt-2"));
        ASSERT_TRUE(t);
        for (int round = 0; round < 60; ++round) {
            std::string word;
            const size_t n = 1 + random.below(round % 2 ? 30 : 400);
            for (size_t i = 0; i < n; ++i)
                word += static_cast<char>('a' + random.below(3));
            ASSERT_EQ(t->encode(word, false, false), slow_bpe(word, merges)) << word;
        }
    }
}

TEST(Bpe, WholeWordsWinWhereTheModelSaysSo) {
    const std::vector<Entry> more = {{"oddword"}};  // no merge makes it
    EXPECT_EQ(load(bpe_bytes(kMerges, "llama-bpe", more))->encode("oddword", false, false),
              (Tokens{262}));
    EXPECT_EQ(load(bpe_bytes(kMerges, "gpt-2", more))->encode("oddword", false, false).size(), 7u);
}

TEST(Bpe, TextNeverMergesIntoAControlToken) {
    std::vector<Entry> entries;
    for (int b = 0; b < 256; ++b)
        entries.push_back({spelled(std::string(1, static_cast<char>(b)))});
    entries.push_back({"<<", TokenKind::Normal});
    entries.push_back({"<<<", TokenKind::Control});
    GgufBytes bytes = vocabulary_bytes("gpt2", entries);
    bytes.add_strings("tokenizer.ggml.merges", {"< <", "<< <"});
    const auto t = load(bytes);
    ASSERT_TRUE(t);
    EXPECT_EQ(t->encode("<<<", false, false), (Tokens{256, '<'}));
    EXPECT_EQ(t->encode("<<<", false, true), (Tokens{257}));
}

TEST(Bpe, BosDefaultsFollowThePreTokenizer) {
    GgufBytes bytes = bpe_bytes(kMerges, "llama-bpe", {{"<bos>", TokenKind::Control}});
    bytes.add_u32("tokenizer.ggml.bos_token_id", 262);
    EXPECT_EQ(load(bytes)->encode("he", true, true), (Tokens{262, kHe}));
    EXPECT_EQ(load(bytes)->encode("<bos>he", true, true), (Tokens{262, kHe}));
    bytes.add_bool("tokenizer.ggml.add_bos_token", false);
    EXPECT_EQ(load(bytes)->encode("he", true, true), (Tokens{kHe}));
    GgufBytes other = bpe_bytes(kMerges, "gpt-2", {{"<bos>", TokenKind::Control}});
    other.add_u32("tokenizer.ggml.bos_token_id", 262);
    other.add_u32("tokenizer.ggml.eos_token_id", 262);
    EXPECT_EQ(load(other)->encode("he", true, true), (Tokens{kHe}));
    other.add_bool("tokenizer.ggml.add_eos_token", true);
    EXPECT_EQ(load(other)->encode("he", true, true), (Tokens{kHe, 262}));
}

const std::string kMark = "\u2581";

std::vector<Entry> spm_entries() {
    return {{kMark, TokenKind::Normal, -10},        {"a", TokenKind::Normal, -11},
            {"b", TokenKind::Normal, -12},          {"c", TokenKind::Normal, -13},
            {"ab", TokenKind::Normal, -2},          {"bc", TokenKind::Normal, -1},
            {kMark + "ab", TokenKind::Normal, -3},  {"abc", TokenKind::Normal, -4},
            {kMark + kMark, TokenKind::Normal, -5}, {"<tool>", TokenKind::UserDefined, 0}};
}
constexpr Token kSp = kFirstSpm, kA = kSp + 1, kC = kSp + 3, kAb = kSp + 4, kBc = kSp + 5,
                kSpAb = kSp + 6, kTool = kSp + 9;
constexpr Token byte_token(int b) {
    return 3 + b;
}

TEST(Spm, MergesByScore) {
    const auto t = load(spm_bytes(spm_entries()));
    ASSERT_TRUE(t);
    EXPECT_STREQ(t->model_name(), "spm");
    EXPECT_EQ(t->encode("ab", false, false), (Tokens{kSpAb}));
    EXPECT_EQ(t->encode("abc", false, false), (Tokens{kSp, kSp + 7}));  // bc first, then a bc
    EXPECT_EQ(t->encode("acb", false, false), (Tokens{kSp, kA, kC, kSp + 2}));
    EXPECT_EQ(t->encode("a  b", false, false), (Tokens{kSp, kA, kSp + 8, kSp + 2}));
    EXPECT_EQ(t->decode(t->encode("ab  bc", false, false)), "ab  bc");
    EXPECT_EQ(t->decode(t->encode(" ab", false, false)), " ab");
    EXPECT_EQ(t->encode("", false, false), (Tokens{}));
    EXPECT_EQ(t->encode("ab", true, false), (Tokens{1, kSpAb}));
    EXPECT_EQ(t->piece(kSpAb), " ab");
    EXPECT_EQ(t->piece(byte_token('\n')), "\n");
}

TEST(Spm, BytesForWhatHasNoToken) {
    const auto t = load(spm_bytes(spm_entries()));
    ASSERT_TRUE(t);
    EXPECT_EQ(t->encode("a\u00E9", false, false),
              (Tokens{kSp, kA, byte_token(0xC3), byte_token(0xA9)}));
    EXPECT_EQ(t->encode("\xFF", false, false), (Tokens{kSp, byte_token(0xFF)}));
    EXPECT_EQ(t->encode("<s>", false, false),
              (Tokens{kSp, byte_token('<'), byte_token('s'), byte_token('>')}));
    EXPECT_EQ(t->encode("<0x41>", false, false).size(), 7u);  // byte tokens have no spelling
    EXPECT_EQ(t->decode(t->encode("\xFF <s>\u00E9", false, false)), "\xFF <s>\u00E9");
}

TEST(Spm, SpacePrefixCanBeSwitchedOff) {
    GgufBytes bytes = spm_bytes(spm_entries());
    bytes.add_bool("tokenizer.ggml.add_space_prefix", false);
    const auto t = load(bytes);
    ASSERT_TRUE(t);
    EXPECT_EQ(t->encode("ab", false, false), (Tokens{kAb}));
    EXPECT_EQ(t->encode(" ab", false, false), (Tokens{kSpAb}));
    EXPECT_EQ(t->decode(Tokens{kSpAb}), " ab");
}

TEST(Spm, UserDefinedTokensCutTheText) {
    const auto t = load(spm_bytes(spm_entries()));
    ASSERT_TRUE(t);
    EXPECT_EQ(t->encode("ab<tool>bc", false, false), (Tokens{kSpAb, kTool, kSp, kBc}));
    EXPECT_EQ(t->encode("<s>ab", false, true), (Tokens{1, kSpAb}));
    EXPECT_EQ(t->encode("<s>ab", true, true), (Tokens{1, kSpAb}));
}

TEST(Spm, WithoutByteTokensTheUnknownTokenStandsIn) {
    GgufBytes bytes =
        vocabulary_bytes("llama", {{"<unk>", TokenKind::Unknown, 0}, {"a", TokenKind::Normal, -1}});
    bytes.add_u32("tokenizer.ggml.unknown_token_id", 0);
    bytes.add_bool("tokenizer.ggml.add_space_prefix", false);
    EXPECT_EQ(load(bytes)->encode("a\u00E9a", false, false), (Tokens{1, 0, 1}));
}

// Joins the best pair of the whole text, again and again.
std::vector<std::string> slow_spm(const std::string& text,
                                  const std::map<std::string, float>& scores) {
    std::vector<std::string> parts;
    for (size_t i = 0; i < text.size();) {
        const uint32_t n = utf8_at(text, i).bytes;
        parts.push_back(text.substr(i, n));
        i += n;
    }
    for (;;) {
        size_t best = parts.size();
        float best_score = 0;
        for (size_t i = 0; i + 1 < parts.size(); ++i) {
            const auto found = scores.find(parts[i] + parts[i + 1]);
            if (found != scores.end() && (best == parts.size() || found->second > best_score)) {
                best = i;
                best_score = found->second;
            }
        }
        if (best == parts.size()) return parts;
        parts[best] += parts[best + 1];
        parts.erase(parts.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
}

TEST(Spm, MergesAsTheSlowOneDoesWithManyEqualScores) {
    Random random(11);
    const std::vector<std::string> letters = {"a", "b", "\u00E9", kMark};
    for (int vocabulary = 0; vocabulary < 10; ++vocabulary) {
        std::vector<Entry> entries;
        std::map<std::string, float> scores;
        for (const std::string& letter : letters)
            entries.push_back({letter, TokenKind::Normal, -50});
        while (scores.size() < 30) {
            std::string text;
            const size_t n = 2 + random.below(4);
            for (size_t i = 0; i < n; ++i)
                text += letters[random.below(vocabulary % 2 ? 3 : 4)];
            const float score = -static_cast<float>(random.below(6));
            if (scores.emplace(text, score).second)
                entries.push_back({text, TokenKind::Normal, score});
        }
        GgufBytes bytes = spm_bytes(entries);
        bytes.add_bool("tokenizer.ggml.add_space_prefix", false);
        const auto t = load(bytes);
        ASSERT_TRUE(t);
        for (int round = 0; round < 60; ++round) {
            std::string text;
            const size_t n = 1 + random.below(round % 2 ? 20 : 300);
            for (size_t i = 0; i < n; ++i)
                text += letters[random.below(4)];
            std::vector<std::string> got;
            std::string plain;
            for (size_t i = 0; i < text.size(); i += utf8_at(text, i).bytes) {
                const std::string c = text.substr(i, utf8_at(text, i).bytes);
                plain += c == kMark ? " " : c;
            }
            for (const Token id : t->encode(plain, false, false))
                got.emplace_back(t->raw_text(id));
            ASSERT_EQ(got, slow_spm(text, scores)) << text;
        }
    }
}

// Both ways in which files write the pieces of words.
const std::vector<std::string> kPhantom = {
    kMark + "un", "aff", "able", kMark + "a", kMark + ",", kMark + "\u5317", kMark + "cafe", "!"};
const std::vector<std::string> kHashes = {"un", "##aff",  "##able", "a",
                                          ",",  "\u5317", "cafe",   "##!"};

TEST(Wpm, LongestPiecesFirst) {
    for (const auto& pieces : {kPhantom, kHashes}) {
        const auto t = load(wpm_bytes(pieces));
        ASSERT_TRUE(t);
        EXPECT_STREQ(t->model_name(), "wpm");
        EXPECT_EQ(t->encode("unaffable", false, false), (Tokens{3, 4, 5}));
        EXPECT_EQ(t->encode("  UNaffable,A ", true, false), (Tokens{1, 3, 4, 5, 7, 6, 2}));
        EXPECT_EQ(t->encode("unaffix a", false, false), (Tokens{0, 6}));
        EXPECT_EQ(t->encode("a!", false, false),
                  (Tokens{6, 0}));  // ! is a word, not an inner piece
        EXPECT_EQ(t->encode("a\u5317a", false, false), (Tokens{6, 8, 6}));
        EXPECT_EQ(t->encode("Caf\u00C9 cafe\u0301", false, false), (Tokens{9, 9}));
        EXPECT_EQ(t->encode("a\u200Da\xFF", false, false), (Tokens{0}));  // aa: no such word
        EXPECT_EQ(t->encode("[CLS]a", false, true), (Tokens{1, 6}));
        EXPECT_EQ(t->encode(std::string(101, 'a'), false, false), (Tokens{0}));
        EXPECT_EQ(t->encode("", true, false), (Tokens{1, 2}));
        EXPECT_EQ(t->decode(Tokens{1, 3, 4, 5, 6, 2}), "unaffable a");
    }
}

TEST(Wpm, CaseAndAccentsCanBeKept) {
    GgufBytes bytes = wpm_bytes({kMark + "Caf\u00E9", kMark + "cafe"});
    bytes.add_bool("tokenizer.ggml.normalizer.lowercase", false);
    EXPECT_EQ(load(bytes)->encode("Caf\u00E9 cafe", false, false), (Tokens{3, 4}));
}

}  // namespace
}  // namespace nib::test
