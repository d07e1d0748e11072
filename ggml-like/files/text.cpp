// SPDX-License-Identifier: MIT
#include "ggml-like/files/text.h"

#include <cstdint>

namespace nib {
namespace {

// Bytes of the character that starts at `at`; 0 if it is not well formed.
size_t character_bytes(std::string_view text, size_t at) {
    const auto byte = [&](size_t i) -> uint32_t {
        return at + i < text.size() ? static_cast<uint8_t>(text[at + i]) : 0;
    };
    const uint32_t first = byte(0);
    if (first < 0x80) return 1;
    const size_t n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4) return 0;
    uint32_t code = first & (0x7f >> n);
    for (size_t i = 1; i < n; i++) {
        if ((byte(i) & 0xc0) != 0x80) return 0;
        code = code << 6 | (byte(i) & 0x3f);
    }
    const bool overlong = (n == 3 && code < 0x800) || (n == 4 && code < 0x10000);
    const bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return overlong || surrogate || code > 0x10ffff ? 0 : n;
}

}  // namespace

bool is_utf8(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        const size_t n = character_bytes(text, at);
        if (n == 0) return false;
        at += n;
    }
    return true;
}

std::string printable(std::string_view text, size_t max_bytes) {
    static constexpr char kHex[] = "0123456789abcdef";
    std::string out;
    for (size_t at = 0; at < text.size();) {
        if (at >= max_bytes) return out + "...";
        const size_t n = character_bytes(text, at);
        const auto byte = static_cast<uint8_t>(text[at]);
        // U+0080..U+009f are controls too; terminals obey some of them.
        const bool control = byte < 0x20 || byte == 0x7f ||
                             (n == 2 && byte == 0xc2 && static_cast<uint8_t>(text[at + 1]) < 0xa0);
        if (n == 0 || control) {
            out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
            at++;
        } else {
            out += text.substr(at, n);
            at += n;
        }
    }
    return out;
}

std::string quoted(std::string_view text) {
    return join({"'", printable(text, 100), "'"});
}

std::string join(std::initializer_list<std::string_view> parts) {
    std::string out;
    for (const std::string_view part : parts)
        out += part;
    return out;
}

}  // namespace nib
