// SPDX-License-Identifier: MIT
// The methods of str. Positions that Python counts in code points are counted so here.
#include "src/chat/builtins_impl.h"
#include "src/chat/print.h"
#include "src/chat/text_ops.h"

#include <algorithm>

namespace nib::jinja {
namespace {

using Texts = std::vector<MarkedText>;

// None as a value means the same as no value at all.
const Value* given(const Bound& bound, size_t i) {
    const Value* value = bound.get(i);
    return value && !value->is_none() ? value : nullptr;
}

Result<Value> strip_side(Evaluator& ev, const Value& self, Args& args, Side side) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"chars"}, 0));
    std::string chars;
    if (given(bound, 0)) {
        NIB_ASSIGN(chars, bound.text(0, ""));
    }
    const uint64_t work = self.text().size() * (1 + chars.size() / 32);
    if (!ev.budget().spend_bytes(work)) return ev.budget().error();
    return ev.text(strip(self.text(), side, given(bound, 0) ? &chars : nullptr));
}

Result<Value> method_strip(Evaluator& ev, const Value& self, Args& args) {
    return strip_side(ev, self, args, Side::Both);
}
Result<Value> method_lstrip(Evaluator& ev, const Value& self, Args& args) {
    return strip_side(ev, self, args, Side::Left);
}
Result<Value> method_rstrip(Evaluator& ev, const Value& self, Args& args) {
    return strip_side(ev, self, args, Side::Right);
}

// Words between white space. max < 0: all; the rest keeps its inner white space.
Texts split_words(const MarkedText& text, int64_t max) {
    Texts out;
    size_t at = 0;
    const auto skip = [&](bool space) {
        while (at < text.size()) {
            const Point p = point_at(text.bytes, at);
            if (is_space(p.code) != space) break;
            at += p.length;
        }
    };
    while (true) {
        skip(true);
        if (at >= text.size() || out.size() > kMostParts) return out;
        if (max >= 0 && static_cast<int64_t>(out.size()) >= max) {
            out.push_back(text.slice(at, text.size()));
            return out;
        }
        const size_t begin = at;
        skip(false);
        out.push_back(text.slice(begin, at));
    }
}

Texts rsplit_words(const MarkedText& text, int64_t max) {
    Texts out;
    size_t end = text.size();
    const auto skip = [&](bool space) {
        while (end > 0) {
            const size_t before = previous_point(text.bytes, end);
            if (is_space(point_at(text.bytes, before).code) != space) break;
            end = before;
        }
    };
    while (true) {
        skip(true);
        if (end == 0 || out.size() > kMostParts) break;
        if (static_cast<int64_t>(out.size()) >= max) {
            out.push_back(text.slice(0, end));
            break;
        }
        const size_t stop = end;
        skip(false);
        out.push_back(text.slice(end, stop));
    }
    std::reverse(out.begin(), out.end());
    return out;
}

Texts split_at(const MarkedText& text, std::string_view separator, int64_t max) {
    Texts out;
    size_t begin = 0;
    while ((max < 0 || static_cast<int64_t>(out.size()) < max) && out.size() <= kMostParts) {
        const size_t at = find_bytes(text.bytes, separator, begin);
        if (at == std::string_view::npos) break;
        out.push_back(text.slice(begin, at));
        begin = at + separator.size();
    }
    out.push_back(text.slice(begin, text.size()));
    return out;
}

Texts rsplit_at(const MarkedText& text, std::string_view separator, int64_t max) {
    Texts out;
    size_t end = text.size();
    while (static_cast<int64_t>(out.size()) < max && end >= separator.size() &&
           out.size() <= kMostParts) {
        const size_t at = text.bytes.rfind(separator, end - separator.size());
        if (at == std::string::npos) break;
        out.push_back(text.slice(at + separator.size(), end));
        end = at;
    }
    out.push_back(text.slice(0, end));
    std::reverse(out.begin(), out.end());
    return out;
}

