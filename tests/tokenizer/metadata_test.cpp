// SPDX-License-Identifier: MIT
// Files whose tokenizer metadata is wrong: each is refused with a message that names the key.
#include "tests/tokenizer/synthetic.h"

#include <gmock/gmock.h>

namespace nib::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string error_of(const GgufBytes& bytes, uint64_t n_rows = 0) {
    const auto loaded = try_load(bytes, n_rows);
    if (loaded.ok()) return "loaded";
    EXPECT_EQ(loaded.error().status, Status::BadFile) << loaded.error().message;
    EXPECT_THAT(loaded.error().message, Not(HasSubstr("\n")));
    return loaded.error().message;
}

GgufBytes small_spm(size_t n_scores, size_t n_types) {
    GgufBytes bytes;
    bytes.add_string("tokenizer.ggml.model", "llama");
    bytes.add_strings("tokenizer.ggml.tokens", {"a", "b", "ab"});
    bytes.add_f32s("tokenizer.ggml.scores", std::vector<float>(n_scores, -1));
    bytes.add_i32s("tokenizer.ggml.token_type", std::vector<int32_t>(n_types, 1));
    return bytes;
}

std::string u8_array(size_t n) {
    return GgufBytes::u32(0) + GgufBytes::u64(n) + std::string(n, '\1');
}

TEST(Metadata, AGoodFileLoads) {
    EXPECT_EQ(error_of(small_spm(3, 3)), "loaded");
    EXPECT_EQ(error_of(small_spm(3, 3), 3), "loaded");
}

TEST(Metadata, ScoresAndTypesOfAnotherElementType) {
    GgufBytes scores;
    scores.add_string("tokenizer.ggml.model", "llama");
    scores.add_strings("tokenizer.ggml.tokens", {"a", "b", "ab"});
    GgufBytes types = scores;
    scores.raw_kv("tokenizer.ggml.scores", 9, u8_array(3));
    EXPECT_THAT(error_of(scores), AllOf(HasSubstr("tokenizer.ggml.scores"),
                                        HasSubstr("array of f32"), HasSubstr("u8")));
    types.add_f32s("tokenizer.ggml.scores", {0, 0, 0});
    types.raw_kv("tokenizer.ggml.token_type", 9, u8_array(3));
    EXPECT_THAT(error_of(types), AllOf(HasSubstr("tokenizer.ggml.token_type"), HasSubstr("u8")));
}

TEST(Metadata, CountsThatDiffer) {
    EXPECT_THAT(error_of(small_spm(2, 3)), HasSubstr("tokenizer.ggml.scores: expected 3"));
    EXPECT_THAT(error_of(small_spm(4, 3)), HasSubstr("tokenizer.ggml.scores: expected 3"));
    EXPECT_THAT(error_of(small_spm(3, 2)), HasSubstr("tokenizer.ggml.token_type: expected 3"));
    EXPECT_THAT(error_of(small_spm(3, 3), 4), HasSubstr("token_embd.weight"));
    EXPECT_THAT(error_of(small_spm(3, 3), 2), HasSubstr("token_embd.weight"));
}

TEST(Metadata, TokensThatAreNoList) {
    GgufBytes none;
    none.add_string("tokenizer.ggml.model", "gpt2");
    EXPECT_THAT(error_of(none), HasSubstr("tokenizer.ggml.tokens is missing"));
    GgufBytes empty = none;
    empty.add_strings("tokenizer.ggml.tokens", {});
    EXPECT_THAT(error_of(empty), HasSubstr("tokenizer.ggml.tokens"));
    GgufBytes number = none;
    number.add_u32("tokenizer.ggml.tokens", 7);
    EXPECT_THAT(error_of(number),
                AllOf(HasSubstr("tokenizer.ggml.tokens"), HasSubstr("array of str")));
    GgufBytes bytes = none;
    bytes.raw_kv("tokenizer.ggml.tokens", 9, u8_array(3));
    EXPECT_THAT(error_of(bytes), HasSubstr("tokenizer.ggml.tokens"));
}

