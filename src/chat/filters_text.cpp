// SPDX-License-Identifier: MIT
// Filters that give a text. Most take any value and work on its str().
#include "src/chat/builtins_impl.h"
#include "src/chat/operators.h"
#include "src/chat/print.h"
#include "src/chat/text_ops.h"

#include <algorithm>

namespace nib::jinja {
namespace {

Result<Value> filter_tojson(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound,
               Bound::bind(args, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0));
    JsonLayout layout;
    layout.ascii = bound.truth(0, false);
    layout.sort_keys = bound.truth(3, false);
    const Value* indent = bound.get(1);
    if (indent && !indent->is_none()) {
        layout.pretty = true;
        layout.between_items = ",";
        if (indent->is_string()) {
            layout.indent = indent->bytes();
        } else {
            NIB_ASSIGN(const int64_t width, bound.integer(1, 0));
            if (width > 1000) return bad("tojson: expected an indent up to 1000");
            layout.indent.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
        }
    }
    const Value* separators = bound.get(2);
    if (separators && !separators->is_none()) {
        if (!separators->is_sequence() || separators->items().size() != 2 ||
            !separators->items()[0].is_string() || !separators->items()[1].is_string()) {
            return bad("tojson: expected two strings as separators");
        }
        layout.between_items = separators->items()[0].bytes();
        layout.after_key = separators->items()[1].bytes();
    }
    MarkedText out;
    NIB_TRY(print_json(ev.budget(), self, layout, out));
    return ev.text(std::move(out));
}

Result<Value> filter_string(Evaluator& ev, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    if (self.is_string()) return self;
    NIB_ASSIGN(MarkedText text, to_str(ev.budget(), self));
    return ev.text(std::move(text));
}

Result<Value> recased(Evaluator& ev,
                      const Value& self,
                      Args& args,
                      MarkedText (*change)(const MarkedText&)) {
    NIB_TRY(Bound::bind(args, {}, 0));
    NIB_ASSIGN(const MarkedText text, to_str(ev.budget(), self));
    if (!ev.budget().spend_bytes(8 * text.size())) return ev.budget().error();
    return keep_markup(self, make_text(&ev.budget(), change(text)));
}

Result<Value> filter_upper(Evaluator& ev, const Value& self, Args& args) {
    return recased(ev, self, args,
                   [](const MarkedText& t) { return change_case(t, Casing::Upper); });
}
Result<Value> filter_lower(Evaluator& ev, const Value& self, Args& args) {
    return recased(ev, self, args,
                   [](const MarkedText& t) { return change_case(t, Casing::Lower); });
}
Result<Value> filter_capitalize(Evaluator& ev, const Value& self, Args& args) {
    return recased(ev, self, args, capitalize);
}

// Words start behind white space and behind - ( { [ <.
MarkedText title_words(const MarkedText& text) {
    MarkedText out;
    MarkCursor cursor(text);
    const auto starts_word = [](uint32_t c) {
        return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    };
    bool in_word = false;
    std::string piece;
    for (size_t at = 0; at < text.size();) {
        const Point p = point_at(text.bytes, at);
        piece.clear();
        append_cased(piece, p.code, in_word ? Casing::Lower : Casing::Upper);
        out.add(piece, cursor.is_data(at));
        in_word = !starts_word(p.code);
        at += p.length;
    }
    return out;
}

Result<Value> filter_title(Evaluator& ev, const Value& self, Args& args) {
    return recased(ev, self, args, title_words);
}

Result<Value> filter_trim(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"chars"}, 0));
    NIB_ASSIGN(const MarkedText text, to_str(ev.budget(), self));
    const bool has_chars = bound.get(0) && !bound.get(0)->is_none();
    std::string chars;
    if (has_chars) {
        NIB_ASSIGN(chars, bound.text(0, ""));
    }
    if (!ev.budget().spend_bytes(text.size() * (1 + chars.size() / 32))) return ev.budget().error();
    MarkedText out = strip(text, Side::Both, has_chars ? &chars : nullptr);
    return keep_markup(self, make_text(&ev.budget(), std::move(out)));
}

