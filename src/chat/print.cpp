// SPDX-License-Identifier: MIT
#include "src/chat/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace nib::jinja {
namespace {

constexpr uint32_t kDepthMax =
    1000;  // namespaces may hold themselves; other values are bounded already

void append_hex(std::string& out, const char* prefix, uint32_t code, int digits) {
    static const char* const kHex = "0123456789abcdef";
    out += prefix;
    for (int i = digits - 1; i >= 0; --i)
        out += kHex[code >> (4 * i) & 15];
}

// One point inside a repr with this quote around it.
void append_repr_point(std::string& out, uint32_t code, char quote) {
    if (code == '\\' || code == static_cast<unsigned char>(quote)) {
        out += '\\';
        out += static_cast<char>(code);
    } else if (code == '\n') {
        out += "\\n";
    } else if (code == '\r') {
        out += "\\r";
    } else if (code == '\t') {
        out += "\\t";
    } else if (is_printable(code)) {
        append_point(out, code);
    } else if (code < 0x100) {
        append_hex(out, "\\x", code, 2);
    } else if (code < 0x10000) {
        append_hex(out, "\\u", code, 4);
    } else {
        append_hex(out, "\\U", code, 8);
    }
}

void append_json_point(std::string& out, uint32_t code, bool ascii) {
    static constexpr std::string_view kFrom = "\"\\\b\f\n\r\t";
    static constexpr std::string_view kTo = "\"\\bfnrt";
    const size_t i = code < 0x80 ? kFrom.find(static_cast<char>(code)) : std::string_view::npos;
    if (i != std::string_view::npos) {
        out += '\\';
        out += kTo[i];
    } else if (code < 0x20 || (ascii && code >= 0x7f && code < 0x10000)) {
        append_hex(out, "\\u", code, 4);
    } else if (ascii && code >= 0x10000) {
        append_hex(out, "\\u", 0xd800 + ((code - 0x10000) >> 10), 4);
        append_hex(out, "\\u", 0xdc00 + ((code - 0x10000) & 0x3ff), 4);
    } else {
        append_point(out, code);
    }
}

// Writes `text` point by point through `append`; runs of points with the same mark go out together.
template <class Append>
Result<void> escape_into(Budget& budget, const MarkedText& text, MarkedText& out, Append append) {
    if (!budget.spend_bytes(4 * text.size()) || !budget.fits(out.size() + text.size())) {
        return budget.error();
    }
    MarkCursor cursor(text);
    std::string piece;
    bool piece_is_data = false;
    for (size_t at = 0; at < text.size();) {
        const bool is_data = cursor.is_data(at);
        if (is_data != piece_is_data) {
            out.add(piece, piece_is_data);
            piece.clear();
            piece_is_data = is_data;
        }
        const Point p = point_at(text.bytes, at);
        append(piece, p.code);
        at += p.length;
    }
    out.add(piece, piece_is_data);
    return {};
}

class Printer {
  public:
    Printer(Budget& budget, MarkedText& out) : budget_(budget), out_(out) {}
    Result<void> repr(const Value& value, uint32_t depth);

  private:
    Result<void> repr_text(const MarkedText& text);
    Result<void> sequence(const Value& value, uint32_t depth);
    Result<void> pairs(const std::vector<std::pair<Value, Value>>& entries, uint32_t depth);
    Result<void> view(const ViewObject& view, uint32_t depth);
    Result<void> range(const RangeObject& range);