Result<Value> list_of_texts(Evaluator& ev, Texts texts) {
    if (texts.size() > kMostParts) return bad("the text has too many parts");
    if (!ev.budget().allow_values(texts.size())) return ev.budget().error();
    std::vector<Value> items;
    items.reserve(texts.size());
    for (MarkedText& text : texts)
        items.push_back(make_text(&ev.budget(), std::move(text)));
    return make_list(ev.budget(), std::move(items));
}

Result<Value> split_from(Evaluator& ev, const Value& self, Args& args, bool from_right) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"sep", "maxsplit"}, 0));
    NIB_ASSIGN(const int64_t max, bound.integer(1, -1));
    const MarkedText& text = self.text();
    if (!ev.budget().spend_bytes(2 * text.size())) return ev.budget().error();
    const bool right = from_right && max >= 0;
    if (!given(bound, 0)) {
        return list_of_texts(ev, right ? rsplit_words(text, max) : split_words(text, max));
    }
    NIB_ASSIGN(const std::string separator, bound.text(0, ""));
    if (separator.empty()) return bad("split: the separator is empty");
    if (right && !ev.budget().spend(text.size() / 32 * separator.size()))
        return ev.budget().error();
    return list_of_texts(ev,
                         right ? rsplit_at(text, separator, max) : split_at(text, separator, max));
}

Result<Value> method_split(Evaluator& ev, const Value& self, Args& args) {
    return split_from(ev, self, args, false);
}
Result<Value> method_rsplit(Evaluator& ev, const Value& self, Args& args) {
    return split_from(ev, self, args, true);
}

Result<Value> method_splitlines(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"keepends"}, 0));
    if (!ev.budget().spend_bytes(2 * self.text().size())) return ev.budget().error();
    Texts lines = split_lines(self.text());
    if (bound.truth(0, false)) {
        size_t at = 0;
        for (size_t i = 0; i < lines.size(); ++i) {
            const size_t begin = at;
            at += lines[i].size();
            if (at < self.text().size()) {
                const size_t n = point_at(self.bytes(), at).length;
                at += self.bytes().compare(at, 2, "\r\n") == 0 ? 2 : n;
            }
            lines[i] = self.text().slice(begin, at);
        }
    }
    return list_of_texts(ev, std::move(lines));
}

Result<Value> method_partition(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"sep"}, 1));
    NIB_ASSIGN(const std::string separator, bound.text(0, ""));
    if (separator.empty()) return bad("partition: the separator is empty");
    const MarkedText& text = self.text();
    if (!ev.budget().spend_bytes(text.size())) return ev.budget().error();
    const size_t found = find_bytes(text.bytes, separator);
    const size_t at = std::min(found, text.size());
    const size_t after = found == std::string_view::npos ? at : at + separator.size();
    std::vector<Value> parts = {make_text(&ev.budget(), text.slice(0, at)),
                                make_text(&ev.budget(), text.slice(at, after)),
                                make_text(&ev.budget(), text.slice(after, text.size()))};
    return make_list(ev.budget(), std::move(parts), Kind::Tuple);
}

// The part of self that optional start and stop (in points) choose.
Result<std::pair<size_t, size_t>> window(const Value& self, const Bound& bound) {
    const auto n = static_cast<int64_t>(self.text_object().n_points);
    int64_t limits[2] = {0, n};
    for (size_t i = 0; i < 2; ++i) {
        if (!given(bound, i + 1)) continue;
        NIB_ASSIGN(const int64_t x, bound.integer(i + 1, 0));
        limits[i] = x < 0 ? std::max<int64_t>(x < -n ? 0 : x + n, 0) : std::min(x, n + (i == 0));
    }
    const auto byte = [&](int64_t point) {
        return byte_of_point(self.bytes(), static_cast<size_t>(point));
    };
    if (limits[0] > n || limits[0] > limits[1]) return std::pair<size_t, size_t>{1, 0};
    return std::pair<size_t, size_t>{byte(limits[0]), byte(limits[1])};
}

