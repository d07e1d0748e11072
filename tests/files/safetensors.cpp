// SPDX-License-Identifier: MIT
// Checkpoints that are right, and every way in which a header, its tensors or an index can be
// wrong.
#include "ggml-like/files/safetensors.h"

#include "tests/files/tiny.h"

#include <sys/stat.h>
#include <unistd.h>

namespace nib {
namespace {

using test::GgufBytes;
using test::TempDir;

std::string checkpoint(const std::string& header, size_t data_bytes = 16) {
    return GgufBytes::u64(header.size()) + header + std::string(data_bytes, '\2');
}

std::string one(const std::string& fields) {
    return checkpoint("{\"t\":{" + fields + "}}");
}

// One F32 tensor of 16 bytes.
std::string tensor(const std::string& name, int begin = 0, const std::string& shape = "[2,2]") {
    return "\"" + name + "\":{\"dtype\":\"F32\",\"shape\":" + shape + ",\"data_offsets\":[" +
           std::to_string(begin) + "," + std::to_string(begin + 16) + "]}";
}

// By the library and by the program.
void refused_path(const std::string& path, const std::vector<std::string>& words) {
    test::expect_refused(path, words,
                         [](const std::string& p) { return SafetensorsFile::open(p); });
    test::expect_program_refuses({"inspect", path}, words);
}

struct Bad {
    const char* name;
    std::string bytes;
    std::vector<std::string> words;
};

void PrintTo(const Bad& bad, std::ostream* out) {
    *out << bad.name;
}

std::string nested(int depth) {
    return checkpoint("{\"t\":" + std::string(depth, '[') + std::string(depth, ']') + "}");
}

std::vector<Bad> bad_headers() {
    const uint64_t max = ~uint64_t{0};
    return {
        {"empty", "", {"not a safetensors file", "0 bytes"}},
        {"seven_bytes", "1234567", {"7 bytes"}},
        {"length_0", GgufBytes::u64(0) + "{}", {"header length 0"}},
        {"length_max", GgufBytes::u64(max) + "{}", {"header length 18446744073709551615"}},
        {"length_over_limit",
         GgufBytes::u64(100'000'001) + "{}",
         {"header length 100000001", "100000000"}},
        {"length_over_file", GgufBytes::u64(3) + "{}", {"header length 3", "exceeds file"}},
        {"no_brace", checkpoint("[\"\"]"), {"starts with '['"}},
        {"blank_first", checkpoint(" {}"), {"starts with ' '"}},
        {"text_behind", checkpoint("{} x"), {"more text"}},
        {"not_utf8", checkpoint("{\"\xff\":1}"), {"UTF-8"}},
        {"cut_off", checkpoint("{\"t\":{"), {"too early"}},
        {"deep", nested(100000), {"'t'"}},
        {"duplicate_tensor",
         checkpoint("{" + tensor("t") + "," + tensor("u", 16) + "," + tensor("t", 32) + "}", 48),
         {"duplicate tensor 't'"}},
        {"duplicate_metadata",
         checkpoint("{\"__metadata__\":{},\"__metadata__\":{}}", 0),
         {"duplicate key '__metadata__'"}},
        {"metadata_number", checkpoint("{\"__metadata__\":{\"a\":1}}", 0), {"__metadata__"}},
        {"bytes_behind",
         checkpoint("{" + tensor("t") + "}", 17),
         {"1 bytes after the last tensor"}},
        {"hole", checkpoint("{" + tensor("t") + "," + tensor("u", 20) + "}", 36), {"'u'", "hole"}},
        {"hole_at_start", checkpoint("{" + tensor("t", 4) + "}", 20), {"'t'", "hole"}},
        {"overlap",
         checkpoint("{" + tensor("t") + "," + tensor("u", 12) + "}", 28),
         {"'u'", "overlaps"}},
    };
}

std::vector<Bad> bad_tensors() {
    const std::string f32 = "\"dtype\":\"F32\",", shape = "\"shape\":[2,2],",
                      range = "\"data_offsets\":[0,16]";
    const auto offsets = [&](const std::string& v) {
        return one(f32 + shape + "\"data_offsets\":" + v);
    };
    const auto shaped = [&](const std::string& v) {
        return one(f32 + "\"shape\":" + v + "," + range);
    };
    return {
        {"offsets_reversed",
         offsets("[8,4]"),
         {"'t'", "data_offsets [8, 4]", "begin is after end"}},
        {"offsets_negative", offsets("[-4,12]"), {"'t'", "data_offsets", "'-4'"}},
        {"offsets_three", offsets("[0,16,16]"), {"'t'", "exactly two"}},
        {"offsets_one", offsets("[16]"), {"'t'", "data_offsets"}},
        {"offsets_text", offsets("\"0,16\""), {"'t'", "data_offsets"}},
        {"offsets_fraction", offsets("[0,16.0]"), {"'t'", "'16.0'"}},
        {"offsets_2_64", offsets("[0,18446744073709551616]"), {"'t'", "'18446744073709551616'"}},
        {"offsets_beyond", offsets("[0,17]"), {"'t'", "[0, 17]", "exceeds the data (16 bytes)"}},
        {"shape_too_large", shaped("[2,3]"), {"'t'", "need 24 bytes"}},
        {"shape_wraps", shaped("[4194305,4194305,211106198978564]"), {"'t'", "shape overflows"}},
        {"shape_wraps_with_zero",
         shaped("[0,4194305,4194305,211106198978564]"),
         {"'t'", "shape overflows"}},
        {"shape_minus_1", shaped("[-1,4]"), {"'t'", "shape has '-1'"}},
        {"shape_fraction", shaped("[1.5,4]"), {"'t'", "shape has '1.5'"}},
        {"shape_exponent", shaped("[4e0]"), {"'t'", "shape has '4e0'"}},
        {"shape_text", shaped("[\"4\"]"), {"'t'", "shape"}},
        {"shape_nested", shaped("[[4]]"), {"'t'", "shape"}},
        {"shape_nine_dims", shaped("[1,1,1,1,1,1,1,2,2]"), {"'t'", "more than 8"}},
        {"dtype_unknown", one("\"dtype\":\"F99\"," + shape + range), {"'t'", "dtype 'F99'"}},
        {"dtype_number", one("\"dtype\":3," + shape + range), {"'t'", "dtype"}},
        {"no_dtype", one(shape + range), {"'t'", "no dtype"}},
        {"no_shape", one(f32 + range), {"'t'", "no shape"}},
        {"no_offsets", one(f32 + "\"shape\":[2,2]"), {"'t'", "no data_offsets"}},
        {"dtype_twice", one(f32 + f32 + shape + range), {"'t'", "'dtype'"}},
        {"unknown_field", one(f32 + shape + range + ",\"x\":1"), {"'t'", "'x'"}},
        {"no_object", checkpoint("{\"t\":5}"), {"'t'", "expected an object"}},
        {"empty_name", checkpoint("{" + tensor("") + "}"), {"a name must be text"}},
        {"name_with_nul", checkpoint("{" + tensor("a\\u0000b") + "}"), {"a name must be text"}},
    };
}

class BadSafetensors : public testing::TestWithParam<Bad> {};

TEST_P(BadSafetensors, IsRefused) {
    TempDir folder;
    const std::string path = folder.file("m.safetensors");
    test::write_file(path, GetParam().bytes);
    refused_path(path, GetParam().words);
}

const auto bad_name = [](const testing::TestParamInfo<Bad>& each) {
    return std::string(each.param.name);
};
INSTANTIATE_TEST_SUITE_P(Headers, BadSafetensors, testing::ValuesIn(bad_headers()), bad_name);
INSTANTIATE_TEST_SUITE_P(Tensors, BadSafetensors, testing::ValuesIn(bad_tensors()), bad_name);

TEST(Safetensors, HeaderOverTheLimitThatIsReallyThere) {
    TempDir folder;
    const std::string path = folder.file("m.safetensors");
    test::write_file(path, GgufBytes::u64((100u << 20) + 1) + "{");
    ASSERT_EQ(truncate(path.c_str(), (100 << 20) + 100), 0);  // a hole, no disk space
    refused_path(path, {"header length 104857601"});
}

TEST(Safetensors, AMillionTensorsMeetTheLimit) {
    std::string header = "{";
    for (int i = 0; i < 1000000; i++) {
        header += (i ? ",\"" : "\"") + std::to_string(i) +
                  R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
    }
    TempDir folder;
    const std::string path = folder.file("m.safetensors");
    test::write_file(path, checkpoint(header + "}", 0));
    const auto opened = SafetensorsFile::open(path);
    ASSERT_FALSE(opened.ok());
    EXPECT_THAT(opened.error().message, testing::HasSubstr("more than 250000 tensors"));
}

TEST(Safetensors, EveryDtype) {
    const std::pair<const char*, int> dtypes[] = {
        {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
        {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
        {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};
    std::string header = "{\"__metadata__\":{\"format\":\"pt\",\"b\":\"\\u00e9\\ud83d\\ude00\"}";
    int at = 0;
    for (const auto& [name, bytes] : dtypes) {
        const std::string range = std::to_string(at) + "," + std::to_string(at + 3 * bytes);
        header += std::string(",\"t.") + name + "\":{\"shape\":[1,3],\"dtype\":\"" + name +
                  "\",\"data_offsets\":[" + range + "]}";
        at += 3 * bytes;
    }
    TempDir folder;
    const std::string path = folder.file("m.safetensors");
    test::write_file(path, checkpoint(header + "}   ", static_cast<size_t>(at)));
    const auto opened = SafetensorsFile::open(path);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    const SafetensorsFile& file = **opened;
    ASSERT_EQ(file.tensors().size(), std::size(dtypes));
    for (const auto& [name, bytes] : dtypes) {
        const SafetensorsTensor* t = file.find(std::string("t.") + name);
        ASSERT_TRUE(t) << name;
        EXPECT_EQ(t->dtype, name);
        EXPECT_EQ(t->shape, (std::vector<uint64_t>{1, 3}));
        EXPECT_EQ(t->data.size(), static_cast<size_t>(3 * bytes));
        EXPECT_EQ(t->elements(), 3u);
        if (t->def) {
            EXPECT_EQ(t->def->block_bytes, static_cast<uint32_t>(bytes));
        }
    }
    EXPECT_EQ(file.find("t.BF16")->def, &info(Type::BF16));
    EXPECT_EQ(file.find("t.U8")->def, nullptr);
    EXPECT_EQ(file.find("absent"), nullptr);
    ASSERT_EQ(file.metadata().size(), 2u);
    EXPECT_EQ(file.metadata()[1].second, "\xc3\xa9\xf0\x9f\x98\x80");
    EXPECT_FALSE(file.changed());
    file.drop_pages(file.tensors()[0].data);
}

TEST(Safetensors, ScalarsAndEmptyTensors) {
    TempDir folder;
    const std::string path = folder.file("m.safetensors");
    test::write_file(path, checkpoint(R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                                      R"("e":{"dtype":"F32","shape":[3,0],"data_offsets":[4,4]}})",
                                      4));
    const auto opened = SafetensorsFile::open(path);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_EQ((*opened)->find("s")->elements(), 1u);
    EXPECT_EQ((*opened)->find("e")->elements(), 0u);
    test::write_file(path, checkpoint("{}", 0));
    EXPECT_TRUE(SafetensorsFile::open(path).ok()) << "no tensors is a valid file";
}

// A folder with two shards and an index, parts of which the tests replace.
class Folder : public testing::Test {
  protected:
    void SetUp() override {
        write("model-1.safetensors",
              checkpoint("{" + tensor("a") + "," + tensor("b", 16) + "}", 32));
        write("model-2.safetensors", checkpoint("{" + tensor("c") + "}"));
        index(R"({"a":"model-1.safetensors","b":"model-1.safetensors","c":"model-2.safetensors"})");
    }
    void write(const std::string& name, const std::string& bytes) {
        test::write_file(folder_.file(name), bytes);
    }
    void index(const std::string& map) {
        write("model.safetensors.index.json",
              R"({"metadata":{"total_size":[48,{"x":null}]},"weight_map":)" + map + "}");
    }
    void refused(const std::vector<std::string>& words) { refused_path(folder_.path(), words); }
    TempDir folder_;
};

TEST_F(Folder, OpensShards) {
    const auto opened = SafetensorsFile::open(folder_.path());
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    const SafetensorsFile& file = **opened;
    ASSERT_EQ(file.tensors().size(), 3u);
    EXPECT_EQ(file.find("b")->shard, 0u);
    EXPECT_EQ(file.find("c")->shard, 1u);
    EXPECT_EQ(file.find("c")->data[0], 2);
}

TEST_F(Folder, WithoutIndexTheSingleFileCounts) {
    std::remove(folder_.file("model.safetensors.index.json").c_str());
    refused({"neither model.safetensors nor"});
    write("pytorch_model.bin", "\x80\x02");
    refused({"pickle", "never opened"});
    write("model.safetensors", checkpoint("{" + tensor("only") + "}"));
    const auto opened = SafetensorsFile::open(folder_.path());
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_TRUE((*opened)->find("only"));
}

TEST_F(Folder, IndexMayOnlyNameFilesBesideIt) {
    for (const char* name :
         {"../../etc/passwd", "/etc/passwd", "../x.safetensors", "/x.safetensors",
          "a/b.safetensors", "..\\\\x.safetensors", "model-1.bin", "pytorch_model.bin", "",
          ".safetensors", "a\\u0000.safetensors"}) {
        index(std::string("{\"a\":\"") + name + "\"}");
        refused({"index.json", "is not the name of a .safetensors file beside it"});
    }
}

TEST_F(Folder, IndexAndShardsMustAgree) {
    index(R"({"a":"model-1.safetensors","c":"model-3.safetensors"})");
    refused({"model-3.safetensors", "No such file"});
    index(R"({"a":"model-2.safetensors","c":"model-2.safetensors"})");
    refused({"tensor 'a' is not in 'model-2.safetensors'"});
    index(R"({"a":"model-1.safetensors","z":"model-2.safetensors"})");
    refused({"tensor 'z' is not in 'model-2.safetensors'"});
    index(R"({"a":"model-1.safetensors","a":"model-2.safetensors"})");
    refused({"duplicate tensor 'a'"});
    write("model-2.safetensors", checkpoint("{" + tensor("a") + "}"));
    index(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
    refused({"two shards hold tensor 'a'"});
}

TEST_F(Folder, IndexMustBeWellFormed) {
    const auto raw = [&](const std::string& text, const std::vector<std::string>& words) {
        write("model.safetensors.index.json", text);
        refused(words);
    };
    raw("", {"index.json", "too early"});
    raw("[]", {"index.json", "expected an object"});
    raw("{}", {"index.json", "no weight_map"});
    raw(R"({"weight_map":{}})", {"index.json", "weight_map is empty"});
    raw(R"({"weight_map":{"a":5}})", {"index.json", "file name"});
    raw(R"({"weight_map":{},"weight_map":{}})", {"index.json", "duplicate key 'weight_map'"});
    raw("{\"x\":" + std::string(100000, '['), {"index.json", "nested deeper"});
}

TEST(SafetensorsPath, SaysWhatItIs) {
    TempDir folder;
    refused_path(folder.file("absent"), {"No such file"});
    mkfifo(folder.file("pipe").c_str(), 0644);
    refused_path(folder.file("pipe"), {"not a regular file"});
}

}  // namespace
}  // namespace nib