    Budget& budget_;
    MarkedText& out_;
};

Result<void> Printer::repr_text(const MarkedText& text) {
    const bool has_single = text.bytes.find('\'') != std::string::npos;
    const char quote = has_single && text.bytes.find('"') == std::string::npos ? '"' : '\'';
    out_.add(std::string_view(&quote, 1));
    NIB_TRY(escape_into(budget_, text, out_, [quote](std::string& piece, uint32_t code) {
        append_repr_point(piece, code, quote);
    }));
    out_.add(std::string_view(&quote, 1));
    return {};
}

Result<void> Printer::sequence(const Value& value, uint32_t depth) {
    const bool is_list = value.is(Kind::List);
    out_.add(is_list ? "[" : "(");
    bool first = true;
    for (const Value& item : value.items()) {
        if (!first) out_.add(", ");
        first = false;
        NIB_TRY(repr(item, depth + 1));
    }
    if (!is_list && value.items().size() == 1) out_.add(",");
    out_.add(is_list ? "]" : ")");
    return {};
}

Result<void> Printer::pairs(const std::vector<std::pair<Value, Value>>& entries, uint32_t depth) {
    out_.add("{");
    bool first = true;
    for (const auto& [key, value] : entries) {
        if (!first) out_.add(", ");
        first = false;
        NIB_TRY(repr(key, depth + 1));
        out_.add(": ");
        NIB_TRY(repr(value, depth + 1));
    }
    out_.add("}");
    return {};
}

Result<void> Printer::view(const ViewObject& view, uint32_t depth) {
    using What = ViewObject::What;
    out_.add(view.what == What::Keys     ? "dict_keys(["
             : view.what == What::Values ? "dict_values(["
                                         : "dict_items([");
    bool first = true;
    for (const auto& [key, value] : view.dict.dict().entries) {
        if (!first) out_.add(", ");
        first = false;
        if (view.what == What::Items) out_.add("(");
        if (view.what != What::Values) NIB_TRY(repr(key, depth + 1));
        if (view.what == What::Items) out_.add(", ");
        if (view.what != What::Keys) NIB_TRY(repr(value, depth + 1));
        if (view.what == What::Items) out_.add(")");
    }
    out_.add("])");
    return {};
}

Result<void> Printer::range(const RangeObject& range) {
    out_.add("range(" + std::to_string(range.start) + ", " + std::to_string(range.stop));
    if (range.step != 1) out_.add(", " + std::to_string(range.step));
    out_.add(")");
    return {};
}

Result<void> Printer::repr(const Value& value, uint32_t depth) {
    if (!budget_.spend(1) || !budget_.fits(out_.size())) return budget_.error();
    if (depth > kDepthMax) return bad("a value that holds itself cannot be printed");
    switch (value.kind()) {
    case Kind::Undefined:
        out_.add("Undefined");
        return {};
    case Kind::None:
        out_.add("None");
        return {};
    case Kind::Bool:
        out_.add(value.as_bool() ? "True" : "False");
        return {};
    case Kind::Int:
        out_.add(std::to_string(value.as_int()));
        return {};
    case Kind::Float:
        out_.add(float_repr(value.as_double()));
        return {};
    case Kind::String:
        if (!is_markup(value)) return repr_text(value.text());
        out_.add("Markup(");
        NIB_TRY(repr_text(value.text()));
        out_.add(")");
        return {};
    case Kind::List:
    case Kind::Tuple:
        return sequence(value, depth);
    case Kind::Dict:
        return pairs(value.dict().entries, depth);
    case Kind::View:
        return view(value.get<ViewObject>(), depth);
    case Kind::Range:
        return range(value.get<RangeObject>());
    case Kind::Namespace:
        out_.add("<Namespace ");
        NIB_TRY(pairs(value.get<NamespaceObject>().entries, depth));
        out_.add(">");
        return {};
    default:
        out_.add("<" + type_name(value) + ">");
        return {};
    }
}

class JsonPrinter {
  public:
    JsonPrinter(Budget& budget, const JsonLayout& layout, MarkedText& out)
        : budget_(budget), layout_(layout), out_(out) {}
    Result<void> value(const Value& v, uint32_t depth);

  private:
    Result<void> text(const MarkedText& t);
    Result<void> key(const Value& k);
    Result<void> list(const Value& v, uint32_t depth);
    Result<void> dict(const Value& v, uint32_t depth);
    Result<void> line(uint32_t depth);

