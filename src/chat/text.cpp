// SPDX-License-Identifier: MIT
// Marks move with bytes here, and utf8proc's tables answer what Python's unicodedata would. Simple
// case mappings come from the library; the one-to-many ones that texts really contain are listed
// below.
#include "src/chat/text.h"

#include <algorithm>

#include <utf8proc.h>

namespace nib::jinja {
namespace {

struct SpecialUpper {
    uint32_t code;
    const char* upper;
    const char* title;
};
// Letters whose upper or title case is more than one letter.
constexpr SpecialUpper kSpecialUpper[] = {
    {0xdf, "SS", "Ss"},
    {0x149, "\xca\xbcN", "\xca\xbcN"},
    {0x1f0, "J\xcc\x8c", "J\xcc\x8c"},
    {0x390, "\xce\x99\xcc\x88\xcc\x81", "\xce\x99\xcc\x88\xcc\x81"},
    {0x3b0, "\xce\xa5\xcc\x88\xcc\x81", "\xce\xa5\xcc\x88\xcc\x81"},
    {0x587, "\xd4\xb5\xd5\x92", "\xd4\xb5\xd6\x82"},
    {0x1e96, "H\xcc\xb1", "H\xcc\xb1"},
    {0x1e97, "T\xcc\x88", "T\xcc\x88"},
    {0x1e98, "W\xcc\x8a", "W\xcc\x8a"},
    {0x1e99, "Y\xcc\x8a", "Y\xcc\x8a"},
    {0x1e9a, "A\xca\xbe", "A\xca\xbe"},
    {0xfb00, "FF", "Ff"},
    {0xfb01, "FI", "Fi"},
    {0xfb02, "FL", "Fl"},
    {0xfb03, "FFI", "Ffi"},
    {0xfb04, "FFL", "Ffl"},
    {0xfb05, "ST", "St"},
    {0xfb06, "ST", "St"},
};

utf8proc_category_t category(uint32_t code) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

bool is_cased(uint32_t code) {
    const utf8proc_category_t c = category(code);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}

// A capital sigma at the end of a word becomes the final small sigma.
bool is_final_sigma(std::string_view text, size_t at) {
    const auto skip = [](uint32_t code) {
        const utf8proc_category_t c = category(code);
        return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_CF || code == '\'' ||
               code == 0x2019 || c == UTF8PROC_CATEGORY_LM || code == '.' || code == ':';
    };
    size_t before = at;
    bool cased_before = false;
    while (before > 0) {
        before = previous_point(text, before);
        const uint32_t code = point_at(text, before).code;
        if (skip(code)) continue;
        cased_before = is_cased(code);
        break;
    }
    if (!cased_before) return false;
    for (size_t after = at + point_at(text, at).length; after < text.size();) {
        const Point p = point_at(text, after);
        if (!skip(p.code)) return !is_cased(p.code);
        after += p.length;
    }
    return true;
}

void append_cased_at(
    std::string& out, std::string_view text, size_t at, uint32_t code, Casing casing) {
    if (casing == Casing::Lower && code == 0x3a3 && is_final_sigma(text, at)) {
        append_point(out, 0x3c2);
    } else {
        append_cased(out, code, casing);
    }
}

// Maps each point by what `choose` says for it.
template <class Choose>
MarkedText map_case(const MarkedText& text, Choose choose) {
    MarkedText out;
    out.bytes.reserve(text.size());
    MarkCursor cursor(text);
    std::string mapped;
    for (size_t at = 0; at < text.size();) {
        const Point p = point_at(text.bytes, at);
        mapped.clear();
        append_cased_at(mapped, text.bytes, at, p.code, choose(p.code));
        out.add(mapped, cursor.is_data(at));
        at += p.length;
    }
    return out;
}

}  // namespace

void MarkedText::mark(size_t begin, size_t end) {
    if (begin >= end) return;
    if (!data.empty() && data.back().end >= begin) {
        data.back().end = std::max(data.back().end, end);
    } else {
        data.push_back({begin, end});
    }
}

void MarkedText::add(std::string_view text, bool is_data) {
    const size_t start = bytes.size();
    bytes.append(text);
    if (is_data) mark(start, bytes.size());
}

void MarkedText::add(const MarkedText& text) {
    add(text, 0, text.size());
}

void MarkedText::add(const MarkedText& text, size_t begin, size_t end) {
    const size_t start = bytes.size();
    bytes.append(text.bytes, begin, end - begin);
    if (text.data.empty()) return;
    auto run = std::lower_bound(text.data.begin(), text.data.end(), begin,
                                [](const Run& r, size_t at) { return r.end <= at; });
    for (; run != text.data.end() && run->begin < end; ++run) {
        mark(start + std::max(run->begin, begin) - begin, start + std::min(run->end, end) - begin);
    }
}

MarkedText MarkedText::slice(size_t begin, size_t end) const {
    MarkedText out;
    out.add(*this, begin, end);
    return out;
}

Point point_at(std::string_view text, size_t at) {
    const auto byte = [&](size_t i) -> uint32_t {
        return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0x80u;
    };
    const uint32_t lead = byte(0);
    if (lead < 0x80) return {lead, 1};
    if (lead < 0xe0) return {(lead & 0x1f) << 6 | (byte(1) & 0x3f), 2};
    if (lead < 0xf0) {
        return {(lead & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
    }
    return {(lead & 7) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f),
            4};
}

size_t previous_point(std::string_view text, size_t at) {
    do {
        --at;
    } while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
    return at;
}

size_t count_points(std::string_view text) {
    size_t n = 0;
    for (const char c : text)
        n += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    return n;
}

size_t byte_of_point(std::string_view text, size_t point) {
    size_t at = 0;
    while (point > 0 && at < text.size()) {
        at += point_at(text, at).length;
        --point;
    }
    return std::min(at, text.size());
}

void append_point(std::string& out, uint32_t code) {
    utf8proc_uint8_t bytes[4];
    const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(n));
}

size_t first_invalid_utf8(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        if (static_cast<unsigned char>(text[at]) < 0x80) {
            ++at;
            continue;
        }
        utf8proc_int32_t code = 0;
        const auto* from = reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at;
        const auto n =
            utf8proc_iterate(from, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
        if (n <= 0) return at;
        at += static_cast<size_t>(n);
    }
    return std::string_view::npos;
}

bool is_space(uint32_t code) {
    if (code <= 0x20)
        return code == 0x20 || (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x1f);
    if (code < 0x85) return false;
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
           code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool is_printable(uint32_t code) {
    if (code == 0x20) return true;
    switch (category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

bool is_alpha(uint32_t code) {
    const utf8proc_category_t c = category(code);
    return is_cased(code) || c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_LO;
}

bool is_decimal(uint32_t code) {
    return category(code) == UTF8PROC_CATEGORY_ND || code == 0xb2 || code == 0xb3 || code == 0xb9 ||
           code == 0x2070 || (code >= 0x2074 && code <= 0x2079) ||
           (code >= 0x2080 && code <= 0x2089);
}

bool is_numeric(uint32_t code) {
    const utf8proc_category_t c = category(code);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool is_upper(uint32_t code) {
    return category(code) == UTF8PROC_CATEGORY_LU;
}

bool is_lower(uint32_t code) {
    return category(code) == UTF8PROC_CATEGORY_LL || code == 0xaa || code == 0xba;
}

bool is_word(uint32_t code) {
    return code == '_' || is_alpha(code) || is_numeric(code);
}

void append_cased(std::string& out, uint32_t code, Casing casing) {
    if (code < 0x80) {
        const auto c = static_cast<char>(code);
        const bool lower = c >= 'a' && c <= 'z';
        const bool upper = c >= 'A' && c <= 'Z';
        if (casing == Casing::Lower) {
            out.push_back(upper ? static_cast<char>(c + 32) : c);
        } else {
            out.push_back(lower ? static_cast<char>(c - 32) : c);
        }
        return;
    }
    const auto point = static_cast<utf8proc_int32_t>(code);
    if (casing == Casing::Lower) {
        if (code == 0x130) {
            out.append("i\xcc\x87");
        } else {
            append_point(out, static_cast<uint32_t>(utf8proc_tolower(point)));
        }
        return;
    }
    for (const SpecialUpper& special : kSpecialUpper) {
        if (special.code != code) continue;
        out.append(casing == Casing::Upper ? special.upper : special.title);
        return;
    }
    append_point(out, static_cast<uint32_t>(casing == Casing::Upper ? utf8proc_toupper(point)
                                                                    : utf8proc_totitle(point)));
}

MarkedText change_case(const MarkedText& text, Casing casing) {
    return map_case(text, [casing](uint32_t) { return casing; });
}

MarkedText capitalize(const MarkedText& text) {
    bool first = true;
    return map_case(text, [&first](uint32_t) {
        const Casing casing = first ? Casing::Title : Casing::Lower;
        first = false;
        return casing;
    });
}

MarkedText title(const MarkedText& text) {
    bool in_word = false;
    return map_case(text, [&in_word](uint32_t code) {
        const Casing casing = in_word ? Casing::Lower : Casing::Title;
        in_word = is_cased(code);
        return casing;
    });
}

}  // namespace nib::jinja