TEST(Metadata, TypesAndScoresWithoutMeaning) {
    GgufBytes bytes;
    bytes.add_string("tokenizer.ggml.model", "llama");
    bytes.add_strings("tokenizer.ggml.tokens", {"a", "b"});
    GgufBytes nan = bytes;
    nan.add_f32s("tokenizer.ggml.scores", {0, std::numeric_limits<float>::quiet_NaN()});
    EXPECT_THAT(error_of(nan), HasSubstr("tokenizer.ggml.scores[1]"));
    EXPECT_THAT(error_of(bytes), HasSubstr("tokenizer.ggml.scores is missing"));
    for (const int32_t type : {7, -1, INT32_MAX}) {
        GgufBytes types = bytes;
        types.add_f32s("tokenizer.ggml.scores", {0, 0});
        types.add_i32s("tokenizer.ggml.token_type", {1, type});
        EXPECT_THAT(error_of(types), HasSubstr("tokenizer.ggml.token_type[1]"));
    }
    GgufBytes byte = bytes;
    byte.add_f32s("tokenizer.ggml.scores", {0, 0});
    byte.add_i32s("tokenizer.ggml.token_type", {1, 6});
    EXPECT_THAT(error_of(byte), HasSubstr("tokenizer.ggml.tokens[1]"));
}

TEST(Metadata, IdsOutOfRange) {
    for (const char* name :
         {"bos", "eos", "eot", "eom", "unknown", "padding", "seperator", "cls", "mask"}) {
        const std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
        for (const uint32_t id : {3u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFEu}) {
            GgufBytes bytes = small_spm(3, 3);
            bytes.add_u32(key, id);
            EXPECT_THAT(error_of(bytes), HasSubstr(key)) << id;
        }
        GgufBytes none = small_spm(3, 3);
        none.add_u32(key, 0xFFFFFFFFu);
        EXPECT_EQ(error_of(none), "loaded") << key;
        GgufBytes text = small_spm(3, 3);
        text.add_string(key, "2");
        EXPECT_THAT(error_of(text), HasSubstr(key));
    }
    GgufBytes none = small_spm(3, 3);
    none.add_u32("tokenizer.ggml.bos_token_id", 0xFFFFFFFFu);
    EXPECT_EQ(load(none)->bos(), kNoToken);
    EXPECT_FALSE(load(none)->adds_bos());
}

TEST(Metadata, Merges) {
    for (const char* merge : {"a z", "z a", "a a", "ab", "a ", " a", ""}) {
        GgufBytes bytes;
        bytes.add_string("tokenizer.ggml.model", "gpt2");
        bytes.add_strings("tokenizer.ggml.tokens", {"a", "b", "ab"});
        bytes.add_strings("tokenizer.ggml.merges", {"a b", merge});
        EXPECT_THAT(error_of(bytes), HasSubstr("tokenizer.ggml.merges[1]")) << merge;
    }
    GgufBytes none;
    none.add_string("tokenizer.ggml.model", "gpt2");
    none.add_strings("tokenizer.ggml.tokens", {"a"});
    EXPECT_THAT(error_of(none), HasSubstr("tokenizer.ggml.merges is missing"));
    none.add_strings("tokenizer.ggml.merges", {});
    EXPECT_EQ(error_of(none), "loaded");
}

TEST(Metadata, UnknownModelsAndPreTokenizers) {
    GgufBytes model;
    model.add_string("tokenizer.ggml.model", "zz\nz");
    EXPECT_THAT(error_of(model),
                AllOf(HasSubstr("tokenizer.ggml.model"), HasSubstr("zz"), HasSubstr("llama")));
    EXPECT_THAT(error_of(GgufBytes()), HasSubstr("tokenizer.ggml.model"));

    const GgufBytes pre = bpe_bytes({"h e"}, "zzzz");
    EXPECT_THAT(error_of(pre), AllOf(HasSubstr("tokenizer.ggml.pre 'zzzz' is not known (known: "),
                                     HasSubstr("qwen2")));
    const auto allowed = load(pre, {.allow_unknown_pre = true});
    ASSERT_TRUE(allowed);
    EXPECT_EQ(allowed->encode("he", false, false), (Tokens{kFirstMerge}));
}

