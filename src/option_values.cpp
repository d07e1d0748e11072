// SPDX-License-Identifier: MIT
// std::from_chars reads decimal numbers only and reports overflow, which is most of what "strict"
// means here; the rest is refusing leading zeros (octal elsewhere), signs it does not know, and
// anything left over.
#include "src/option_values.h"

#include <charconv>
#include <cmath>
#include <ctime>
#include <limits>

#include <sys/random.h>

namespace nib {
namespace {

constexpr size_t kShownMax = 60;

Error mismatch(const std::string& expected, std::string_view got) {
    return {Status::BadRequest, "expected " + expected + ", got " + shown(got)};
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// "010" and "-01": octal to some programs, so nobody can know what is meant.
bool leading_zero(std::string_view text) {
    if (!text.empty() && text.front() == '-') text.remove_prefix(1);
    return text.size() > 1 && text[0] == '0' && is_digit(text[1]);
}

template <class Number>
bool read_whole(std::string_view text, Number& value) {
    if (leading_zero(text)) return false;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

}  // namespace

std::string shown(std::string_view text) {
    std::string out = "\"";
    for (const char c : text.substr(0, kShownMax)) {
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
    return out + (text.size() > kShownMax ? "...\"" : "\"");
}

Result<int64_t> read_integer(std::string_view text, int64_t low, int64_t high) {
    int64_t value = 0;
    if (read_whole(text, value) && value >= low && value <= high) return value;
    return mismatch("an integer from " + std::to_string(low) + " to " + std::to_string(high), text);
}

Result<float> read_float(std::string_view text) {
    double value = 0;
    if (read_whole(text, value) && std::isfinite(value) &&
        std::fabs(value) <= static_cast<double>(std::numeric_limits<float>::max())) {
        return static_cast<float>(value);
    }
    return mismatch("a number", text);
}

Result<bool> read_switch(std::string_view text) {
    for (const char* on : {"1", "on", "true", "enabled", "yes"}) {
        if (text == on) return true;
    }
    for (const char* off : {"0", "off", "false", "disabled", "no"}) {
        if (text == off) return false;
    }
    return mismatch("on|off", text);
}

uint64_t fresh_seed() {
    uint64_t seed = 0;
    if (getrandom(&seed, 4, 0) != 4) seed = static_cast<uint64_t>(std::time(nullptr));
    return seed;
}

Result<uint64_t> read_seed(std::string_view text) {
    uint64_t value = 0;
    if (read_whole(text, value)) return value;
    return mismatch("-1 or an integer from 0 to 18446744073709551615", text);
}

Result<std::pair<int32_t, float>> read_bias(std::string_view text) {
    const std::string form = "TOKEN+BIAS or TOKEN-BIAS with a bias up to 100 or -inf";
    const size_t sign = text.find_first_of("+-");
    if (sign == std::string_view::npos) return mismatch(form, text);
    const auto id = read_integer(text.substr(0, sign), 0, std::numeric_limits<int32_t>::max());
    if (!id) return mismatch(form, text);
    const auto token = static_cast<int32_t>(id.value());
    const std::string_view number = text.substr(sign + 1);
    if (text[sign] == '-' && number == "inf") {
        return std::pair{token, -std::numeric_limits<float>::infinity()};
    }
    const auto value = read_float(number);
    if (!value || number.front() == '-' || value.value() > 100) return mismatch(form, text);
    return std::pair{token, text[sign] == '-' ? -value.value() : value.value()};
}

std::string unescape(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\' || i + 1 == text.size()) {
            out += text[i];
            continue;
        }
        constexpr std::string_view kFrom = "ntr\\\"'0", kTo{"\n\t\r\\\"'\0", 7};
        const char next = text[i + 1];
        if (const size_t at = kFrom.find(next); at != std::string_view::npos) {
            out += kTo[at];
            ++i;
        } else if (next == 'x' && i + 3 < text.size() && hex_digit(text[i + 2]) >= 0 &&
                   hex_digit(text[i + 3]) >= 0) {
            out += static_cast<char>(hex_digit(text[i + 2]) * 16 + hex_digit(text[i + 3]));
            i += 3;
        } else {
            out += '\\';
        }
    }
    return out;
}

}  // namespace nib