Result<Value> filter_replace(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"old", "new", "count"}, 2));
    NIB_ASSIGN(const MarkedText text, to_str(ev.budget(), self));
    NIB_ASSIGN(const MarkedText from, to_str(ev.budget(), *bound.get(0)));
    NIB_ASSIGN(const MarkedText to, to_str(ev.budget(), *bound.get(1)));
    const bool has_count = bound.get(2) && !bound.get(2)->is_none();
    int64_t count = -1;
    if (has_count) {
        NIB_ASSIGN(count, bound.integer(2, -1));
    }
    NIB_ASSIGN(MarkedText out, replace(ev.budget(), text, from.bytes, to, count));
    return ev.text(std::move(out));
}

Result<Value> filter_center(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"width"}, 0));
    NIB_ASSIGN(const int64_t width, bound.integer(0, 80));
    NIB_ASSIGN(const MarkedText text, to_str(ev.budget(), self));
    NIB_ASSIGN(MarkedText out, pad(ev.budget(), text, width, " ", Side::Both));
    return ev.text(std::move(out));
}

Result<Value> filter_indent(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"width", "first", "blank"}, 0));
    if (!self.is_string()) return operand_error("indent", self);
    MarkedText indent;
    if (bound.get(0) && bound.get(0)->is_string()) {
        indent = bound.get(0)->text();
    } else {
        NIB_ASSIGN(const int64_t width, bound.integer(0, 4));
        NIB_ASSIGN(indent, pad(ev.budget(), MarkedText(), width, " ", Side::Left));
    }
    if (!ev.budget().spend_bytes(2 * self.text().size())) return ev.budget().error();
    MarkedText source = self.text();
    source.add("\n");
    const std::vector<MarkedText> lines = split_lines(source);
    if (lines.size() > kMostParts) return bad("the text has too many lines");
    MarkedText out;
    if (bound.truth(1, false)) out.add(indent);
    const bool blank = bound.truth(2, false);
    for (size_t i = 0; i < lines.size(); ++i) {
        const size_t n = lines[i].size() + indent.size() + 1;
        if (!ev.budget().fits(out.size() + n) || !ev.budget().spend_bytes(n)) {
            return ev.budget().error();
        }
        if (i > 0) out.add("\n");
        if (i > 0 && (blank || lines[i].size() > 0)) out.add(indent);
        out.add(lines[i]);
    }
    return ev.text(std::move(out));
}

Result<Value> filter_truncate(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"length", "killwords", "end", "leeway"}, 0));
    NIB_ASSIGN(const int64_t length, bound.integer(0, 255));
    NIB_ASSIGN(const std::string end, bound.text(2, "..."));
    const bool has_leeway = bound.get(3) && !bound.get(3)->is_none();
    int64_t leeway = 5;
    if (has_leeway) {
        NIB_ASSIGN(leeway, bound.integer(3, 5));
    }
    const auto end_points = static_cast<int64_t>(count_points(end));
    if (length < end_points || leeway < 0)
        return bad("truncate: the length or leeway is too small");
    NIB_ASSIGN(const int64_t n, length_of(self));
    if (n <= length || n - length <= leeway) return self;
    if (!self.is_string()) return operand_error("truncate", self);
    if (!ev.budget().spend_bytes(self.text().size())) return ev.budget().error();
    size_t cut = byte_of_point(self.bytes(), static_cast<size_t>(length - end_points));
    if (!bound.truth(1, false)) {
        const size_t blank = std::string_view(self.bytes()).substr(0, cut).rfind(' ');
        if (blank != std::string_view::npos) cut = blank;
    }
    MarkedText out = self.text().slice(0, cut);
    out.add(bound.get(2) ? bound.get(2)->text() : MarkedText(end));
    return ev.text(std::move(out));
}

Result<Value> filter_wordcount(Evaluator& ev, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    NIB_ASSIGN(const MarkedText text, to_str(ev.budget(), self));
    if (!ev.budget().spend_bytes(4 * text.size())) return ev.budget().error();
    int64_t count = 0;
    bool in_word = false;
    for (size_t at = 0; at < text.size();) {
        const Point p = point_at(text.bytes, at);
        const bool word = is_word(p.code);
        count += word && !in_word;
        in_word = word;
        at += p.length;
    }
    return Value::integer(count);
}