Result<Value> affix(Evaluator& ev, const Value& self, Args& args, bool at_start) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"affix", "start", "end"}, 1));
    NIB_ASSIGN(const auto range, window(self, bound));
    if (!ev.budget().spend_bytes(self.text().size() / 8)) return ev.budget().error();
    std::vector<Value> candidates = {*bound.get(0)};
    if (bound.get(0)->is(Kind::Tuple)) candidates = bound.get(0)->items();
    if (!ev.budget().spend(candidates.size())) return ev.budget().error();
    for (const Value& candidate : candidates) {
        if (!candidate.is_string()) {
            return bad("expected a string or a tuple of strings, got " + type_name(candidate));
        }
        if (range.first > range.second) continue;
        const std::string_view text =
            std::string_view(self.bytes()).substr(range.first, range.second - range.first);
        const std::string& part = candidate.bytes();
        if (at_start ? text.starts_with(part) : text.ends_with(part)) return Value::boolean(true);
    }
    return Value::boolean(false);
}

Result<Value> method_startswith(Evaluator& ev, const Value& self, Args& args) {
    return affix(ev, self, args, true);
}
Result<Value> method_endswith(Evaluator& ev, const Value& self, Args& args) {
    return affix(ev, self, args, false);
}

Result<Value> method_replace(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"old", "new", "count"}, 2));
    if (!bound.get(0)->is_string() || !bound.get(1)->is_string()) {
        return bad("replace: expected two strings");
    }
    NIB_ASSIGN(const int64_t count, bound.integer(2, -1));
    NIB_ASSIGN(MarkedText out, replace(ev.budget(), self.text(), bound.get(0)->bytes(),
                                       bound.get(1)->text(), count));
    return ev.text(std::move(out));
}

Result<Value> recased(Evaluator& ev,
                      const Value& self,
                      Args& args,
                      MarkedText (*change)(const MarkedText&)) {
    NIB_TRY(Bound::bind(args, {}, 0));
    if (!ev.budget().spend_bytes(8 * self.text().size())) return ev.budget().error();
    return ev.text(change(self.text()));
}

Result<Value> method_upper(Evaluator& ev, const Value& self, Args& args) {
    return recased(ev, self, args,
                   [](const MarkedText& t) { return change_case(t, Casing::Upper); });
}
Result<Value> method_lower(Evaluator& ev, const Value& self, Args& args) {
    return recased(ev, self, args,
                   [](const MarkedText& t) { return change_case(t, Casing::Lower); });
}
Result<Value> method_title(Evaluator& ev, const Value& self, Args& args) {
    return recased(ev, self, args, title);
}
Result<Value> method_capitalize(Evaluator& ev, const Value& self, Args& args) {
    return recased(ev, self, args, capitalize);
}

Result<Value> find_in(Evaluator& ev, const Value& self, Args& args, bool from_right, bool must) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"sub", "start", "end"}, 1));
    NIB_ASSIGN(const std::string part, bound.text(0, ""));
    NIB_ASSIGN(const auto range, window(self, bound));
    const uint64_t work = from_right ? self.text().size() * (1 + part.size()) : self.text().size();
    if (!ev.budget().spend_bytes(work)) return ev.budget().error();
    size_t at = std::string_view::npos;
    if (range.first <= range.second) {
        const std::string_view text =
            std::string_view(self.bytes()).substr(range.first, range.second - range.first);
        at = from_right ? text.rfind(part) : find_bytes(text, part);
    }
    if (at == std::string_view::npos) {
        if (must) return bad("index: substring not found");
        return Value::integer(-1);
    }
    const size_t points = count_points(std::string_view(self.bytes()).substr(0, range.first + at));
    return Value::integer(static_cast<int64_t>(points));
}