TEST(Metadata, TextsThatAreNoUtf8) {
    GgufBytes spm;
    spm.add_string("tokenizer.ggml.model", "llama");
    spm.add_strings("tokenizer.ggml.tokens", {"a", "\xC3"});
    spm.add_f32s("tokenizer.ggml.scores", {0, 0});
    EXPECT_THAT(error_of(spm), HasSubstr("tokenizer.ggml.tokens[1]"));

    const auto bpe = load(bpe_bytes({"h e"}, "gpt-2", {{"\xC3"}}));
    ASSERT_TRUE(bpe);
    EXPECT_EQ(bpe->piece(kFirstMerge + 1), "\xC3");
}

TEST(Metadata, MarksHaveALimit) {
    const std::vector<Entry> fits = {{std::string(512, 'm'), TokenKind::Control}};
    EXPECT_EQ(error_of(bpe_bytes({"h e"}, "gpt-2", fits)), "loaded");
    const std::vector<Entry> too_long = {{std::string(513, 'm'), TokenKind::UserDefined}};
    EXPECT_THAT(error_of(bpe_bytes({"h e"}, "gpt-2", too_long)), HasSubstr("tokens[257]"));
}

TEST(Metadata, OfTwoTokensWithOneTextTheFirstIsFound) {
    const auto t = load(
        bpe_bytes({"h e"}, "gpt-2",
                  {{"h"}, {"<m>", TokenKind::Control}, {"<m>", TokenKind::Control}, {"he"}, {""}}));
    ASSERT_TRUE(t);
    EXPECT_EQ(t->encode("h", false, false), (Tokens{'h'}));
    EXPECT_EQ(t->encode("he", false, false), (Tokens{256}));
    EXPECT_EQ(t->encode("<m>", false, true), (Tokens{258}));
    EXPECT_EQ(t->find("<m>"), 258);
    EXPECT_EQ(t->piece(257), "h");
    EXPECT_EQ(t->piece(260), "he");
    EXPECT_EQ(t->piece(259, true), "<m>");
    EXPECT_EQ(t->piece(261, true), "");
}

TEST(Metadata, WithoutTypesSpecialIdsAndBytesAreGuessed) {
    GgufBytes bytes;
    bytes.add_string("tokenizer.ggml.model", "llama");
    bytes.add_strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "<0x0A>", "a"});
    bytes.add_f32s("tokenizer.ggml.scores", {0, 0, 0, 0});
    bytes.add_u32("tokenizer.ggml.unknown_token_id", 0);
    bytes.add_u32("tokenizer.ggml.bos_token_id", 1);
    const auto t = load(bytes);
    ASSERT_TRUE(t);
    EXPECT_EQ(t->kind(0), TokenKind::Unknown);
    EXPECT_EQ(t->kind(1), TokenKind::Control);
    EXPECT_EQ(t->kind(2), TokenKind::Byte);
    EXPECT_EQ(t->piece(2), "\n");
    EXPECT_EQ(t->kind(99), TokenKind::Unused);
    EXPECT_EQ(t->raw_text(-5), "");
}

// A real vocabulary with any byte changed is refused or works; it never crashes.
TEST(Metadata, DamagedFilesDoNotCrash) {
    Random random(5);
    const std::string good =
        spm_bytes({{"a", TokenKind::Normal, -1}, {"<m>", TokenKind::UserDefined, 0}}).bytes();
    const TempDir folder;
    const std::string path = folder.file("damaged.gguf");
    for (int round = 0; round < 400; ++round) {
        std::string bytes = good;
        for (size_t k = 1 + random.below(3); k > 0; --k) {
            bytes[random.below(bytes.size())] = static_cast<char>(random.next());
        }
        write_file(path, bytes);
        const auto t = try_load(path);
        if (!t.ok()) continue;
        const Tokens ids = t.value()->encode("a <m>\xC3\xA9<s>", true, true);
        (void)t.value()->decode(ids, true);
    }
}

}  // namespace
}  // namespace nib::test
