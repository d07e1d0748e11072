// SPDX-License-Identifier: MIT
// A mapped file that shrinks, grows or is replaced: no signal, and changed() tells.
#include "ggml-like/files/mapped_file.h"

#include "tests/files/tiny.h"

#include <csignal>

#include <sys/mman.h>
#include <unistd.h>

namespace nib {
namespace {

using test::TempDir;

std::unique_ptr<MappedFile> map_bytes(const std::string& path, const std::string& bytes) {
    test::write_file(path, bytes);
    auto map = MappedFile::open(path);
    if (!map.ok()) ADD_FAILURE() << map.error().message;
    return map.ok() ? std::move(*map) : nullptr;
}

uint64_t sum(const MappedFile& map) {
    uint64_t total = 0;
    for (uint64_t i = 0; i < map.size(); i++)
        total += static_cast<const volatile uint8_t*>(map.data())[i];
    return total;
}

TEST(MappedFile, ReadsWhatIsThere) {
    TempDir folder;
    const auto map = map_bytes(folder.file("f"), "abc");
    ASSERT_TRUE(map);
    EXPECT_EQ(map->size(), 3u);
    EXPECT_EQ(sum(*map), uint64_t{'a' + 'b' + 'c'});
    EXPECT_FALSE(map->changed());
    EXPECT_TRUE(map->contains(map->data() + 2));
    EXPECT_FALSE(map->contains(map->data() + 3));
}

TEST(MappedFile, EmptyFileHasNoBytes) {
    TempDir folder;
    const auto map = map_bytes(folder.file("f"), "");
    ASSERT_TRUE(map);
    EXPECT_EQ(map->size(), 0u);
    EXPECT_FALSE(map->changed());
}

TEST(MappedFile, ShrinkingGivesZerosAndTells) {
    TempDir folder;
    const std::string path = folder.file("f");
    const auto map = map_bytes(path, std::string(10 << 16, '\1'));
    const auto other = map_bytes(folder.file("g"), std::string(10 << 16, '\1'));
    ASSERT_TRUE(map && other);
    EXPECT_EQ(sum(*map), uint64_t{10 << 16});
    ASSERT_EQ(truncate(path.c_str(), 4096), 0);
    EXPECT_EQ(sum(*map), 4096u);
    EXPECT_TRUE(map->changed());
    EXPECT_EQ(sum(*map), 4096u) << "stays readable";
    EXPECT_FALSE(other->changed());
    EXPECT_EQ(sum(*other), uint64_t{10 << 16});
}

TEST(MappedFile, ShrinkingIsKnownWithoutARead) {
    TempDir folder;
    const std::string path = folder.file("f");
    const auto map = map_bytes(path, std::string(9000, '\1'));
    ASSERT_TRUE(map);
    ASSERT_EQ(truncate(path.c_str(), 8999), 0);
    EXPECT_TRUE(map->changed());
}

TEST(MappedFile, GrowingAndRewritingAreChangesToo) {
    TempDir folder;
    const auto map = map_bytes(folder.file("f"), "abc");
    ASSERT_TRUE(map);
    test::write_file(folder.file("f"), "abcd");
    EXPECT_TRUE(map->changed());
}

TEST(MappedFile, ARangeIsUsedAgain) {
    TempDir folder;
    for (int i = 0; i < 50; i++) {
        const std::string path = folder.file(test::numbered("f", i));
        const auto map = map_bytes(path, std::string(8192, '\1'));
        ASSERT_TRUE(map);
        EXPECT_FALSE(map->changed());
        if (i % 2) {
            ASSERT_EQ(truncate(path.c_str(), 0), 0);
            EXPECT_EQ(sum(*map), 0u);
            EXPECT_TRUE(map->changed());
        }
    }
}

TEST(MappedFile, AnOpenModelTells) {
    TempDir folder;
    const std::string path = folder.file("m.gguf");
    test::GgufBytes bytes = test::tiny_gguf();
    bytes.tensor("big", {1 << 16}, 0, 64);
    bytes.data += std::string(4 << 16, '\1');
    test::write_file(path, bytes.bytes());
    const auto file = GgufFile::open(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_FALSE((*file)->changed());
    ASSERT_EQ(truncate(path.c_str(), 4096), 0);
    const GgufTensor* big = (*file)->find_tensor("big");
    std::vector<float> values(big->elements());
    big->def->decode(big->data, values.data(), values.size());
    EXPECT_EQ(values.back(), 0.0f);
    EXPECT_TRUE((*file)->changed());
}

// Runs in a child, because the fault is meant to kill it.
TEST(MappedFileDeathTest, ForeignFaultsStayFatal) {
    GTEST_FLAG_SET(death_test_style, "fast");
    TempDir folder;
    const auto ours = map_bytes(folder.file("ours"), std::string(8192, '\1'));
    test::write_file(folder.file("foreign"), std::string(8192, '\1'));
    FILE* file = std::fopen(folder.file("foreign").c_str(), "r");
    ASSERT_TRUE(file);
    const auto* bytes = static_cast<const volatile uint8_t*>(
        mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fileno(file), 0));
    ASSERT_EQ(truncate(folder.file("foreign").c_str(), 0), 0);
    EXPECT_DEATH(static_cast<void>(bytes[5000]), "");
    EXPECT_DEATH(raise(SIGBUS), "");
    std::fclose(file);
}

}  // namespace
}  // namespace nib
