// SPDX-License-Identifier: MIT
// What the writer writes, the reader reads; and the final name never holds less than a whole file.
#include "ggml-like/files/atomic_file.h"
#include "tests/files/tiny.h"

#include <filesystem>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nib {
namespace {

using test::TempDir;

size_t files_in(const TempDir& folder) {
    size_t n = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path()))
        n++;
    return n;
}

std::unique_ptr<GgufWriter> create(const std::string& path, uint64_t alignment = 32) {
    auto writer = GgufWriter::create(path, alignment);
    if (!writer.ok()) ADD_FAILURE() << writer.error().message;
    return writer.ok() ? std::move(*writer) : nullptr;
}

std::string message(const auto& result) {
    return result.ok() ? "accepted" : result.error().message;
}

void write_all(GgufWriter& w) {
    w.add_string("general.architecture", "llama");
    w.add_u32("u", 4000000000u);
    w.add_i32("i", -5);
    w.add_u64("big", uint64_t{1} << 60);
    w.add_f32("f", 0.1f);
    w.add_bool("b", true);
    w.add_strings("texts", std::vector<std::string>{"one", "", "\xff"});
    w.add_i32s("ints", std::vector<int32_t>{-1, 7});
    w.add_f32s("floats", std::vector<float>{0.5f, -8});
    w.add_tensor("a", Type::F32, std::vector<uint64_t>{3});
    w.add_tensor("b", Type::Q8_0, std::vector<uint64_t>{32, 2});
}

const float kA[3] = {1, 2, 3};
const std::string kB(68, '\x11');

void write_data(GgufWriter& w) {
    EXPECT_TRUE(w.write_data(kA, 8).ok());  // in two pieces
    EXPECT_TRUE(w.write_data(kA + 2, 4).ok());
    EXPECT_TRUE(w.write_data(kB.data(), kB.size()).ok());
    const Result<void> finished = w.finish();
    EXPECT_TRUE(finished.ok()) << finished.error().message;
}

void expect_written(const std::string& path, uint64_t alignment) {
    const auto opened = GgufFile::open(path);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    const GgufFile& file = **opened;
    EXPECT_EQ(file.alignment(), alignment);
    EXPECT_EQ(*file.string("general.architecture"), "llama");
    EXPECT_EQ(*file.integer("u", 0, INT64_MAX), 4000000000);
    EXPECT_EQ(*file.integer("i", -9, 9), -5);
    EXPECT_EQ(*file.integer("big", 0, INT64_MAX), int64_t{1} << 60);
    EXPECT_EQ(*file.number("f", 0, 1), double{0.1f});
    EXPECT_EQ(*file.boolean_or("b", false), true);
    EXPECT_EQ(file.find("texts")->strings, (std::vector<std::string_view>{"one", "", "\xff"}));
    EXPECT_EQ(file.find("ints")->integer_at(0), -1);
    EXPECT_EQ(file.find("floats")->number_at(1), -8.0);
    const GgufTensor* a = file.find_tensor("a");
    const GgufTensor* b = file.find_tensor("b");
    ASSERT_TRUE(a && b);
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(a->data), a->bytes),
              std::string_view(reinterpret_cast<const char*>(kA), sizeof kA));
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(b->data), b->bytes), kB);
    EXPECT_EQ(b->ne[1], 2u);
}

TEST(Writer, RoundTrip) {
    for (const uint64_t alignment : {8, 32, 4096}) {
        TempDir folder;
        const std::string path = folder.file("w.gguf");
        const auto writer = create(path, alignment);
        ASSERT_TRUE(writer);
        write_all(*writer);
        write_data(*writer);
        expect_written(path, alignment);
        EXPECT_EQ(files_in(folder), 1u) << "a hidden file is left";
    }
}

TEST(Writer, CopiesEntriesOfAnotherFile) {
    TempDir folder;
    const auto first = create(folder.file("a.gguf"), 64);
    write_all(*first);
    write_data(*first);
    const auto source = GgufFile::open(folder.file("a.gguf"));
    ASSERT_TRUE(source.ok());
    const auto copy = create(folder.file("b.gguf"));
    for (const GgufFile::Entry& entry : (*source)->entries())
        copy->add_copy(entry.key, entry.value);
    for (const GgufTensor& tensor : (*source)->tensors()) {
        copy->add_tensor(tensor.name, tensor.def->type, {tensor.ne, tensor.n_dims});
    }
    write_data(*copy);
    expect_written(folder.file("b.gguf"), 32);
}

TEST(Writer, SameBytesAsTheFormatSays) {
    test::GgufBytes expected;
    expected.add_string("k", "v").add_f32s("f", {1, 2}).tensor("t", {2, 1}, 1, 0);
    expected.data = std::string("\1\2\3\4", 4) + std::string(28, '\0');
    TempDir folder;
    const auto writer = create(folder.file("w.gguf"));
    writer->add_string("k", "v");
    writer->add_f32s("f", std::vector<float>{1, 2});
    writer->add_tensor("t", Type::F16, std::vector<uint64_t>{2, 1});
    EXPECT_TRUE(writer->write_data("\1\2\3\4", 4).ok());
    EXPECT_TRUE(writer->finish().ok());
    EXPECT_EQ(test::read_file(folder.file("w.gguf")), expected.bytes());
}

