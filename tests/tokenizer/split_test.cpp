// SPDX-License-Identifier: MIT
// How text is cut into words before merging: the hand-written splitters against the patterns they
// stand for, and the patterns against a few known cuts.
#include "src/tokenizer/normalize.h"
#include "src/tokenizer/pre_tokenizer.h"
#include "tests/tokenizer/fixtures.h"

#include <map>

#include <utf8proc.h>

namespace nib::test {
namespace {

std::vector<std::string> words(const PreTokenizer& pre,
                               const std::string& text,
                               bool by_patterns = false) {
    std::vector<size_t> ends;
    if (by_patterns) {
        pre.split_by_patterns(text, ends);
    } else {
        pre.split(text, ends);
    }
    std::vector<std::string> out;
    size_t begin = 0;
    for (const size_t end : ends) {
        EXPECT_GT(end, begin);
        out.push_back(text.substr(begin, end - begin));
        begin = end;
    }
    EXPECT_EQ(begin, text.size());
    return out;
}

PreTokenizer pre_tokenizer(std::string_view name) {
    const PreTokenizerDef* def = find_pre_tokenizer(name);
    EXPECT_TRUE(def) << name;
    auto pre = PreTokenizer::create(*def);
    EXPECT_TRUE(pre.ok()) << name << ": " << pre.error().message;
    return std::move(pre).value();
}

std::vector<std::string> all_names() {
    std::vector<std::string> names;
    const std::string list = known_pre_tokenizers();
    for (size_t begin = 0; begin < list.size();) {
        const size_t end = std::min(list.find(", ", begin), list.size());
        names.push_back(list.substr(begin, end - begin));
        begin = end + 2;
    }
    return names;
}

// Characters for which the splitters have rules, and some of every kind. Characters newer than
// Unicode 13 are left out: two libraries may know different editions.
std::string random_text(Random& random) {
    static const std::vector<uint32_t> kPicked = {
        ' ',     ' ',     ' ',    '\n',   '\r',    '\t',   '\'',   's',    'S',    't',
        'r',     'e',     'l',    'L',    'v',     'd',    'm',    '7',    '0',    '.',
        '!',     '/',     '_',    0x17F,  0x212A,  0xA0,   0x85,   0x180E, 0x200B, 0x2028,
        0x3000,  0x1C,    0xE9,   0x301,  0x663,   0xBD,   0x2167, 0x4E2D, 0x6587, 0xAC00,
        0x1F600, 0x1F3FD, 0x200D, 0xFE0F, 0x10400, 0x1D7D8};
    std::string text;
    const size_t n = random.below(60);
    for (size_t i = 0; i < n; ++i) {
        uint32_t code = kPicked[random.below(kPicked.size())];
        if (random.below(5) == 0) code = static_cast<uint32_t>(random.below(0x8600));
        if (utf8proc_category(static_cast<int32_t>(code)) == UTF8PROC_CATEGORY_CN) continue;
        if (code < 0x250 || (code >= 0x370 && code < 0x530) || random.below(2) == 0 ||
            code > 0x8600) {
            utf8_append(text, code);
        }
    }
    return text;
}

TEST(Split, HandWrittenSplittersAreTheirPatterns) {
    Random random(1);
    for (const char* name : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
        const PreTokenizer pre = pre_tokenizer(name);
        for (int round = 0; round < 4000; ++round) {
            const std::string text = random_text(random);
            ASSERT_EQ(words(pre, text), words(pre, text, true))
                << name << testing::PrintToString(text);
        }
    }
}

TEST(Split, EveryPatternCutsEveryText) {
    Random random(2);
    for (const std::string& name : all_names()) {
        const PreTokenizer pre = pre_tokenizer(name);
        words(pre, "");
        for (int round = 0; round < 60; ++round)
            words(pre, random_text(random));
    }
}

TEST(Split, LongTextsEnd) {
    const std::vector<std::string> units = {"a", "A", " ", "\n", " \n", "1", "'", "\u4E2D", "aA"};
    for (const char* name : {"gpt-2", "llama-bpe", "deepseek-coder", "deepseek-llm", "deepseek-v3",
                             "gpt-4o", "tekken", "bloom", "falcon", "jais-2"}) {
        const PreTokenizer pre = pre_tokenizer(name);
        for (const std::string& unit : units) {
            std::string text;
            while (text.size() < 100000)
                text += unit;
            words(pre, text, true);
        }
    }
}

TEST(Split, KnownCuts) {
    using Words = std::vector<std::string>;
    const std::string text =
        "I'll pay  $1234, OK?\n\n  \u00C7"
        "a va!";
    EXPECT_EQ(words(pre_tokenizer("gpt-2"), text),
              (Words{"I", "'ll", " pay", " ", " $", "1234", ",", " OK", "?", "\n\n ",
                     " \u00C7"
                     "a",
                     " va", "!"}));
    EXPECT_EQ(words(pre_tokenizer("smollm"), text),
              (Words{"I", "'ll", " pay", " ", " $", "1", "2", "3", "4", ",", " OK", "?", "\n\n ",
                     " \u00C7"
                     "a",
                     " va", "!"}));
    EXPECT_EQ(words(pre_tokenizer("llama-bpe"), text),
              (Words{"I", "'ll", " pay", " ", " $", "123", "4", ",", " OK", "?\n\n", " ",
                     " \u00C7"
                     "a",
                     " va", "!"}));
    EXPECT_EQ(words(pre_tokenizer("qwen2"), text),
              (Words{"I", "'ll", " pay", " ", " $", "1", "2", "3", "4", ",", " OK", "?\n\n", " ",
                     " \u00C7"
                     "a",
                     " va", "!"}));
    EXPECT_EQ(words(pre_tokenizer("gpt-4o"), "fooBar HTMLDoc they'Re 12345"),
              (Words{"foo", "Bar", " HTMLDoc", " they'Re", " ", "123", "45"}));
    EXPECT_EQ(words(pre_tokenizer("deepseek-coder"), "a1 b\n"), (Words{"a", "1", " b", "\n"}));
    EXPECT_EQ(words(pre_tokenizer("superbpe"), "n1234567"), (Words{"n", "1", "234", "567"}));
}

TEST(Split, UnknownNamesAreNotFound) {
    EXPECT_EQ(find_pre_tokenizer("zzzz"), nullptr);
    EXPECT_EQ(find_pre_tokenizer(""), nullptr);
    EXPECT_EQ(find_pre_tokenizer("gpt"), nullptr);
    EXPECT_EQ(find_pre_tokenizer("gpt-2 phi-2"), nullptr);
}

TEST(Normalize, AsTheLibraryDoes) {
    Random random(4);
    const std::vector<uint32_t> codes = {'a',    'e',    0xE9,    0x301,  0x323,  0x327,
                                         0x1112, 0x1161, 0x11AB,  0xAC00, 0x11A8, 0x2126,
                                         0x3099, 0x304B, 0x1D15E, 0xFB2C, 0x344};
    for (int round = 0; round < 3000; ++round) {
        std::string text;
        for (size_t n = random.below(12); n > 0; --n)
            utf8_append(text, codes[random.below(codes.size())]);
        auto* expected = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
        ASSERT_EQ(to_nfc(text), reinterpret_cast<const char*>(expected));
        if (is_plainly_nfc(text)) {
            ASSERT_EQ(to_nfc(text), text);
        }
        std::free(expected);
    }
}

TEST(Normalize, WhatIsPlainStaysAsItIs) {
    for (uint32_t code = 1; code < 0x20000; ++code) {
        if (code >= 0xD800 && code < 0xE000) continue;
        std::string text = "a";
        utf8_append(text, code);
        if (is_plainly_nfc(text)) {
            ASSERT_EQ(to_nfc(text), text) << code;
        }
    }
}

TEST(Normalize, LongRowsOfMarksTakeNoSquareOfTime) {
    std::string text = "a";
    for (int i = 0; i < 300000; ++i)
        text += "\u0301";  // class 230, each before
    for (int i = 0; i < 300000; ++i)
        text += "\u0323";  // class 220, which goes first
    EXPECT_EQ(to_nfc(text).substr(0, 3), "\u1EA1");
}

}  // namespace
}  // namespace nib::test
