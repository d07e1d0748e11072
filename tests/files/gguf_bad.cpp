// SPDX-License-Identifier: MIT
// Files that lie. Each is a small valid file with one field spoiled; each must be refused with a
// line that names field and value.
#include "tests/files/tiny.h"

#include <cerrno>
#include <cstring>
#include <limits>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nib {
namespace {

using test::expect_gguf_refused;
using test::GgufBytes;
using test::one_tensor;
using test::tiny_gguf;

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

struct Bad {
    const char* name;
    std::string bytes;
    std::vector<std::string> words;  // of the message
};

void PrintTo(const Bad& bad, std::ostream* out) {
    *out << bad.name;
}

std::string header(uint64_t n_tensors, uint64_t n_kv, uint32_t version = 3) {
    return "GGUF" + GgufBytes::u32(version) + GgufBytes::u64(n_tensors) + GgufBytes::u64(n_kv);
}

std::string with_header(uint64_t n_tensors, uint64_t n_kv) {
    std::string bytes = tiny_gguf().bytes();
    return bytes.replace(0, 24, header(n_tensors, n_kv));
}

std::string with_version(uint32_t version) {
    GgufBytes file = tiny_gguf();
    file.version = version;
    return file.bytes();
}

std::string with_magic(const std::string& magic) {
    GgufBytes file = tiny_gguf();
    file.magic = magic;
    return file.bytes();
}

// A key whose length field says something else than the bytes that follow.
std::string with_key(uint64_t length, const std::string& text) {
    GgufBytes file = tiny_gguf();
    file.kv += GgufBytes::u64(length) + text + GgufBytes::u32(4) + GgufBytes::u32(1);
    file.n_kv++;
    return file.bytes();
}

std::string with_value(uint32_t type, const std::string& value) {
    return tiny_gguf().raw_kv("x.y", type, value).bytes();
}

std::string array(uint32_t element, uint64_t count, const std::string& data = {}) {
    return GgufBytes::u32(element) + GgufBytes::u64(count) + data;
}

std::string with_alignment(uint32_t type, const std::string& value) {
    GgufBytes file;
    file.raw_kv("general.alignment", type, value);
    file.tensor("t", {8}, 0, 0);
    file.data = std::string(64, '\0');
    return file.bytes();
}

std::string with_name(const std::string& name) {
    GgufBytes file;
    file.tensor(name, {8}, 0, 0);
    file.data = std::string(64, '\0');
    return file.bytes();
}

std::string with_dims(uint32_t n_dims) {
    GgufBytes file;
    file.tensors =
        GgufBytes::str("t") + GgufBytes::u32(n_dims) + GgufBytes::u64(8) + GgufBytes::u64(8);
    file.n_tensors = 1;
    file.data = std::string(64, '\0');
    return file.bytes();
}

std::string two_tensors(const std::vector<uint64_t>& ne, uint32_t type, uint64_t second_offset) {
    GgufBytes file;
    file.tensor("first", ne, type, 0).tensor("second", ne, type, second_offset);
    file.data = std::string(64, '\0');
    return file.bytes();
}

// The first tensor ends at byte 36, the second begins at byte 32; both fit.
std::string overlapping() {
    GgufBytes file;
    file.tensor("first", {9}, 0, 0).tensor("second", {8}, 0, 32);
    file.data = std::string(64, '\0');
    return file.bytes();
}

std::string without_data() {
    GgufBytes file = tiny_gguf();
    const size_t end = 24 + file.kv.size() + file.tensors.size();
    return file.bytes().substr(0, end);
}

std::string nested_arrays(int depth) {
    std::string value;
    for (int i = 0; i < depth; i++)
        value += array(9, 1);
    return value + array(4, 0);
}

std::vector<Bad> bad_headers() {
    const std::string tiny = tiny_gguf().bytes();
    const std::string nul("\0\0\0\3", 4);
    return {
        {"empty", "", {"not a GGUF file", "empty"}},
        {"only_the_magic", "GGUF", {"truncated at byte 4"}},
        {"one_byte_of_the_header_missing", tiny.substr(0, 23), {"truncated at byte 23"}},
        {"magic_reversed", with_magic("FUGG"), {"not a GGUF file", "'FUGG'", "reverse"}},
        {"magic_ggml", with_magic("GGML"), {"not a GGUF file", "old GGML"}},
        {"magic_lmgg", with_magic("lmgg"), {"not a GGUF file", "old GGML"}},
        {"magic_ggjt", with_magic("ggjt"), {"not a GGUF file", "old GGML"}},
        {"text", "Hello, this is no model\n", {"not a GGUF file", "'Hell'"}},
        {"html", "<!DOCTYPE html>\n<html><body>404", {"HTML page"}},
        {"html_after_blanks", "\n\n  <html>", {"HTML page"}},
        {"git_lfs_pointer",
         "version https://git-lfs.github.com/spec/v1\noid sha256:0",
         {"Git LFS"}},
        {"zip", "PK\x03\x04 and more", {"zip archive"}},
        {"safetensors", GgufBytes::u64(20) + "{\"__metadata__\":{}}  ", {"safetensors"}},
        {"binary", std::string("\x01\x80\x1b[", 4), {"\\x01\\x80\\x1b["}},
        {"version_0", with_version(0), {"unsupported version 0"}},
        {"version_1", with_version(1), {"unsupported version 1"}},
        {"version_4", with_version(4), {"unsupported version 4"}},
        {"big_endian", "GGUF" + nul + tiny.substr(8), {"unsupported version", "big-endian"}},
        {"n_tensors_2_63",
         with_header(uint64_t{1} << 63, 2),
         {"n_tensors=9223372036854775808", "bytes"}},
        {"n_tensors_max", with_header(kMax, 2), {"n_tensors=18446744073709551615"}},
        {"n_tensors_2_40",
         with_header(uint64_t{1} << 40, 2),
         {"n_tensors=1099511627776 needs >= ", "file has "}},
        {"n_tensors_0", header(0, 0), {"no tensors"}},
        {"n_kv_2_40", with_header(2, uint64_t{1} << 40), {"n_kv=1099511627776"}},
        {"header_only_2_57_tensors",
         header(uint64_t{1} << 57, 0),
         {"n_tensors=144115188075855872"}},
        {"header_only_2_60_keys", header(0, uint64_t{1} << 60), {"n_kv=1152921504606846976"}},
        {"header_only_both_max", header(kMax, kMax), {"n_tensors=18446744073709551615"}},
        {"one_key_too_many", with_header(2, 3), {"m.gguf: "}},
        {"one_tensor_too_many", with_header(3, 2), {"m.gguf: "}},
    };
}

std::vector<Bad> bad_metadata() {
    const std::string nul("a\0b", 3);
    return {
        {"key_length_0", with_key(0, ""), {"key 2", "length 0"}},
        {"key_length_max", with_key(kMax, "k"), {"key 2", "18446744073709551615"}},
        {"key_length_65536",
         with_key(65536, std::string(65536, 'k')),
         {"key 2", "65536", "1..65535"}},
        {"key_longer_than_file", with_key(5000, "k"), {"truncated", "key 2"}},
        {"key_with_nul",
         tiny_gguf().raw_kv(nul, 4, GgufBytes::u32(1)).bytes(),
         {"key 2", "NUL", "a\\x00b"}},
        {"key_not_utf8",
         tiny_gguf().raw_kv("a\xff", 4, GgufBytes::u32(1)).bytes(),
         {"key 2", "UTF-8", "\\xff"}},
        {"key_overlong_utf8",
         tiny_gguf().raw_kv("\xc0\x80", 4, GgufBytes::u32(1)).bytes(),
         {"key 2", "UTF-8"}},
        {"value_type_13", with_value(13, GgufBytes::u32(0)), {"'x.y'", "type 13"}},
        {"value_type_99", with_value(99, GgufBytes::u32(0)), {"'x.y'", "type 99"}},
        {"value_type_minus_1",
         with_value(0xffffffff, GgufBytes::u32(0)),
         {"'x.y'", "type 4294967295"}},
        {"array_of_arrays", with_value(9, nested_arrays(1)), {"'x.y'", "array of arrays"}},
        {"arrays_100000_deep", with_value(9, nested_arrays(100000)), {"'x.y'", "array of arrays"}},
        {"array_element_13", with_value(9, array(13, 1)), {"'x.y'", "element type 13"}},
        {"array_count_2_60",
         with_value(9, array(0, uint64_t{1} << 60)),
         {"'x.y'", "1152921504606846976", "exceed"}},
        {"array_count_of_strings_2_60",
         with_value(9, array(8, uint64_t{1} << 60)),
         {"'x.y'", "exceed"}},
        {"array_count_wraps",
         with_value(9, array(10, (uint64_t{1} << 61) + 1)),
         {"'x.y'", "2305843009213693953"}},
        {"array_one_too_many", with_value(9, array(10, 1 << 20)), {"'x.y'", "1048576"}},
        {"string_in_array_too_long",
         with_value(9, array(8, 2, GgufBytes::str("ok") + GgufBytes::u64(1 << 30))),
         {"'x.y'", "string 1"}},
        {"string_length_2_62",
         with_value(8, GgufBytes::u64(uint64_t{1} << 62)),
         {"'x.y'", "4611686018427387904", "exceeds file"}},
        {"string_length_max",
         with_value(8, GgufBytes::u64(kMax)),
         {"'x.y'", "18446744073709551615"}},
        {"bool_2", with_value(7, "\2"), {"'x.y'", "bool 2"}},
        {"duplicate_key",
         tiny_gguf().add_u32("llama.block_count", 2).bytes(),
         {"key 2", "duplicate", "llama.block_count"}},
        {"alignment_0", with_alignment(4, GgufBytes::u32(0)), {"general.alignment=0"}},
        {"alignment_3", with_alignment(4, GgufBytes::u32(3)), {"general.alignment=3"}},
        {"alignment_4", with_alignment(4, GgufBytes::u32(4)), {"general.alignment=4"}},
        {"alignment_13", with_alignment(4, GgufBytes::u32(13)), {"general.alignment=13"}},
        {"alignment_2_31",
         with_alignment(4, GgufBytes::u32(1u << 31)),
         {"general.alignment=2147483648"}},
        {"alignment_i32", with_alignment(5, GgufBytes::u32(32)), {"general.alignment", "i32"}},
        {"alignment_string",
         with_alignment(8, GgufBytes::str("32")),
         {"general.alignment", "string"}},
    };
}

std::vector<Bad> bad_tensors() {
    const uint64_t two62 = uint64_t{1} << 62;
    const std::string name64(64, 'n');
    return {
        {"name_empty", with_name(""), {"tensor 0", "length 0"}},
        {"name_64_bytes", with_name(name64), {"tensor 0", "length 64"}},
        {"name_with_nul", with_name(std::string("a\0b", 3)), {"tensor 0", "NUL"}},
        {"name_not_utf8", with_name("a\x80"), {"tensor 0", "UTF-8"}},
        {"n_dims_0", with_dims(0), {"'t'", "n_dims=0"}},
        {"n_dims_5", with_dims(5), {"'t'", "n_dims=5"}},
        {"n_dims_max", with_dims(0xffffffff), {"'t'", "n_dims=4294967295"}},
        {"ne_0_first", one_tensor({0, 32}, 0).bytes(), {"'t'", "dimension 0 is 0"}},
        {"ne_0_second", one_tensor({32, 0}, 0).bytes(), {"'t'", "dimension 1 is 0"}},
        {"ne_minus_1", one_tensor({8, kMax}, 0).bytes(), {"'t'", "dimension 1 is -1"}},
        {"ne_2_62", one_tensor({two62}, 0).bytes(), {"'t'", "overflows"}},
        {"ne_wraps_to_16_bytes",
         one_tensor({4, 0x4000000000000001}, 0).bytes(),
         {"'t'", "overflows"}},
        {"ne_wraps_to_0", one_tensor({4294967296, 4294967296}, 0).bytes(), {"'t'", "overflows"}},
        {"ne_almost_2_64_bytes",
         one_tensor({4, (1u << 30) - 1, (1u << 30) + 1}, 0).bytes(),
         {"'t'", "overflow"}},
        {"two_of_2_63_bytes", two_tensors({uint64_t{1} << 61}, 0, uint64_t{1} << 63), {"'first'"}},
        {"two_i8_padding_wraps",
         two_tensors({0x7fffffffffffffc0}, 24, 0x7fffffffffffffc0),
         {"'first'", "exceed"}},
        {"q4_0_2_60_rows", one_tensor({32, uint64_t{1} << 60}, 2).bytes(), {"'t'", "overflows"}},
        {"i8_negative", one_tensor({uint64_t{1} << 63}, 24).bytes(), {"'t'", "dimension 0"}},
        {"type_4", one_tensor({32}, 4).bytes(), {"'t'", "type 4 is not supported", "retired"}},
        {"type_5", one_tensor({32}, 5).bytes(), {"'t'", "type 5 is not supported", "retired"}},
        {"type_16", one_tensor({256}, 16).bytes(), {"'t'", "type 16 is not supported", "iq2_xxs"}},
        {"type_31", one_tensor({32}, 31).bytes(), {"'t'", "type 31 is not supported", "retired"}},
        {"type_43", one_tensor({32}, 43).bytes(), {"'t'", "type 43 is not supported"}},
        {"type_99", one_tensor({32}, 99).bytes(), {"'t'", "type 99 is not supported"}},
        {"type_9999", one_tensor({32}, 9999).bytes(), {"'t'", "type 9999 is not supported"}},
        {"type_minus_1", one_tensor({32}, 0xffffffff).bytes(), {"'t'", "type 4294967295"}},
        {"q4_k_row_255", one_tensor({255}, 12).bytes(), {"'t'", "row length 255", "256", "q4_k"}},
        {"q4_k_row_100", one_tensor({100}, 12).bytes(), {"'t'", "row length 100", "256"}},
        {"offset_2_63",
         one_tensor({8}, 0, uint64_t{1} << 63).bytes(),
         {"'t'", "9223372036854775808"}},
        {"offset_unaligned", one_tensor({8}, 0, 1).bytes(), {"'t'", "offset 1", "32"}},
        {"offset_overlap", overlapping(), {"'second'", "overlaps", "'first'"}},
        {"offset_the_same", two_tensors({8}, 0, 0), {"overlaps"}},
        {"one_byte_beyond",
         tiny_gguf().bytes().substr(0, tiny_gguf().bytes().size() - 1),
         {"'b.weight'", "32 bytes at offset 32"}},
        {"no_data_section", without_data(), {"'a.weight'", "no data section"}},
        {"duplicate_tensor",
         tiny_gguf().tensor("a.weight", {1}, 0, 64).bytes() + std::string(64, 'x'),
         {"duplicate tensor 'a.weight'"}},
    };
}

class BadGguf : public testing::TestWithParam<Bad> {};

TEST_P(BadGguf, IsRefused) {
    expect_gguf_refused(GetParam().bytes, GetParam().words);
}

const auto bad_name = [](const testing::TestParamInfo<Bad>& each) {
    return std::string(each.param.name);
};
INSTANTIATE_TEST_SUITE_P(Header, BadGguf, testing::ValuesIn(bad_headers()), bad_name);
INSTANTIATE_TEST_SUITE_P(Metadata, BadGguf, testing::ValuesIn(bad_metadata()), bad_name);
INSTANTIATE_TEST_SUITE_P(Tensors, BadGguf, testing::ValuesIn(bad_tensors()), bad_name);

TEST(BadGgufPath, SaysWhatItIs) {
    test::TempDir folder;
    const std::string base = folder.path();
    test::expect_gguf_path_refused(base + "/absent.gguf", {"absent.gguf", std::strerror(ENOENT)});
    mkdir((base + "/folder").c_str(), 0755);
    test::expect_gguf_path_refused(base + "/folder", {"is a directory"});
    mkfifo((base + "/pipe").c_str(), 0644);
    test::expect_gguf_path_refused(base + "/pipe", {"not a regular file"});
    ASSERT_EQ(symlink("loop", (base + "/loop").c_str()), 0);
    test::expect_gguf_path_refused(base + "/loop", {std::strerror(ELOOP)});
    test::expect_gguf_path_refused("/dev/zero", {"not a regular file"});
    test::expect_gguf_path_refused("/dev/random", {"not a regular file"});
    test::expect_gguf_path_refused(base + "/" + std::string(300, 'x'),
                                   {std::strerror(ENAMETOOLONG)});
    test::expect_refused(base + std::string("/a\0b", 4), {"NUL"},
                         [](const std::string& path) { return GgufFile::open(path); });
    if (geteuid() != 0) {
        test::write_file(base + "/secret", "GGUF");
        chmod((base + "/secret").c_str(), 0);
        test::expect_gguf_path_refused(base + "/secret", {std::strerror(EACCES)});
    }
}

// A file full of holes is large without cost: the limits hold where the bytes would be there.
TEST(BadGgufLimits, SparseFilesMeetTheLimits) {
    const auto refused = [](const std::string& start, const std::string& word) {
        test::TempDir folder;
        const std::string path = folder.file("m.gguf");
        test::write_file(path, start);
        ASSERT_EQ(truncate(path.c_str(), off_t{1} << 32), 0);
        test::expect_gguf_path_refused(path, {word});
    };
    refused(header(0, 1'000'001), "n_kv=1000001: must be at most 1000000");
    refused(header(1'000'001, 0), "n_tensors=1000001: must be at most 1000000");
    const std::string key = GgufBytes::str("texts") + GgufBytes::u32(9);
    refused(header(1, 1) + key + array(8, (1 << 24) + 1), "16777217 strings: must be at most");
}

TEST(BadGgufPath, MessagesStayOneLine) {
    test::TempDir folder;
    const std::string path = folder.file("two\nlines\x1b[1m.gguf");
    test::write_file(path, "GGUF");
    const auto opened = GgufFile::open(path);
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().message,
                testing::HasSubstr("two\\x0alines\\x1b[1m.gguf: truncated"));
}

}  // namespace
}  // namespace nib