TEST(Writer, UnfinishedLeavesTheOldFile) {
    TempDir folder;
    const std::string path = folder.file("w.gguf");
    test::write_file(path, "old");
    {
        const auto writer = create(path);
        write_all(*writer);
        EXPECT_TRUE(writer->write_data(kA, sizeof kA).ok());
        EXPECT_THAT(message(writer->finish()),
                    testing::HasSubstr("data of tensor 1 of 2 is missing"));
        EXPECT_EQ(files_in(folder), 2u);
        EXPECT_EQ(test::read_file(path), "old");
    }
    EXPECT_EQ(test::read_file(path), "old");
    EXPECT_EQ(files_in(folder), 1u);
}

TEST(Writer, MistakesAreReported) {
    TempDir folder;
    const auto first_error = [&](const auto& mistake) {
        const auto writer = create(folder.file("w.gguf"));
        mistake(*writer);
        return message(writer->finish());
    };
    using testing::HasSubstr;
    const std::vector<uint64_t> row{32}, odd{31}, none, huge{32, uint64_t{1} << 62}, zero{0};
    EXPECT_THAT(first_error([](GgufWriter& w) { w.add_u32("k", 1), w.add_u32("k", 2); }),
                HasSubstr("duplicate key 'k'"));
    EXPECT_THAT(first_error([](GgufWriter& w) { w.add_u32("", 1); }), HasSubstr("bad key"));
    EXPECT_THAT(first_error([&](GgufWriter& w) { w.add_tensor("t", Type::Q8_0, odd); }),
                HasSubstr("bad shape for q8_0"));
    EXPECT_THAT(first_error([&](GgufWriter& w) { w.add_tensor("t", Type::F32, none); }),
                HasSubstr("bad shape"));
    EXPECT_THAT(first_error([&](GgufWriter& w) { w.add_tensor("t", Type::F32, huge); }),
                HasSubstr("overflows"));
    EXPECT_THAT(first_error([&](GgufWriter& w) { w.add_tensor("t", Type::F32, zero); }),
                HasSubstr("zero"));
    EXPECT_THAT(
        first_error([&](GgufWriter& w) { w.add_tensor(std::string(64, 'n'), Type::F32, row); }),
        HasSubstr("bad name"));
    EXPECT_THAT(first_error([&](GgufWriter& w) {
                    w.add_tensor("t", Type::F32, row), w.add_tensor("t", Type::F32, row);
                }),
                HasSubstr("'t': added twice"));
    EXPECT_THAT(first_error([&](GgufWriter& w) {
                    w.add_tensor("t", Type::F32, row);
                    EXPECT_FALSE(w.write_data(std::string(129, 'x').data(), 129).ok());
                }),
                HasSubstr("more data than tensor 0 has"));
    EXPECT_EQ(files_in(folder), 0u);
}

TEST(Writer, RefusesWhatIsNoFile) {
    TempDir folder;
    using testing::HasSubstr;
    EXPECT_THAT(message(GgufWriter::create(folder.path())), HasSubstr("is a directory"));
    EXPECT_THAT(message(GgufWriter::create("/dev/null")), HasSubstr("not a regular file"));
    EXPECT_THAT(message(GgufWriter::create(folder.file("absent/w.gguf"))),
                HasSubstr("No such file"));
    EXPECT_THAT(message(GgufWriter::create("")), HasSubstr("not a file name"));
    EXPECT_THAT(message(GgufWriter::create(folder.file("w.gguf"), 48)), HasSubstr("alignment 48"));
}

TEST(AtomicFile, HasTheUsualMode) {
    TempDir folder;
    const std::string path = folder.file("f");
    const mode_t old = umask(027);
    auto file = AtomicFile::create(path);
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE((*file)->write("text", 4).ok());
    EXPECT_TRUE((*file)->commit().ok());
    umask(old);
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0640u);
    EXPECT_EQ(test::read_file(path), "text");
}

TEST(AtomicFile, LargeAndSmallPieces) {
    TempDir folder;
    auto file = AtomicFile::create(folder.file("f"));
    ASSERT_TRUE(file.ok());
    std::string expected;
    for (const size_t n : {1u, 1000u, 3000000u, 7u, 1048576u, 0u, 1048575u, 5u}) {
        const std::string piece(n, static_cast<char>('a' + n % 26));
        EXPECT_TRUE((*file)->write(piece.data(), n).ok());
        expected += piece;
    }
    EXPECT_EQ((*file)->bytes(), expected.size());
    EXPECT_TRUE((*file)->commit().ok());
    EXPECT_TRUE(test::read_file(folder.file("f")) == expected);
}

TEST(AtomicFile, RemovesWhatDeadWritersLeft) {
    TempDir folder;
    test::write_file(folder.file(".nib-write-dead00"), "part");
    auto alive = AtomicFile::create(folder.file("alive"));
    ASSERT_TRUE(alive.ok());
    EXPECT_FALSE(test::file_exists(folder.file(".nib-write-dead00")));
    auto other = AtomicFile::create(folder.file("other"));
    ASSERT_TRUE(other.ok());
    EXPECT_TRUE((*alive)->commit().ok()) << "a living writer's file is not stale";
}

TEST(AtomicFile, FailsWhenItsFolderIsGone) {
    TempDir folder;
    auto file = AtomicFile::create(folder.file("f"));
    ASSERT_TRUE(file.ok());
    std::filesystem::remove_all(folder.path());
    EXPECT_TRUE((*file)->write("text", 4).ok());
    const Result<void> committed = (*file)->commit();
    ASSERT_FALSE(committed.ok());
    EXPECT_EQ(committed.error().status, Status::Io);
    EXPECT_THAT(committed.error().message, testing::HasSubstr("No such file"));
}

}  // namespace
}  // namespace nib