    Budget& budget_;
    const JsonLayout& layout_;
    MarkedText& out_;
};

Result<void> JsonPrinter::text(const MarkedText& t) {
    out_.add("\"");
    NIB_TRY(escape_into(budget_, t, out_, [this](std::string& piece, uint32_t code) {
        append_json_point(piece, code, layout_.ascii);
    }));
    out_.add("\"");
    return {};
}

std::string json_float(double x) {
    if (std::isnan(x)) return "NaN";
    if (std::isinf(x)) return x > 0 ? "Infinity" : "-Infinity";
    return float_repr(x);
}

Result<void> JsonPrinter::key(const Value& k) {
    switch (k.kind()) {
    case Kind::String:
        return text(k.text());
    case Kind::None:
        out_.add("\"null\"");
        return {};
    case Kind::Bool:
        out_.add(k.as_bool() ? "\"true\"" : "\"false\"");
        return {};
    case Kind::Int:
        out_.add("\"" + std::to_string(k.as_int()) + "\"");
        return {};
    case Kind::Float:
        out_.add("\"" + json_float(k.as_double()) + "\"");
        return {};
    default:
        return bad("tojson: keys must be str, int, float, bool or None, not " + type_name(k));
    }
}

Result<void> JsonPrinter::line(uint32_t depth) {
    if (!layout_.pretty) return {};
    if (!budget_.fits(out_.size() + layout_.indent.size() * depth)) return budget_.error();
    if (!budget_.spend_bytes(layout_.indent.size() * depth)) return budget_.error();
    out_.add("\n");
    for (uint32_t i = 0; i < depth; ++i)
        out_.add(layout_.indent);
    return {};
}

Result<void> JsonPrinter::list(const Value& v, uint32_t depth) {
    if (v.items().empty()) {
        out_.add("[]");
        return {};
    }
    out_.add("[");
    bool first = true;
    for (const Value& item : v.items()) {
        if (!first) out_.add(layout_.between_items);
        first = false;
        NIB_TRY(line(depth + 1));
        NIB_TRY(value(item, depth + 1));
    }
    NIB_TRY(line(depth));
    out_.add("]");
    return {};
}

Result<void> JsonPrinter::dict(const Value& v, uint32_t depth) {
    const DictObject& d = v.dict();
    if (d.entries.empty()) {
        out_.add("{}");
        return {};
    }
    std::vector<std::pair<Value, Value>> sorted;
    if (layout_.sort_keys) {
        sorted = d.entries;
        for (const auto& entry : sorted) {
            NIB_TRY(less(budget_, entry.first, sorted.front().first));
        }
        std::sort(sorted.begin(), sorted.end(),
                  [](const auto& a, const auto& b) { return key_order(a.first, b.first) < 0; });
    }
    out_.add("{");
    bool first = true;
    for (const auto& [name, item] : layout_.sort_keys ? sorted : d.entries) {
        if (!first) out_.add(layout_.between_items);
        first = false;
        NIB_TRY(line(depth + 1));
        NIB_TRY(key(name));
        out_.add(layout_.after_key);
        NIB_TRY(value(item, depth + 1));
    }
    NIB_TRY(line(depth));
    out_.add("}");
    return {};
}

Result<void> JsonPrinter::value(const Value& v, uint32_t depth) {
    if (!budget_.spend(1) || !budget_.fits(out_.size())) return budget_.error();
    switch (v.kind()) {
    case Kind::None:
        out_.add("null");
        return {};
    case Kind::Bool:
        out_.add(v.as_bool() ? "true" : "false");
        return {};
    case Kind::Int:
        out_.add(std::to_string(v.as_int()));
        return {};
    case Kind::Float:
        out_.add(json_float(v.as_double()));
        return {};
    case Kind::String:
        return text(v.text());
    case Kind::List:
    case Kind::Tuple:
        return list(v, depth);
    case Kind::Dict:
        return dict(v, depth);
    default:
        return bad("tojson: a value of type " + type_name(v) + " is not JSON");
    }
}

}  // namespace

// Python chooses the shortest digits that read back the same, and an exponent below -4 and from 16
// on.
std::string float_repr(double x) {
    if (std::isnan(x)) return "nan";
    if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
    char buffer[40];
    const auto end =
        std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::scientific).ptr;
    const std::string_view text(buffer, static_cast<size_t>(end - buffer));
    const size_t e = text.find('e');
    int exponent = 0;
    const bool negative_exponent = text[e + 1] == '-';
    std::from_chars(text.data() + e + 2, end, exponent);
    if (negative_exponent) exponent = -exponent;
    std::string sign, digits;
    for (const char c : text.substr(0, e)) {
        if (c == '-') sign = "-";
        if (c >= '0' && c <= '9') digits += c;
    }
    if (exponent < -4 || exponent >= 16) {
        std::string out = sign + digits[0];
        if (digits.size() > 1) out += "." + digits.substr(1);
        const std::string power = std::to_string(std::abs(exponent));
        return out + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
    }
    if (exponent < 0)
        return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
    const auto whole = static_cast<size_t>(exponent) + 1;
    if (digits.size() <= whole)
        return sign + digits + std::string(whole - digits.size(), '0') + ".0";
    return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

Result<void> print_repr(Budget& budget, const Value& value, MarkedText& out) {
    return Printer(budget, out).repr(value, 0);
}

Result<void> print_str(Budget& budget, const Value& value, MarkedText& out) {
    if (value.is_undefined()) return {};
    if (!value.is_string()) return print_repr(budget, value, out);
    const size_t n = value.text().size();
    if (!budget.fits(out.size() + n) || !budget.spend_bytes(n)) return budget.error();
    out.add(value.text());
    return {};
}

Result<MarkedText> to_str(Budget& budget, const Value& value) {
    MarkedText out;
    NIB_TRY(print_str(budget, value, out));
    return out;
}

Result<void> print_json(Budget& budget,
                        const Value& value,
                        const JsonLayout& layout,
                        MarkedText& out) {
    return JsonPrinter(budget, layout, out).value(value, 0);
}

}  // namespace nib::jinja