Result<Value> method_find(Evaluator& ev, const Value& self, Args& args) {
    return find_in(ev, self, args, false, false);
}
Result<Value> method_rfind(Evaluator& ev, const Value& self, Args& args) {
    return find_in(ev, self, args, true, false);
}
Result<Value> method_index(Evaluator& ev, const Value& self, Args& args) {
    return find_in(ev, self, args, false, true);
}
Result<Value> method_rindex(Evaluator& ev, const Value& self, Args& args) {
    return find_in(ev, self, args, true, true);
}

Result<Value> method_count(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"sub", "start", "end"}, 1));
    NIB_ASSIGN(const std::string part, bound.text(0, ""));
    NIB_ASSIGN(const auto range, window(self, bound));
    if (!ev.budget().spend_bytes(self.text().size())) return ev.budget().error();
    if (range.first > range.second) return Value::integer(0);
    const std::string_view text =
        std::string_view(self.bytes()).substr(range.first, range.second - range.first);
    if (part.empty()) return Value::integer(static_cast<int64_t>(count_points(text)) + 1);
    int64_t n = 0;
    for (size_t at = 0; (at = find_bytes(text, part, at)) != std::string_view::npos; ++n) {
        at += part.size();
    }
    return Value::integer(n);
}

Result<Value> method_join(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"iterable"}, 1));
    NIB_ASSIGN(const std::vector<Value> items, all_items(ev, *bound.get(0)));
    for (const Value& item : items) {
        if (!item.is_string()) return bad("join: expected strings, got " + type_name(item));
    }
    NIB_ASSIGN(MarkedText out, join(ev, self.text(), items));
    return ev.text(std::move(out));
}

// True if the text is not empty and every point passes; `some`: at least one of these must be
// there.
Result<Value> all_points(Evaluator& ev,
                         const Value& self,
                         Args& args,
                         bool (*passes)(uint32_t),
                         bool (*some)(uint32_t) = nullptr) {
    NIB_TRY(Bound::bind(args, {}, 0));
    if (!ev.budget().spend_bytes(4 * self.text().size())) return ev.budget().error();
    bool found = false;
    for (size_t at = 0; at < self.text().size();) {
        const Point p = point_at(self.bytes(), at);
        if (!passes(p.code)) return Value::boolean(false);
        found |= !some || some(p.code);
        at += p.length;
    }
    return Value::boolean(found);
}

bool is_alnum(uint32_t c) {
    return is_alpha(c) || is_numeric(c);
}
bool is_ascii(uint32_t c) {
    return c < 0x80;
}
bool is_not_upper(uint32_t c) {
    return !is_upper(c);
}
bool is_not_lower(uint32_t c) {
    return !is_lower(c);
}

Result<Value> method_isdigit(Evaluator& ev, const Value& self, Args& args) {
    return all_points(ev, self, args, is_decimal);
}
Result<Value> method_isdecimal(Evaluator& ev, const Value& self, Args& args) {
    return all_points(ev, self, args, is_decimal);
}
Result<Value> method_isnumeric(Evaluator& ev, const Value& self, Args& args) {
    return all_points(ev, self, args, is_numeric);
}
Result<Value> method_isalpha(Evaluator& ev, const Value& self, Args& args) {
    return all_points(ev, self, args, is_alpha);
}
Result<Value> method_isalnum(Evaluator& ev, const Value& self, Args& args) {
    return all_points(ev, self, args, is_alnum);
}
Result<Value> method_isspace(Evaluator& ev, const Value& self, Args& args) {
    return all_points(ev, self, args, is_space);
}
Result<Value> method_isascii(Evaluator& ev, const Value& self, Args& args) {
    if (self.text().size() == 0) return Value::boolean(true);
    return all_points(ev, self, args, is_ascii);
}
Result<Value> method_isupper(Evaluator& ev, const Value& self, Args& args) {
    return all_points(ev, self, args, is_not_lower, is_upper);
}
Result<Value> method_islower(Evaluator& ev, const Value& self, Args& args) {
    return all_points(ev, self, args, is_not_upper, is_lower);
}

