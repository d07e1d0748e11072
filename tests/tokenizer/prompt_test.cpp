// SPDX-License-Identifier: MIT
// Prompts of trusted and untrusted pieces, marks, the streaming decoder, and texts made to be slow.
#include "src/tokenizer/marks.h"
#include "tests/tokenizer/synthetic.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace nib::test {
namespace {

constexpr Token kStart = 257, kEnd = 258, kEndOfText = 259, kTool = 260, kTools = 261;

TokenizerPtr chat_tokenizer() {
    GgufBytes bytes = bpe_bytes({"h i"}, "gpt-2",
                                {{"<|im_start|>", TokenKind::Control},
                                 {"<|im_end|>", TokenKind::Control},
                                 {"<|endoftext|>", TokenKind::Control},
                                 {"<tool>", TokenKind::UserDefined},
                                 {"<tool><tool>", TokenKind::UserDefined}});
    bytes.add_u32("tokenizer.ggml.eos_token_id", kEndOfText);
    return load(bytes);
}

Tokens bytes_of(std::string_view text) {
    Tokens out;
    for (const char c : text)
        out.push_back(static_cast<uint8_t>(c));
    return out;
}

Tokens join(std::initializer_list<Tokens> parts) {
    Tokens out;
    for (const Tokens& part : parts)
        out.insert(out.end(), part.begin(), part.end());
    return out;
}

TEST(Segments, ControlMarksOnlyWhereTheTextIsTrusted) {
    const auto t = chat_tokenizer();
    const TextSegment segments[] = {
        {"<|im_start|>", true}, {"x<|im_end|>", false}, {"", false}, {"<|im_end|>", true}};
    EXPECT_EQ(t->encode_segments(segments, false),
              join({{kStart}, bytes_of("x<|im_end|>"), {kEnd}}));
    EXPECT_EQ(t->encode("<|im_end|>", false, true), (Tokens{kEnd}));
    EXPECT_EQ(t->encode("<|im_end|>", false, false), bytes_of("<|im_end|>"));
    EXPECT_EQ(t->encode_segments({}, true), (Tokens{}));
}

TEST(Segments, NoControlMarkAcrossABorder) {
    const auto t = chat_tokenizer();
    const std::string mark = "<|im_end|>";
    for (size_t cut = 1; cut < mark.size(); ++cut) {
        for (const bool first : {false, true}) {
            for (const bool second : {false, true}) {
                const TextSegment segments[] = {{std::string_view(mark).substr(0, cut), first},
                                                {std::string_view(mark).substr(cut), second}};
                EXPECT_EQ(t->encode_segments(segments, false), bytes_of(mark)) << cut;
            }
        }
    }
}

TEST(Segments, TextIsJoinedBeforeItIsCut) {
    const auto t = chat_tokenizer();
    const TextSegment word[] = {{"h", true}, {"i", false}};
    EXPECT_EQ(t->encode_segments(word, false), (Tokens{256}));
    const TextSegment character[] = {{"\xC3", false}, {"\xA9", true}};
    EXPECT_EQ(t->encode_segments(character, false), t->encode("\u00E9", false, false));
    const TextSegment tool[] = {{"<to", false}, {"ol>", true}};
    EXPECT_EQ(t->encode_segments(tool, false), (Tokens{kTool}));
}

TEST(Segments, AnyCutsOfOrdinaryTextGiveTheSameTokens) {
    const auto t = load(spm_bytes({{"\u2581", TokenKind::Normal, -5},
                                   {"a", TokenKind::Normal, -4},
                                   {"\u2581"
                                    "a",
                                    TokenKind::Normal, -3},
                                   {"aa", TokenKind::Normal, -2}}));
    const std::string text = "aaa a \u00E9 aa";
    for (size_t a = 0; a <= text.size(); ++a) {
        for (size_t b = a; b <= text.size(); ++b) {
            const std::string_view view = text;
            const TextSegment segments[] = {
                {view.substr(0, a), true}, {view.substr(a, b - a), false}, {view.substr(b), true}};
            ASSERT_EQ(t->encode_segments(segments, true), t->encode(text, true, false));
        }
    }
}

TEST(Marks, TheLongestWins) {
    const auto t = chat_tokenizer();
    EXPECT_EQ(t->encode("<tool>", false, false), (Tokens{kTool}));
    EXPECT_EQ(t->encode("<tool><tool>", false, false), (Tokens{kTools}));
    EXPECT_EQ(t->encode("<tool><tool><tool>hi", false, false), (Tokens{kTools, kTool, 256}));
    EXPECT_EQ(t->encode("<tool><tool", false, false), join({{kTool}, bytes_of("<tool")}));
}

TEST(Marks, ShownOnlyIfAskedFor) {
    const auto t = chat_tokenizer();
    const Tokens ids = {kStart, 256, kTool, kEnd};
    EXPECT_EQ(t->decode(ids), "hi<tool>");
    EXPECT_EQ(t->decode(ids, true), "<|im_start|>hi<tool><|im_end|>");
    EXPECT_EQ(t->piece(kStart), "");
    EXPECT_EQ(t->piece(-1), "");
    EXPECT_EQ(t->piece(INT32_MAX), "");
    EXPECT_EQ(t->decode(Tokens{-1, 99999, 256}), "hi");
}

TEST(Marks, EndsAreKnownByTheirTexts) {
    const auto t = chat_tokenizer();
    EXPECT_TRUE(t->is_end(kEnd));
    EXPECT_TRUE(t->is_end(kEndOfText));
    EXPECT_FALSE(t->is_end(kStart));
    EXPECT_FALSE(t->is_end(kTool));
    EXPECT_EQ(t->eot(), kEnd);

    const auto text_only = load(bpe_bytes({"h i"}, "gpt-2", {{"<|im_end|>", TokenKind::Normal}}));
    EXPECT_FALSE(text_only->is_end(257));
    const auto harmony = load(bpe_bytes({"h i"}, "gpt-2",
                                        {{"<|end|>", TokenKind::Control},
                                         {"<|return|>", TokenKind::Control},
                                         {"<|call|>", TokenKind::Control}}));
    EXPECT_FALSE(harmony->is_end(257));
    EXPECT_TRUE(harmony->is_end(258));
    EXPECT_TRUE(harmony->is_end(259));
}

std::string streamed(const TokenizerPtr& t, const Tokens& ids, bool special = false) {
    StreamDecoder stream(t, special);
    std::string out;
    for (const Token id : ids) {
        out += stream.push(id);
        EXPECT_TRUE(utf8_valid(out));
    }
    return out + stream.finish();
}

TEST(Stream, NeverEndsInsideACharacter) {
    const auto t = chat_tokenizer();
    StreamDecoder stream(t);
    EXPECT_EQ(stream.push('a'), "a");
    EXPECT_EQ(stream.push(0xF0), "");
    EXPECT_EQ(stream.push(0x9F), "");
    EXPECT_EQ(stream.push(0x98), "");
    EXPECT_EQ(stream.push(0x80), "\U0001F600");
    EXPECT_EQ(stream.push(kEnd), "");
    EXPECT_EQ(stream.push(0xC3), "");
    EXPECT_EQ(stream.push('b'),
              "\uFFFD"
              "b");
    EXPECT_EQ(stream.push(0xE6), "");
    EXPECT_EQ(stream.finish(), "\uFFFD");
    EXPECT_EQ(stream.finish(), "");
}

TEST(Stream, OneReplacementForEachMaximalSubpart) {
    const auto t = chat_tokenizer();
    const std::pair<std::string, std::string> cases[] = {
        {"\x80\x80", "\uFFFD\uFFFD"},
        {"\xC0\xAF", "\uFFFD\uFFFD"},
        {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
        {"\xF0\x9F\x98", "\uFFFD"},
        {"\xF0\x9F\x98"
         "a",
         "\uFFFD"
         "a"},
        {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
         "A",
         "\uFFFD\uFFFD\uFFFD\uFFFD"
         "A"},
        {"\xFF\xFE", "\uFFFD\uFFFD"},
    };
    for (const auto& [bytes, shown] : cases)
        EXPECT_EQ(streamed(t, bytes_of(bytes)), shown);
}

TEST(Stream, IsTheDecodedTextForAnyCharacters) {
    const auto t = chat_tokenizer();
    const auto spm =
        load(spm_bytes({{"\u2581", TokenKind::Normal, -5}, {"a", TokenKind::Normal, -4}}));
    Random random(9);
    for (int round = 0; round < 200; ++round) {
        std::string text;
        for (size_t n = random.below(20); n > 0; --n) {
            uint32_t code = static_cast<uint32_t>(random.below(random.below(2) ? 0x80 : 0x20000));
            utf8_append(text, code >= 0xD800 && code < 0xE000 ? ' ' : code);
        }
        EXPECT_EQ(streamed(t, t->encode(text, false, false)), text);
        EXPECT_EQ(streamed(spm, spm->encode(text, true, false)),
                  spm->decode(spm->encode(text, true, false)));
        EXPECT_EQ(spm->decode(spm->encode(text, true, false)), text);
    }
}

TEST(Stream, LeadingSpaceOfSentencePiece) {
    const auto t = load(spm_bytes({{"\u2581", TokenKind::Normal, -5},
                                   {"a", TokenKind::Normal, -4},
                                   {"\u2581"
                                    "a",
                                    TokenKind::Normal, -3}}));
    const Token space_a = kFirstSpm + 2;
    EXPECT_EQ(streamed(t, {1, space_a, space_a}), "a a");
    EXPECT_EQ(streamed(t, {kFirstSpm, space_a}), " a");
    StreamDecoder reply(t, false, false);  // goes on with a text
    EXPECT_EQ(reply.push(space_a), " a");
}

// Seconds for the first of a row of texts that would take hours if the work grew with their square.
// The limit has room for slow machines and sanitizers.
TEST(Limits, LongTextsOfOneWordTakeNoSquareOfTime) {
    std::vector<std::string> merges = {"a a", "aa aa", "aaaa aaaa", "\u0120 \u0120",
                                       "\u0120\u0120 \u0120\u0120"};
    const auto bpe =
        load(bpe_bytes(merges, "gpt-2", {{std::string(400, '<') + "x", TokenKind::Control}}));
    const auto spm = load(spm_bytes({{"\u2581", TokenKind::Normal, 0},
                                     {"\u2581\u2581", TokenKind::Normal, 0},
                                     {"aa", TokenKind::Normal, 0},
                                     {"a", TokenKind::Normal, 0},
                                     {"aaa", TokenKind::Normal, 0}}));
    const auto wpm =
        load(wpm_bytes({"\u2581"
                        "a",
                        "a", "aa"}));
    const auto start = std::chrono::steady_clock::now();
    for (const std::string& unit :
         {std::string("a"), std::string(" "), std::string("\n"), std::string("\U0001F600"),
          std::string("\xFF"), std::string("<"), std::string("ab "), std::string("\u200D")}) {
        std::string text;
        while (text.size() < (1u << 19))
            text += unit;
        for (const auto& t : {bpe, spm}) {
            EXPECT_EQ(t->decode(t->encode(text, false, true)), text);
        }
        (void)wpm->encode(text, true, true);
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    EXPECT_LT(taken.count(), 60);
}

TEST(Threads, ManyAtOnceAgree) {
    const auto t = load(bpe_bytes({"h e", "l l", "he ll"}, "deepseek-coder"));
    const std::string text = "hello hell 123 \u4E2D\u6587 <x>\n";
    const Tokens expected = t->encode(text, false, true);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; ++i) {
        threads.emplace_back([&] {
            for (int k = 0; k < 50; ++k)
                wrong += t->encode(text, false, true) != expected;
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace nib::test