Result<Value> filter_escape(Evaluator& ev, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    if (is_markup(self)) return self;
    NIB_ASSIGN(const MarkedText text, to_str(ev.budget(), self));
    if (!ev.budget().allow_text(5 * text.size())) return ev.budget().error();
    return make_markup(&ev.budget(), escape_html(text));
}

Result<Value> filter_forceescape(Evaluator& ev, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    NIB_ASSIGN(const MarkedText text, to_str(ev.budget(), self));
    if (!ev.budget().allow_text(5 * text.size())) return ev.budget().error();
    return make_markup(&ev.budget(), escape_html(text));
}

Result<Value> filter_safe(Evaluator& ev, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    NIB_ASSIGN(MarkedText text, to_str(ev.budget(), self));
    return make_markup(&ev.budget(), std::move(text));
}

Result<Value> filter_urlencode(Evaluator& ev, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    const bool is_pairs = self.is(Kind::Dict) || self.is_sequence() || self.is(Kind::View) ||
                          self.is(Kind::Iterator) || self.is(Kind::Range) || self.is_undefined();
    if (!is_pairs) {
        NIB_ASSIGN(const MarkedText text, to_str(ev.budget(), self));
        if (!ev.budget().allow_text(3 * text.size())) return ev.budget().error();
        return ev.text(url_quote(text, false));
    }
    std::vector<Value> pairs;
    if (self.is(Kind::Dict)) {
        for (const auto& [key, value] : self.dict().entries) {
            NIB_ASSIGN(Value pair, make_list(ev.budget(), {key, value}, Kind::Tuple));
            pairs.push_back(std::move(pair));
        }
    } else {
        NIB_ASSIGN(pairs, all_items(ev, self));
    }
    MarkedText out;
    for (const Value& pair : pairs) {
        NIB_ASSIGN(const std::vector<Value> parts, all_items(ev, pair));
        if (parts.size() != 2) return bad("urlencode: expected pairs");
        if (out.size() > 0) out.add("&");
        for (size_t i = 0; i < 2; ++i) {
            NIB_ASSIGN(const MarkedText text, to_str(ev.budget(), parts[i]));
            if (!ev.budget().allow_text(out.size() + 3 * text.size())) return ev.budget().error();
            if (i == 1) out.add("=");
            out.add(url_quote(text, true));
        }
    }
    return ev.text(std::move(out));
}

Result<Value> filter_format(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(MarkedText text, to_str(ev.budget(), self));
    const Value format = keep_markup(self, make_text(&ev.budget(), std::move(text)));
    if (!args.positional.empty() && !args.named.empty()) {
        return bad("format: expected values by position or by name, got both");
    }
    Result<Value> values = args.named.empty()
                               ? make_list(ev.budget(), std::move(args.positional), Kind::Tuple)
                               : make_dict(ev.budget(), std::move(args.named));
    NIB_TRY(values);
    return percent_format(ev.budget(), format, *values);
}

Result<Value> filter_join(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"d", "attribute"}, 0));
    NIB_ASSIGN(std::vector<Value> items, all_items(ev, self));
    if (bound.get(1) && !bound.get(1)->is_none()) {
        for (Value& item : items) {
            NIB_ASSIGN(item, get_path(ev, item, *bound.get(1)));
        }
    }
    MarkedText between;
    if (bound.get(0)) {
        NIB_ASSIGN(between, to_str(ev.budget(), *bound.get(0)));
    }
    NIB_ASSIGN(MarkedText out, join(ev, between, items));
    return ev.text(std::move(out));
}

constexpr Native kTextFilters[] = {
    {"capitalize", filter_capitalize},
    {"center", filter_center},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"forceescape", filter_forceescape},
    {"format", filter_format},
    {"indent", filter_indent},
    {"join", filter_join},
    {"lower", filter_lower},
    {"replace", filter_replace},
    {"safe", filter_safe},
    {"string", filter_string},
    {"title", filter_title},
    {"tojson", filter_tojson},
    {"trim", filter_trim},
    {"truncate", filter_truncate},
    {"upper", filter_upper},
    {"urlencode", filter_urlencode},
    {"wordcount", filter_wordcount},
};

}  // namespace

NativeTable text_filters() {
    return {std::begin(kTextFilters), std::end(kTextFilters)};
}

}  // namespace nib::jinja
