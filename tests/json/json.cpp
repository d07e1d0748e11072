// SPDX-License-Identifier: MIT
// parse_json: what it accepts, what it refuses and where; dump_json.
#include "src/json/json.h"

#include <chrono>

#include <gtest/gtest.h>

namespace nib {
namespace {

std::string round_trip(std::string_view text) {
    const Result<Json> parsed = parse_json(text);
    return parsed.ok() ? dump_json(*parsed) : "ERROR " + parsed.error().message;
}

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
    const Result<Json> parsed = parse_json(text, limits);
    if (parsed.ok()) return "no error";
    EXPECT_EQ(parsed.error().status, Status::BadRequest);
    EXPECT_EQ(parsed.error().message.find('\n'), std::string::npos);
    return parsed.error().message;
}

TEST(Json, KeepsValuesAndTheOrderOfKeys) {
    EXPECT_EQ(round_trip(" {\"b\" : 1, \"a\":[true,false,null, {}, []]}\n"),
              "{\"b\":1,\"a\":[true,false,null,{},[]]}");
    EXPECT_EQ(round_trip("\"text\""), "\"text\"");
    EXPECT_EQ(round_trip("-0"), "0");
    EXPECT_EQ(round_trip("[1.0,-2.5e3,1E+2,0.1]"), "[1.0,-2500.0,100.0,0.1]");
}

TEST(Json, NumbersKeepTheirKind) {
    EXPECT_TRUE(parse_json("1")->is_number_integer());
    EXPECT_TRUE(parse_json("1.0")->is_number_float());
    EXPECT_EQ(parse_json("18446744073709551615")->get<uint64_t>(), 18446744073709551615u);
    EXPECT_EQ(parse_json("-9223372036854775808")->get<int64_t>(), INT64_MIN);
    EXPECT_TRUE(parse_json("18446744073709551616")->is_number_float());
    EXPECT_EQ(parse_json("1e-999")->get<double>(), 0.0);
    EXPECT_EQ(parse_json("0." + std::string(400, '0') + "1")->get<double>(), 0.0);
    EXPECT_EQ(parse_json("5e-324")->get<double>(), 5e-324);
}

TEST(Json, RefusesNumbersThatDoNotFit) {
    EXPECT_EQ(error_of("[1e999]"), "JSON, byte 1: the number does not fit a double");
    EXPECT_NE(error_of("1e39e"), "no error");
    EXPECT_NE(error_of("-1e400"), "no error");
    EXPECT_NE(error_of(std::string(400, '9')), "no error");
    for (const char* text : {"NaN", "Infinity", "-", "+1", "01", "1.", ".5", "1e", "0x10", "-a"}) {
        EXPECT_NE(error_of(text), "no error") << text;
    }
}

TEST(Json, RefusesBrokenStructure) {
    EXPECT_EQ(error_of(""), "JSON, byte 0: expected a value, got the end");
    EXPECT_EQ(error_of("{}x"), "JSON, byte 2: expected the end, got 'x'");
    EXPECT_EQ(error_of("[1 2]"), "JSON, byte 3: expected ',' or ']', got '2'");
    for (const char* text :
         {"[", "[1,", "[1,]", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,}", "{1:2}", "]",
          "tru", "nul", "\"abc", "\"\\q\"", "\"\\u12\"", "\"\\", "[}", "{]"}) {
        EXPECT_NE(error_of(text), "no error") << text;
    }
}

TEST(Json, RefusesRepeatedKeys) {
    EXPECT_EQ(error_of("{\"a\":1,\"\\u0061\":2}"),
              "JSON, byte 7: the key is in this object already");
    EXPECT_EQ(round_trip("[{\"a\":1},{\"a\":2}]"), "[{\"a\":1},{\"a\":2}]");
}

TEST(Json, StringsAreValidUtf8) {
    EXPECT_EQ(round_trip("\"\\u00e9\\ud83d\\ude00\\n\\u0000\""),
              "\"\xc3\xa9\xf0\x9f\x98\x80\\n\\u0000\"");
    EXPECT_EQ(parse_json("\"\\u0000\"")->get<std::string>(), std::string(1, '\0'));
    for (const char* text : {"\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"",
                             "\"\xe0\x80\x80\"", "\"\xc3\"", "\"\xf0\x9f\x98\"", "\"\\ud800\"",
                             "\"\\ude00\"", "\"\\ud800\\u0041\"", "\"a\nb\"", "\"a\tb\""}) {
        EXPECT_NE(error_of(text), "no error") << text;
    }
    const std::string utf16("{\0}\0", 4);
    EXPECT_NE(error_of(utf16), "no error");
}

TEST(Json, AcceptsAByteOrderMark) {
    EXPECT_EQ(round_trip("\xef\xbb\xbf[1]"), "[1]");
}

TEST(Json, Limits) {
    const auto nested = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
    EXPECT_TRUE(parse_json(nested(128)).ok());
    EXPECT_EQ(error_of(nested(129)), "JSON, byte 128: nested deeper than 128");
    EXPECT_NE(error_of(std::string(1'000'000, '[')), "no error");
    JsonLimits limits;
    limits.values = 3;
    EXPECT_TRUE(parse_json("[1,2]", limits).ok());
    EXPECT_NE(error_of("[1,2,3]", limits), "no error");
    limits = {};
    limits.string_bytes = 4;
    EXPECT_TRUE(parse_json("\"abcd\"", limits).ok());
    EXPECT_NE(error_of("\"abcde\"", limits), "no error");
    EXPECT_NE(error_of("{\"abcde\":1}", limits), "no error");
}

TEST(Json, ManyKeysAreReadInTime) {
    std::string text = "{";
    for (int i = 0; i < 200'000; ++i)
        text += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":1";
    text += "}";
    const auto start = std::chrono::steady_clock::now();
    const Result<Json> parsed = parse_json(text);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed->size(), 200'000u);
    EXPECT_LT(took.count(), 5.0);
}

TEST(Json, EveryPrefixIsAnErrorOrAValue) {
    const std::string text =
        "{\"a\":[1.5e3,\"x\\u00e9\\n\",true,null,{\"b\":-1}],\"c\":\"\xc3\xa9\"}";
    for (size_t n = 0; n < text.size(); ++n) {
        EXPECT_FALSE(parse_json(std::string_view(text).substr(0, n)).ok()) << n;
    }
    EXPECT_TRUE(parse_json(text).ok());
}

TEST(Json, DumpReplacesInvalidUtf8AndIndents) {
    EXPECT_EQ(dump_json(Json(std::string("a\xff"))), "\"a\xef\xbf\xbd\"");
    EXPECT_EQ(dump_json(Json{{"a", Json::array({1})}}, 2), "{\n  \"a\": [\n    1\n  ]\n}");
}

}  // namespace
}  // namespace nib
