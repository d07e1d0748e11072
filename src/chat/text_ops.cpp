// SPDX-License-Identifier: MIT
#include "src/chat/text_ops.h"

#include "src/chat/print.h"

#include <algorithm>

namespace nib::jinja {
namespace {

// Ends of lines for str.splitlines(): the length of the one at `at`, or 0.
size_t line_end_length(std::string_view text, size_t at) {
    const Point p = point_at(text, at);
    if (p.code == '\r') return at + 1 < text.size() && text[at + 1] == '\n' ? 2 : 1;
    const bool ends = p.code == '\n' || p.code == 0x0b || p.code == 0x0c ||
                      (p.code >= 0x1c && p.code <= 0x1e) || p.code == 0x85 || p.code == 0x2028 ||
                      p.code == 0x2029;
    return ends ? p.length : 0;
}

}  // namespace

MarkedText strip(const MarkedText& text, Side side, const std::string* chars) {
    const auto drops = [chars, &text](size_t at, const Point& p) {
        if (!chars) return is_space(p.code);
        return chars->find(text.bytes.data() + at, 0, p.length) != std::string::npos;
    };
    size_t begin = 0, end = text.size();
    if (side != Side::Right) {
        while (begin < end) {
            const Point p = point_at(text.bytes, begin);
            if (!drops(begin, p)) break;
            begin += p.length;
        }
    }
    if (side != Side::Left) {
        while (end > begin) {
            const size_t before = previous_point(text.bytes, end);
            if (!drops(before, point_at(text.bytes, before))) break;
            end = before;
        }
    }
    return text.slice(begin, end);
}

// count < 0: all. An empty `from` stands before every point and at the end.
Result<MarkedText> replace(Budget& budget,
                           const MarkedText& text,
                           std::string_view from,
                           const MarkedText& to,
                           int64_t count) {
    if (!budget.spend_bytes(text.size())) return budget.error();
    MarkedText out;
    size_t done = 0, from_at = 0;
    for (int64_t n = 0; count < 0 || n < count; ++n) {
        const size_t at = find_bytes(text.bytes, from, from_at);
        if (at == std::string_view::npos) break;
        if (!budget.spend_bytes(to.size()) || !budget.fits(out.size() + (at - done) + to.size())) {
            return budget.error();
        }
        out.add(text, done, at);
        out.add(to);
        done = at + from.size();
        from_at = done;
        if (!from.empty()) continue;
        if (at >= text.size()) break;
        from_at = at + point_at(text.bytes, at).length;
    }
    if (!budget.fits(out.size() + text.size() - done)) return budget.error();
    out.add(text, done, text.size());
    return out;
}

Result<MarkedText> pad(
    Budget& budget, const MarkedText& text, int64_t width, std::string_view fill, Side text_side) {
    const auto n = static_cast<int64_t>(count_points(text.bytes));
    if (width <= n) return text;
    const int64_t missing = width - n;
    const auto bytes = static_cast<uint64_t>(missing) * std::max<size_t>(fill.size(), 1);
    if (!budget.allow_text(text.size() + bytes)) return budget.error();
    int64_t left = 0;
    if (text_side == Side::Right) left = missing;
    if (text_side == Side::Both) left = missing / 2 + (missing & width & 1);
    MarkedText out;
    for (int64_t i = 0; i < left; ++i)
        out.bytes += fill;
    out.add(text);
    for (int64_t i = left; i < missing; ++i)
        out.bytes += fill;
    return out;
}

Result<MarkedText> join(Evaluator& ev, const MarkedText& between, const std::vector<Value>& items) {
    MarkedText out;
    bool first = true;
    for (const Value& item : items) {
        if (!first) {
            if (!ev.budget().fits(out.size() + between.size()) ||
                !ev.budget().spend_bytes(between.size())) {
                return ev.budget().error();
            }
            out.add(between);
        }
        first = false;
        NIB_TRY(print_str(ev.budget(), item, out));
    }
    return out;
}

std::vector<MarkedText> split_lines(const MarkedText& text) {
    std::vector<MarkedText> lines;
    size_t begin = 0;
    for (size_t at = 0; at < text.size() && lines.size() <= kMostParts;) {
        const size_t n = line_end_length(text.bytes, at);
        if (n == 0) {
            at += point_at(text.bytes, at).length;
            continue;
        }
        lines.push_back(text.slice(begin, at));
        at += n;
        begin = at;
    }
    if (begin < text.size()) lines.push_back(text.slice(begin, text.size()));
    return lines;
}

MarkedText escape_html(const MarkedText& text) {
    static constexpr std::string_view kFrom = "&<>\"'";
    static constexpr std::string_view kTo[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    MarkedText out;
    MarkCursor cursor(text);
    for (size_t at = 0; at < text.size();) {
        const size_t stop = std::min(text.bytes.find_first_of(kFrom, at), text.size());
        out.add(text, at, stop);
        at = stop;
        if (at >= text.size()) break;
        out.add(kTo[kFrom.find(text.bytes[at])], cursor.is_data(at));
        ++at;
    }
    return out;
}

MarkedText url_quote(const MarkedText& text, bool for_query) {
    static const char* const kHex = "0123456789ABCDEF";
    MarkedText out;
    MarkCursor cursor(text);
    for (size_t at = 0; at < text.size(); ++at) {
        const auto c = static_cast<unsigned char>(text.bytes[at]);
        const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' ||
                              c == '~' || (c == '/' && !for_query);
        const char quoted[3] = {'%', kHex[c >> 4], kHex[c & 15]};
        if (is_plain) {
            out.add(std::string_view(text.bytes).substr(at, 1), cursor.is_data(at));
        } else if (for_query && c == ' ') {
            out.add("+", cursor.is_data(at));
        } else {
            out.add(std::string_view(quoted, 3), cursor.is_data(at));
        }
    }
    return out;
}

}  // namespace nib::jinja
