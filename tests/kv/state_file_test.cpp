// SPDX-License-Identifier: MIT
// Files of saved states: the right ones come back byte by byte, every other one is refused.
#include "src/kv/state_file.h"

#include "tests/support/support.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nib::test {
namespace {

using testing::HasSubstr;

StateIdentity identity() {
    StateIdentity id;
    id.model = 0x1234567890abcdef;
    id.build = "1.2 (abc)";
    id.type_k = "f16";
    id.type_v = "q8_0";
    id.groups = {{.window = 0, .block_bytes = 48}, {.window = 100, .block_bytes = 16}};
    id.context = 1000;
    return id;
}

KvState state_of(int64_t n) {
    KvState state;
    for (int64_t i = 0; i < n; i++)
        state.tokens.push_back(static_cast<int32_t>(i * 7));
    state.bytes.resize(identity().state_bytes(n));
    for (size_t i = 0; i < state.bytes.size(); i++)
        state.bytes[i] = static_cast<uint8_t>(i * 31);
    return state;
}

struct Folder {
    TempDir dir;
    std::unique_ptr<StateFolder> folder = std::move(*StateFolder::open(dir.path()));

    Result<uint64_t> write(const KvState& state) {
        return folder->write("x.bin", identity(), 1, state);
    }
    Error error_of(const StateIdentity& id, uint64_t owner = 1, const char* name = "x.bin") {
        KvState state;
        const auto result = folder->read(name, id, owner, state);
        return result.ok() ? Error{Status::Internal, "was read"} : result.error();
    }
    std::string path() const { return dir.file("x.bin"); }
};

TEST(StateFile, ComesBackAsItWas) {
    Folder f;
    for (const int64_t n : {1, 64, 65, 700, 1000}) {
        const KvState state = state_of(n);
        const auto written = f.write(state);
        ASSERT_TRUE(written.ok()) << written.error().message;
        EXPECT_EQ(*written, read_file(f.path()).size());
        KvState back;
        const auto bytes = f.folder->read("x.bin", identity(), 1, back);
        ASSERT_TRUE(bytes.ok()) << bytes.error().message;
        EXPECT_EQ(*bytes, *written);
        EXPECT_EQ(back.tokens, state.tokens);
        EXPECT_EQ(back.bytes, state.bytes);
    }
}

TEST(StateFile, NoByteMayBeDifferentAndNoneMayBeMissing) {
    Folder f;
    ASSERT_TRUE(f.write(state_of(3)).ok());
    const std::string good = read_file(f.path());
    ASSERT_LT(good.size(), 500u);
    const auto refused = [&](const std::string& bytes) {
        write_file(f.path(), bytes);
        const Status status = f.error_of(identity()).status;
        return status == Status::BadFile || status == Status::Unsupported ||
               status == Status::BadRequest || status == Status::TooLong;
    };
    for (size_t i = 0; i < good.size(); i++) {
        EXPECT_TRUE(refused(good.substr(0, i))) << "cut at " << i;
        for (const int bit : {0, 3, 7}) {
            std::string bad = good;
            bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
            EXPECT_TRUE(refused(bad)) << "flipped at " << i;
        }
        std::string full = good;
        full.replace(i, std::min<size_t>(8, full.size() - i), 8, '\xff');
        EXPECT_TRUE(refused(full)) << "large numbers at " << i;
    }
    EXPECT_TRUE(refused(good + "x"));
    EXPECT_TRUE(refused(std::string(1 << 20, '\0')));
    write_file(f.path(), good);
    KvState back;
    EXPECT_TRUE(f.folder->read("x.bin", identity(), 1, back).ok());
}

TEST(StateFile, NamesWhatIsDifferent) {
    Folder f;
    ASSERT_TRUE(f.write(state_of(200)).ok());
    const auto differs = [&](const char* words, const std::function<void(StateIdentity&)>& change) {
        StateIdentity id = identity();
        change(id);
        const Error error = f.error_of(id);
        EXPECT_EQ(error.status, Status::Unsupported) << error.message;
        EXPECT_THAT(error.message, HasSubstr(words));
        EXPECT_EQ(error.message.rfind("filename: x.bin: ", 0), 0u);
    };
    differs("model: expected 0000000000000001, the state has 1234567890abcdef",
            [](auto& id) { id.model = 1; });
    differs("build of nib: expected 2, the state has 1.2 (abc)", [](auto& id) { id.build = "2"; });
    differs("keys: expected q8_0, the state has f16", [](auto& id) { id.type_k = "q8_0"; });
    differs("values: expected f16, the state has q8_0", [](auto& id) { id.type_v = "f16"; });
    differs("KV groups: expected 1", [](auto& id) { id.groups.resize(1); });
    differs("KV group: expected 64/16", [](auto& id) { id.groups[1].window = 64; });
    StateIdentity small = identity();
    small.context = 100;
    EXPECT_EQ(f.error_of(small).status, Status::TooLong);
    // Somebody else's is not there.
    const Error other = f.error_of(identity(), 2), absent = f.error_of(identity(), 1, "y.bin");
    EXPECT_EQ(other.status, Status::BadRequest);
    EXPECT_EQ(absent.message, "filename: y.bin: there is no such state");
    EXPECT_EQ(other.message, "filename: x.bin: there is no such state");
}

TEST(StateFile, NamesLeadNowhereElse) {
    Folder f;
    const std::string zero("a\0b", 3);
    for (const std::string& name :
         {std::string(), std::string("."), std::string(".."), std::string("../x"),
          std::string("/etc/x"), std::string("a/b"), zero, std::string(256, 'a'),
          std::string("CON"), std::string("con.bin"), std::string("LPT1"), std::string("nul.txt"),
          std::string("a\xE2\x88\x95"
                      "b"),
          std::string(".hidden"), std::string("x."), std::string("-x"), std::string("a b"),
          std::string("a\\b"), std::string("a\nb")}) {
        KvState state = state_of(1);
        const auto written = f.folder->write(name, identity(), 1, state);
        ASSERT_FALSE(written.ok()) << name;
        EXPECT_EQ(written.error().status, Status::BadRequest);
        EXPECT_EQ(written.error().message.rfind("filename: expected ", 0), 0u);
        EXPECT_EQ(f.error_of(identity(), 1, name.c_str()).status, Status::BadRequest);
    }
    for (const char* name : {"a", "A-1_x.bin", "console", "com", "COM10", "x..y"})
        EXPECT_TRUE(f.folder->write(name, identity(), 1, state_of(1)).ok()) << name;
}

TEST(StateFile, LinksAndOtherThingsAreRefused) {
    Folder f;
    const std::string elsewhere = f.dir.file("target");
    ASSERT_TRUE(f.folder->write("target", identity(), 1, state_of(1)).ok());
    const std::string before = read_file(elsewhere);
    ASSERT_EQ(symlink(elsewhere.c_str(), f.path().c_str()), 0);
    EXPECT_THAT(f.error_of(identity()).message, HasSubstr("is a link"));
    EXPECT_EQ(f.write(state_of(2)).error().status, Status::BadRequest);
    EXPECT_EQ(read_file(elsewhere), before);
    unlink(f.path().c_str());
    ASSERT_EQ(mkfifo(f.path().c_str(), 0600), 0);  // nobody waits for a writer
    EXPECT_EQ(f.error_of(identity()).status, Status::BadRequest);
    EXPECT_EQ(f.write(state_of(2)).error().status, Status::BadRequest);
    unlink(f.path().c_str());
    ASSERT_EQ(mkdir(f.path().c_str(), 0700), 0);
    EXPECT_EQ(f.error_of(identity()).status, Status::BadRequest);
    EXPECT_EQ(f.write(state_of(2)).error().status, Status::BadRequest);
    rmdir(f.path().c_str());
    EXPECT_EQ(StateFolder::open(elsewhere).error().status, Status::BadRequest);
    EXPECT_EQ(StateFolder::open(f.dir.file("none")).error().status, Status::BadRequest);
}

TEST(StateFile, TheFolderIsTheOneThatWasOpened) {
    const TempDir dir;
    const std::string old_path = dir.file("states"), new_path = dir.file("moved");
    ASSERT_EQ(mkdir(old_path.c_str(), 0700), 0);
    const auto folder = std::move(*StateFolder::open(old_path));
    ASSERT_EQ(rename(old_path.c_str(), new_path.c_str()), 0);
    ASSERT_EQ(symlink("/", old_path.c_str()), 0);
    ASSERT_TRUE(folder->write("x.bin", identity(), 1, state_of(5)).ok());
    EXPECT_TRUE(file_exists(new_path + "/x.bin"));
    unlink(old_path.c_str());
    unlink((new_path + "/x.bin").c_str());
    ASSERT_EQ(rmdir(new_path.c_str()), 0);  // nothing else was left in it
    EXPECT_EQ(folder->write("x.bin", identity(), 1, state_of(5)).error().status, Status::Io);
}

}  // namespace
}  // namespace nib::test
