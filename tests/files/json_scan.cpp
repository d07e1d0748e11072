// SPDX-License-Identifier: MIT
// The JSON grammar, accepted and refused; strings decoded; depth bounded.
#include "ggml-like/files/json_scan.h"

#include <gtest/gtest.h>

namespace nib {
namespace {

// The tokens in one line: containers as they are, texts in angle brackets; or the error.
std::string scan(std::string_view text) {
    JsonScanner json(text);
    std::string out;
    for (;;) {
        const Result<JsonToken> token = json.next();
        if (!token.ok()) return "error: " + token.error().message;
        switch (token->kind) {
        case JsonKind::ObjectBegin:
            out += "{";
            break;
        case JsonKind::ObjectEnd:
            out += "}";
            break;
        case JsonKind::ArrayBegin:
            out += "[";
            break;
        case JsonKind::ArrayEnd:
            out += "]";
            break;
        case JsonKind::Key:
            out += "<" + token->text + ">:";
            break;
        case JsonKind::End:
            return out;
        default:
            out += "<" + token->text + ">";
            break;
        }
    }
}

TEST(JsonScan, AcceptsTheGrammar) {
    EXPECT_EQ(scan("{}"), "{}");
    EXPECT_EQ(scan(" [ ] \n"), "[]");
    EXPECT_EQ(scan(R"({"a":1,"b":[true,false,null,{"c":"d"}],"e":{}})"),
              "{<a>:<1><b>:[<true><false><null>{<c>:<d>}]<e>:{}}");
    EXPECT_EQ(scan("[0,-0,1.5,-2e+10,1E-5,123456789012345678901234567890]"),
              "[<0><-0><1.5><-2e+10><1E-5><123456789012345678901234567890>]");
    EXPECT_EQ(scan("\"alone\""), "<alone>");
    EXPECT_EQ(scan(R"("\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud83d\ude00")"),
              "<\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80>");
}

TEST(JsonScan, RefusesEverythingElse) {
    for (const char* text : {"",
                             " ",
                             "{",
                             "}",
                             "[",
                             "]",
                             "{]",
                             "[}",
                             "[1,]",
                             "[,1]",
                             "[1 2]",
                             "{\"a\"}",
                             "{\"a\":}",
                             "{\"a\":1,}",
                             "{,}",
                             "{1:2}",
                             "{\"a\" 1}",
                             "{\"a\":1 \"b\":2}",
                             "{} {}",
                             "1 2",
                             "tru",
                             "True",
                             "nul",
                             "NaN",
                             "Infinity",
                             "+1",
                             "01",
                             "-",
                             "1.",
                             ".5",
                             "1e",
                             "1e+",
                             "0x10",
                             "'a'",
                             "\"a",
                             "\"a\\",
                             "\"\\x\"",
                             "\"\\u12\"",
                             "\"\\u12g4\"",
                             "\"\\ud800\"",
                             "\"\\ud800\\u0041\"",
                             "\"\\udc00\"",
                             "\"a\nb\"",
                             "\"\x01\"",
                             "\"\xff\"",
                             "\"\xc0\x80\"",
                             "\"\xed\xa0\x80\"",
                             "\"\xf5\x80\x80\x80\"",
                             "\"\xe2\x82\"",
                             "/* c */ 1",
                             "\xef\xbb\xbf{}",
                             "[\f]"}) {
        EXPECT_TRUE(scan(text).starts_with("error: JSON byte ")) << text << " gave " << scan(text);
    }
}

TEST(JsonScan, DepthIsBounded) {
    const auto deep = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
    EXPECT_EQ(scan(deep(JsonScanner::kDepthMax)), deep(JsonScanner::kDepthMax));
    EXPECT_TRUE(scan(deep(JsonScanner::kDepthMax + 1)).starts_with("error: "));
    EXPECT_TRUE(scan(std::string(1000000, '[')).starts_with("error: "));
}

TEST(JsonScan, SkipsWholeValues) {
    JsonScanner json(R"({"a":{"b":[1,{"c":2}]},"d":"x","e":3})");
    ASSERT_TRUE(json.expect(JsonKind::ObjectBegin, "an object").ok());
    for (const char* key : {"a", "d", "e"}) {
        const Result<JsonToken> found = json.key();
        ASSERT_TRUE(found.ok());
        EXPECT_EQ(found->text, key);
        const Result<JsonToken> value = json.next();
        ASSERT_TRUE(value.ok());
        ASSERT_TRUE(json.skip(*value).ok());
    }
    EXPECT_EQ(json.key()->kind, JsonKind::ObjectEnd);
    EXPECT_EQ(json.next()->kind, JsonKind::End);
}

TEST(JsonScan, WholeNumbers) {
    EXPECT_EQ(*JsonScanner::whole("x", {JsonKind::Number, "18446744073709551615"}), ~uint64_t{0});
    for (const char* text : {"-1", "1.0", "1e3", "18446744073709551616", "-0"}) {
        EXPECT_FALSE(JsonScanner::whole("x", {JsonKind::Number, text}).ok()) << text;
    }
    EXPECT_FALSE(JsonScanner::whole("x", {JsonKind::String, "5"}).ok());
}

}  // namespace
}  // namespace nib
