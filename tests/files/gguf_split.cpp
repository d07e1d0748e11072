// SPDX-License-Identifier: MIT
// Models split over several files: all of them open as one, and a missing or foreign file is named.
#include "tests/files/tiny.h"

namespace nib {
namespace {

using test::GgufBytes;
using test::TempDir;

struct Shard {
    uint32_t number = 0, count = 3;
    int32_t tensors = 3;
    std::string tensor = "t0";
    std::string architecture = "llama";
};

std::string shard_bytes(const Shard& shard) {
    GgufBytes file;
    file.raw_kv("split.no", 2, std::string{static_cast<char>(shard.number), '\0'});
    file.raw_kv("split.count", 2,
                std::string{static_cast<char>(shard.count), static_cast<char>(shard.count >> 8)});
    file.add_i32("split.tensors.count", shard.tensors);
    if (!shard.architecture.empty()) file.add_string("general.architecture", shard.architecture);
    file.tensor(shard.tensor, {2}, 0, 0);
    file.data = GgufBytes::f32(static_cast<float>(shard.number)) + GgufBytes::f32(0);
    return file.bytes();
}

// Three shards, the first complete, the others without an architecture (as tools write them).
class Split : public testing::Test {
  protected:
    void SetUp() override {
        for (uint32_t i = 0; i < 3; i++)
            write(
                i,
                {.number = i, .tensor = test::numbered("t", i), .architecture = i ? "" : "llama"});
    }
    std::string path(uint32_t i, const std::string& total = "00003") const {
        return folder_.file("m-0000" + std::to_string(i + 1) + "-of-" + total + ".gguf");
    }
    void write(uint32_t i, const Shard& shard) { test::write_file(path(i), shard_bytes(shard)); }
    void refused(const std::vector<std::string>& words) {
        test::expect_gguf_path_refused(path(0), words);
    }
    TempDir folder_;
};

TEST_F(Split, OpensAsOne) {
    const auto opened = GgufFile::open(path(0));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    const GgufFile& file = **opened;
    ASSERT_EQ(file.tensors().size(), 3u);
    for (uint32_t i = 0; i < 3; i++) {
        const GgufTensor* tensor = file.find_tensor(test::numbered("t", i));
        ASSERT_TRUE(tensor);
        EXPECT_EQ(tensor->shard, i);
        float first = -1;
        tensor->def->decode(tensor->data, &first, 1);
        EXPECT_EQ(first, static_cast<float>(i));
    }
    EXPECT_EQ(file.file_bytes(),
              shard_bytes({}).size() + 2 * shard_bytes({.architecture = ""}).size());
    EXPECT_FALSE(file.changed());
}

TEST_F(Split, OpensFromItsOwnFolder) {
    // A path without a folder, and a folder with dots: neither is taken apart.
    const std::string inside =
        folder_.path() + "/../" + folder_.path().substr(folder_.path().rfind('/') + 1);
    const auto opened = GgufFile::open(inside + "/m-00001-of-00003.gguf");
    EXPECT_TRUE(opened.ok()) << opened.error().message;
}

TEST_F(Split, MissingShardIsNamed) {
    std::remove(path(1).c_str());
    refused({"m-00002-of-00003.gguf", "No such file", "shard 2 of 3"});
}

TEST_F(Split, DamagedShardIsNamed) {
    test::write_file(path(2), shard_bytes({.number = 2, .tensor = "t2"}).substr(0, 120));
    refused({"m-00003-of-00003.gguf", "truncated", "shard 3 of 3"});
}

TEST_F(Split, ForeignShardsAreNamed) {
    write(1, {.number = 1, .tensor = "t1", .architecture = "gemma3"});
    refused({"m-00002-of-00003.gguf", "another model", "gemma3"});
    write(1, {.number = 2, .tensor = "t1"});
    refused({"m-00002-of-00003.gguf", "another model", "split.no=2, expected 1"});
    write(1, {.number = 1, .count = 4, .tensor = "t1"});
    refused({"m-00002-of-00003.gguf", "another model", "split.count=4, expected 3"});
    write(1, {.number = 1, .tensors = 4, .tensor = "t1"});
    refused({"m-00002-of-00003.gguf", "another model", "split.tensors.count=4, expected 3"});
    write(1, {.number = 1, .tensor = "t2"});
    refused({"duplicate tensor 't2'", "shard 3"});
}

TEST_F(Split, TensorCountMustMatch) {
    for (uint32_t i = 0; i < 3; i++)
        write(i, {.number = i, .tensors = 7, .tensor = test::numbered("t", i)});
    refused({"split.tensors.count=7, the shards have 3"});
}

TEST_F(Split, LaterShardIsNoStart) {
    test::expect_gguf_path_refused(path(1), {"split.no=1", "first file", "-00001-of-00003.gguf"});
}

TEST_F(Split, CountMustMatchTheName) {
    test::write_file(path(0), shard_bytes({.count = 65535}));
    refused({"split.count=65535", "-00001-of-65535.gguf"});
    test::write_file(path(0, "65535"), shard_bytes({.count = 65535}));
    test::expect_gguf_path_refused(path(0, "65535"), {"m-00002-of-65535.gguf", "shard 2 of 65535"});
    const std::string other = folder_.file("renamed.gguf");
    test::write_file(other, shard_bytes({}));
    test::expect_gguf_path_refused(other, {"split.count=3", "-00001-of-00003.gguf"});
}

TEST_F(Split, SplitKeysOfAWrongTypeAreRefused) {
    GgufBytes file = test::tiny_gguf();
    file.add_string("split.count", "3");
    test::expect_gguf_refused(file.bytes(), {"split.count is not an integer"});
    GgufBytes negative = test::tiny_gguf();
    negative.add_i32("split.count", -1);
    test::expect_gguf_refused(negative.bytes(), {"split.count=-1"});
}

TEST_F(Split, OneOfOneIsASingleFile) {
    const std::string path = folder_.file("alone.gguf");
    test::write_file(path, shard_bytes({.count = 1, .tensors = 1}));
    EXPECT_TRUE(GgufFile::open(path).ok());
}

}  // namespace
}  // namespace nib