Result<Value> padded(Evaluator& ev, const Value& self, Args& args, Side side) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"width", "fillchar"}, 1));
    NIB_ASSIGN(const int64_t width, bound.integer(0, 0));
    NIB_ASSIGN(const std::string fill, bound.text(1, " "));
    if (count_points(fill) != 1) return bad("the fill character must be one character");
    NIB_ASSIGN(MarkedText out, pad(ev.budget(), self.text(), width, fill, side));
    return ev.text(std::move(out));
}

Result<Value> method_center(Evaluator& ev, const Value& self, Args& args) {
    return padded(ev, self, args, Side::Both);
}
Result<Value> method_ljust(Evaluator& ev, const Value& self, Args& args) {
    return padded(ev, self, args, Side::Left);
}
Result<Value> method_rjust(Evaluator& ev, const Value& self, Args& args) {
    return padded(ev, self, args, Side::Right);
}

Result<Value> method_zfill(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"width"}, 1));
    NIB_ASSIGN(const int64_t width, bound.integer(0, 0));
    const MarkedText& text = self.text();
    const bool has_sign = text.size() > 0 && (text.bytes[0] == '-' || text.bytes[0] == '+');
    MarkedText out = text.slice(0, has_sign ? 1 : 0);
    const MarkedText digits = text.slice(out.size(), text.size());
    const int64_t rest = has_sign && width > 0 ? width - 1 : width;
    NIB_ASSIGN(const MarkedText padded_digits, pad(ev.budget(), digits, rest, "0", Side::Right));
    out.add(padded_digits);
    return ev.text(std::move(out));
}

Result<Value> without_affix(Evaluator& ev, const Value& self, Args& args, bool at_start) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"affix"}, 1));
    NIB_ASSIGN(const std::string part, bound.text(0, ""));
    const std::string_view text = self.bytes();
    const bool has = at_start ? text.starts_with(part) : text.ends_with(part);
    if (!has) return self;
    if (!ev.budget().spend_bytes(text.size())) return ev.budget().error();
    return ev.text(at_start ? self.text().slice(part.size(), text.size())
                            : self.text().slice(0, text.size() - part.size()));
}

Result<Value> method_removeprefix(Evaluator& ev, const Value& self, Args& args) {
    return without_affix(ev, self, args, true);
}
Result<Value> method_removesuffix(Evaluator& ev, const Value& self, Args& args) {
    return without_affix(ev, self, args, false);
}

Result<Value> method_format(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(MarkedText out, brace_format(ev, self.text(), args));
    return ev.text(std::move(out));
}

constexpr Native kTextMethods[] = {
    {"capitalize", method_capitalize},
    {"center", method_center},
    {"count", method_count},
    {"endswith", method_endswith},
    {"find", method_find},
    {"format", method_format},
    {"index", method_index},
    {"isalnum", method_isalnum},
    {"isalpha", method_isalpha},
    {"isascii", method_isascii},
    {"isdecimal", method_isdecimal},
    {"isdigit", method_isdigit},
    {"islower", method_islower},
    {"isnumeric", method_isnumeric},
    {"isspace", method_isspace},
    {"isupper", method_isupper},
    {"join", method_join},
    {"ljust", method_ljust},
    {"lower", method_lower},
    {"lstrip", method_lstrip},
    {"partition", method_partition},
    {"removeprefix", method_removeprefix},
    {"removesuffix", method_removesuffix},
    {"replace", method_replace},
    {"rfind", method_rfind},
    {"rindex", method_rindex},
    {"rjust", method_rjust},
    {"rsplit", method_rsplit},
    {"rstrip", method_rstrip},
    {"split", method_split},
    {"splitlines", method_splitlines},
    {"startswith", method_startswith},
    {"strip", method_strip},
    {"title", method_title},
    {"upper", method_upper},
    {"zfill", method_zfill},
};

}  // namespace

NativeTable text_methods() {
    return {std::begin(kTextMethods), std::end(kTextMethods)};
}

}  // namespace nib::jinja
