// SPDX-License-Identifier: MIT
// Files that are right: everything in them is found, with the right type, and getters check what
// they promise.
#include "tests/files/tiny.h"

#include <cmath>
#include <limits>

namespace nib {
namespace {

using test::GgufBytes;
using test::TempDir;
using test::tiny_gguf;

std::shared_ptr<GgufFile> open_bytes(const TempDir& folder,
                                     const std::string& bytes,
                                     GgufOpenOptions options = {}) {
    const std::string path = folder.file("m.gguf");
    test::write_file(path, bytes);
    auto opened = GgufFile::open(path, options);
    if (!opened.ok()) ADD_FAILURE() << opened.error().message;
    return opened.ok() ? *opened : nullptr;
}

float float_at(const GgufTensor& tensor, size_t i) {
    std::vector<float> values(tensor.elements());
    tensor.def->decode(tensor.data, values.data(), values.size());
    return values[i];
}

TEST(Gguf, TensorsAndKeysOfATinyFile) {
    TempDir folder;
    const auto file = open_bytes(folder, tiny_gguf().bytes());
    ASSERT_TRUE(file);
    EXPECT_EQ(file->version(), 3u);
    EXPECT_EQ(file->alignment(), 32u);
    EXPECT_EQ(file->file_bytes(), tiny_gguf().bytes().size());
    ASSERT_EQ(file->entries().size(), 2u);
    EXPECT_EQ(file->entries()[0].key, "general.architecture");
    EXPECT_EQ(*file->string("general.architecture"), "llama");
    EXPECT_EQ(*file->integer("llama.block_count", 1, 10), 1);
    ASSERT_EQ(file->tensors().size(), 2u);
    const GgufTensor* a = file->find_tensor("a.weight");
    const GgufTensor* b = file->find_tensor("b.weight");
    ASSERT_TRUE(a && b);
    EXPECT_EQ(a->n_dims, 2u);
    EXPECT_EQ(a->ne[0], 4u);
    EXPECT_EQ(a->ne[1], 2u);
    EXPECT_EQ(a->ne[2], 1u);
    EXPECT_EQ(a->bytes, 32u);
    EXPECT_EQ(float_at(*a, 7), 7.0f);
    EXPECT_EQ(float_at(*b, 0), 8.0f);
    EXPECT_EQ(file->find_tensor("c.weight"), nullptr);
    EXPECT_EQ(file->find(""), nullptr);
    EXPECT_FALSE(file->changed());
    file->drop_pages(a->data, a->bytes);
    EXPECT_EQ(float_at(*a, 1), 1.0f);
}

TEST(Gguf, EveryValueType) {
    GgufBytes bytes = tiny_gguf();
    bytes.raw_kv("u8", 0, "\xff")
        .raw_kv("i8", 1, "\xff")
        .raw_kv("u16", 2, "\xff\xff")
        .raw_kv("i16", 3, "\xff\xff");
    bytes.add_u32("u32", 0xffffffff).add_i32("i32", -7).add_f32("f32", 0.5f).add_bool("yes", true);
    bytes.raw_kv("u64", 10, GgufBytes::u64(~uint64_t{0}))
        .raw_kv("i64", 11, GgufBytes::u64(~uint64_t{0}));
    bytes.raw_kv("f64", 12, GgufBytes::u64(0x3fb999999999999a));
    bytes.add_string("text", std::string("a\0\xff", 3)).add_string("none", "");
    TempDir folder;
    const auto file = open_bytes(folder, bytes.bytes());
    ASSERT_TRUE(file);
    EXPECT_EQ(file->find("u8")->integer(), 255);
    EXPECT_EQ(file->find("i8")->integer(), -1);
    EXPECT_EQ(file->find("u16")->integer(), 65535);
    EXPECT_EQ(file->find("i16")->integer(), -1);
    EXPECT_EQ(file->find("u32")->integer(), 4294967295);
    EXPECT_EQ(file->find("i32")->integer(), -7);
    EXPECT_EQ(file->find("i32")->number(), -7.0);
    EXPECT_EQ(file->find("f32")->number(), 0.5);
    EXPECT_EQ(file->find("f32")->integer(), std::nullopt);
    EXPECT_EQ(file->find("yes")->boolean(), true);
    EXPECT_EQ(file->find("yes")->integer(), std::nullopt) << "a bool is no integer";
    EXPECT_EQ(file->find("u64")->integer(), std::nullopt) << "does not fit";
    EXPECT_EQ(file->find("u64")->number(), 18446744073709551616.0);
    EXPECT_EQ(file->find("i64")->integer(), -1);
    EXPECT_EQ(file->find("f64")->number(), 0.1);
    EXPECT_EQ(*file->string("text"), std::string("a\0\xff", 3)) << "values may hold any bytes";
    EXPECT_EQ(*file->string("none"), "");
}

TEST(Gguf, ArraysOfEveryType) {
    GgufBytes bytes = tiny_gguf();
    const auto array = [&](const char* key, uint32_t type, const std::string& data,
                           uint64_t count) {
        bytes.raw_kv(key, 9, GgufBytes::u32(type) + GgufBytes::u64(count) + data);
    };
    array("u8", 0, "\x01\xff", 2);
    array("i8", 1, "\x01\xff", 2);
    array("i16", 3, "\x01\xff\xfe\xff", 2);
    array("u16", 2, "\x01\xff\xfe\xff", 2);
    array("bool", 7, std::string("\0\1", 2), 2);
    array("u64", 10, GgufBytes::u64(5) + GgufBytes::u64(6), 2);
    array("i64", 11, GgufBytes::u64(~uint64_t{0}), 1);
    array("f64", 12, GgufBytes::u64(0x3fb999999999999a), 1);
    array("none", 6, "", 0);
    bytes.add_i32s("i32", {-1, 2})
        .add_f32s("f32", {0.25f, -8})
        .add_strings("texts", {"a", "", "\xff"});
    TempDir folder;
    const auto file = open_bytes(folder, bytes.bytes());
    ASSERT_TRUE(file);
    EXPECT_EQ(file->find("u8")->integer_at(1), 255);
    EXPECT_EQ(file->find("i8")->integer_at(1), -1);
    EXPECT_EQ(file->find("i16")->integer_at(0), -255);
    EXPECT_EQ(file->find("u16")->integer_at(0), 65281);
    EXPECT_EQ(file->find("bool")->integer_at(1), 1);
    EXPECT_EQ(file->find("u64")->number_at(1), 6.0);
    EXPECT_EQ(file->find("i64")->integer_at(0), -1);
    EXPECT_EQ(file->find("f64")->number_at(0), 0.1);
    EXPECT_EQ(file->find("i32")->integer_at(0), -1);
    EXPECT_EQ(file->find("f32")->number_at(1), -8.0);
    EXPECT_EQ(file->find("f32")->count, 2u);
    EXPECT_EQ(file->find("none")->count, 0u);
    EXPECT_EQ(file->find("texts")->strings, (std::vector<std::string_view>{"a", "", "\xff"}));
    // What is not there is zero, never a read beyond.
    EXPECT_EQ(file->find("i32")->integer_at(2), 0);
    EXPECT_EQ(file->find("f32")->number_at(2), 0.0);
    EXPECT_EQ(file->find("texts")->integer_at(0), 0);
    EXPECT_EQ(file->find("f32")->integer_at(0), 0);
    EXPECT_EQ(file->find("general.architecture")->number_at(0), 0.0);
}

std::string message(const auto& result) {
    return result.ok() ? "accepted" : result.error().message;
}

TEST(Gguf, GettersNameFileKeyAndValue) {
    GgufBytes bytes = tiny_gguf();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    bytes.add_u32("n", 600)
        .add_f32("eps", nan)
        .add_f32("base", -1)
        .add_string("s", "text")
        .add_bool("b", true);
    bytes.raw_kv("big", 10, GgufBytes::u64(~uint64_t{0})).add_f32s("list", {1});
    TempDir folder;
    const auto file = open_bytes(folder, bytes.bytes());
    ASSERT_TRUE(file);
    const std::string start = file->path() + ": ";
    EXPECT_EQ(message(file->integer("n", 1, 512)), start + "n=600: must be 1..512");
    EXPECT_EQ(message(file->integer("big", 0, 5)),
              start + "big=18446744073709551615: must be 0..5");
    EXPECT_EQ(message(file->integer("absent", 0, 5)), start + "missing key absent");
    EXPECT_EQ(message(file->integer("s", 0, 5)), start + "s: expected an integer, file has string");
    EXPECT_EQ(message(file->integer("base", -5, 5)),
              start + "base: expected an integer, file has f32");
    EXPECT_EQ(message(file->integer("list", -5, 5)),
              start + "list: expected an integer, file has array of f32");
    EXPECT_EQ(message(file->integer_or("n", 1, 1, 512)), start + "n=600: must be 1..512");
    EXPECT_EQ(*file->integer_or("absent", 77, 1, 512), 77);
    EXPECT_EQ(message(file->number("eps", 0, 1)), start + "eps=nan: must be 0..1");
    EXPECT_EQ(message(file->number("base", 0, 1)), start + "base=-1: must be 0..1");
    EXPECT_EQ(message(file->number("b", 0, 1)), start + "b: expected a number, file has bool");
    EXPECT_EQ(*file->number("n", 0, 1000), 600.0);
    EXPECT_EQ(*file->number_or("absent", 0.5, 0, 1), 0.5);
    EXPECT_EQ(*file->boolean_or("b", false), true);
    EXPECT_EQ(*file->boolean_or("absent", true), true);
    EXPECT_EQ(message(file->boolean_or("n", false)), start + "n: expected a bool, file has u32");
    EXPECT_EQ(message(file->string("general.name")), start + "missing key general.name");
    EXPECT_EQ(message(file->string("n")), start + "n: expected a string, file has u32");
}

TEST(Gguf, VersionTwoIsTheSame) {
    GgufBytes bytes = tiny_gguf();
    bytes.version = 2;
    TempDir folder;
    const auto file = open_bytes(folder, bytes.bytes());
    ASSERT_TRUE(file);
    EXPECT_EQ(file->version(), 2u);
}

TEST(Gguf, LargeAlignmentAndHoles) {
    GgufBytes bytes;
    bytes.alignment = 4096;
    bytes.add_u32("general.alignment", 4096)
        .tensor("second", {2}, 0, 4096)
        .tensor("first", {2}, 0, 0);
    bytes.data = std::string(4096, '\0') + GgufBytes::f32(3) + GgufBytes::f32(4);
    TempDir folder;
    const auto file = open_bytes(folder, bytes.bytes());
    ASSERT_TRUE(file);
    EXPECT_EQ(file->alignment(), 4096u);
    EXPECT_EQ(float_at(*file->find_tensor("second"), 1), 4.0f);
    EXPECT_EQ(file->tensors()[0].name, "second") << "file order";
}

TEST(Gguf, LongestNameAndKey) {
    GgufBytes bytes = tiny_gguf();
    const std::string name(63, 'n'), key(65535, 'k');
    bytes.tensor(name, {1}, 0, 64).add_u32(key, 5);
    bytes.data += std::string(64, '\0');
    TempDir folder;
    const auto file = open_bytes(folder, bytes.bytes());
    ASSERT_TRUE(file);
    EXPECT_TRUE(file->find_tensor(name));
    EXPECT_EQ(*file->integer(key, 0, 9), 5);
}

TEST(Gguf, VocabularyOnlyFiles) {
    GgufBytes bytes;
    bytes.add_strings("tokenizer.ggml.tokens", {"a", "b"});
    TempDir folder;
    const auto file = open_bytes(folder, bytes.bytes(), {.need_tensors = false});
    ASSERT_TRUE(file);
    EXPECT_EQ(file->tensors().size(), 0u);
}

TEST(Gguf, PathsInAnyLanguage) {
    TempDir folder;
    const std::string path = folder.file("\xd0\xbc\xd0\xbe\xd0\xb4 \xf0\x9f\x98\x80.gguf");
    test::write_file(path, tiny_gguf().bytes());
    const auto opened = GgufFile::open(path);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_EQ((*opened)->path(), path);
}

TEST(Gguf, PublishedVocabularies) {
    const std::pair<const char*, size_t> expected[] = {
        {"bert-bge", 30522},  {"deepseek-coder", 32256}, {"gpt-2", 50257},  {"llama-bpe", 128256},
        {"llama-spm", 32000}, {"phi-3", 32064},          {"qwen2", 151936}, {"starcoder", 49152}};
    for (const auto& [name, n_tokens] : expected) {
        const std::string path =
            test::shared_data(std::string("vocabs/ggml-vocab-") + name + ".gguf");
        if (path.empty()) GTEST_SKIP() << "skipped: no reference data";
        const auto opened = GgufFile::open(path, {.need_tensors = false});
        ASSERT_TRUE(opened.ok()) << opened.error().message;
        const GgufValue* tokens = (*opened)->find("tokenizer.ggml.tokens");
        ASSERT_TRUE(tokens);
        EXPECT_EQ(tokens->strings.size(), n_tokens) << name;
    }
}

}  // namespace
}  // namespace nib
