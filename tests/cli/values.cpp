// SPDX-License-Identifier: MIT
// Readers of flag values, and what is done to text before it reaches a terminal.
#include "src/cli/output.h"
#include "src/option_help.h"
#include "src/option_values.h"
#include "tests/cli/helpers.h"

#include <cmath>

namespace nib::test {
namespace {

TEST(Values, Integers) {
    EXPECT_EQ(read_integer("-5", -9, 9).value(), -5);
    EXPECT_EQ(read_integer("0", 0, 9).value(), 0);
    for (const char* bad : {"", "-", "+1", "01", "-01", "0x1", "1.0", "1e1", "10", " 1", "1 ",
                            "99999999999999999999"}) {
        const auto value = read_integer(bad, -9, 9);
        ASSERT_FALSE(value.ok()) << bad;
        EXPECT_EQ(value.error().message,
                  std::string("expected an integer from -9 to 9, got \"") + bad + "\"");
    }
}

TEST(Values, Floats) {
    EXPECT_FLOAT_EQ(read_float("1e3").value(), 1000);
    EXPECT_FLOAT_EQ(read_float("-0.5").value(), -0.5f);
    for (const char* bad :
         {"", "nan", "inf", "-inf", "infinity", "1e39", "0x1p3", "1f", "1,5", "1e999"}) {
        EXPECT_FALSE(read_float(bad).ok()) << bad;
    }
}

TEST(Values, SeedsAndBiases) {
    EXPECT_EQ(read_seed("18446744073709551615").value(), ~uint64_t{0});
    EXPECT_FALSE(read_seed("-1").ok());
    EXPECT_EQ(read_bias("15043+1.5").value(), (std::pair<int32_t, float>{15043, 1.5f}));
    EXPECT_EQ(read_bias("7-2").value(), (std::pair<int32_t, float>{7, -2.0f}));
    EXPECT_TRUE(std::isinf(read_bias("7-inf").value().second));
    for (const char* bad : {"7", "x+1", "7+", "7+x", "7+inf", "7+nan", "7--1", "7+101", "-7+1"}) {
        EXPECT_FALSE(read_bias(bad).ok()) << bad;
    }
}

TEST(Values, Escapes) {
    EXPECT_EQ(unescape("a\\n\\t\\\\\\\"\\x41\\0b"), std::string("a\n\t\\\"A\0b", 8));
    EXPECT_EQ(unescape("\\q \\x4 \\xg1 \\"), "\\q \\x4 \\xg1 \\");
}

TEST(Values, Shown) {
    EXPECT_EQ(shown("a\n\x1b"), "\"a??\"");
    EXPECT_LT(shown(std::string(10000, 'x')).size(), 80u);
}

TEST(Nearest, NamesOneEditForEveryThirdLetter) {
    const std::vector<std::string> known = {"--temp", "--ctx-size", "-l", "--json"};
    EXPECT_EQ(nearest("--tmep", known), "--temp");
    EXPECT_EQ(nearest("--ctxsize", known), "--ctx-size");
    EXPECT_EQ(nearest("--jsn", known), "--json");
    EXPECT_EQ(nearest("-ngl", known), "");
    EXPECT_EQ(nearest("--something", known), "");
}

TEST(Printable, ModelTextCannotSteerTheTerminal) {
    EXPECT_EQ(printable("a\x1b[31mb\x07\r\x7f\n\tc"), "a[31mb\n\tc");
    EXPECT_EQ(printable("x\xc2\x9b"
                        "31my"),
              "x31my");  // CSI as one character
    EXPECT_EQ(printable("\xc2\xa0\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
              "\xc2\xa0\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    EXPECT_EQ(printable(std::string_view("a\0b", 3)), "ab");
}

TEST(Color, TheFlagDecidesLast) {
    EXPECT_TRUE(use_color(When::On));
    EXPECT_FALSE(use_color(When::Off));
}

}  // namespace
}  // namespace nib::test
