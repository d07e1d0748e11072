// SPDX-License-Identifier: MIT
// Python's two ways to put values into a format: '%s of %d' % (a, b) and '{} of {:>4}'.format(a,
// b). Both read a field into a Spec and let write_field do the rest. Fields reach values by
// position or name only.
#include "src/chat/builtins_impl.h"
#include "src/chat/operators.h"
#include "src/chat/print.h"
#include "src/chat/text_ops.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace nib::jinja {
namespace {

constexpr int64_t kPrecisionMax = 1000;

struct Spec {
    std::string fill = " ";
    char align = 0;  // < > ^ =
    char sign = '-';
    bool alternate = false, comma = false;
    int64_t width = 0, precision = -1;
    char type = 0;
};

// Reads digits at `at`; false if the number is absurd.
bool read_number(std::string_view text, size_t& at, int64_t& out) {
    out = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
        out = out * 10 + (text[at] - '0');
        if (out > std::numeric_limits<int32_t>::max()) return false;
    }
    return true;
}

Result<void> write_padded(
    Budget& budget, const MarkedText& text, const Spec& spec, char align, MarkedText& out) {
    const Side side = align == '<' ? Side::Left : align == '^' ? Side::Both : Side::Right;
    MarkedText padded;
    if (align == '^') {
        const auto n = static_cast<int64_t>(count_points(text.bytes));
        const int64_t missing = std::max<int64_t>(spec.width - n, 0);
        NIB_ASSIGN(padded, pad(budget, text, n + missing / 2, spec.fill, Side::Right));
        NIB_ASSIGN(padded, pad(budget, padded, spec.width, spec.fill, Side::Left));
    } else {
        NIB_ASSIGN(padded, pad(budget, text, spec.width, spec.fill, side));
    }
    if (!budget.fits(out.size() + padded.size())) return budget.error();
    out.add(padded);
    return {};
}

std::string with_commas(const std::string& digits) {
    const size_t end = std::min(digits.find_first_of(".e"), digits.size());
    std::string out;
    for (size_t i = 0; i < end; ++i) {
        if (i > 0 && (end - i) % 3 == 0) out += ',';
        out += digits[i];
    }
    return out + digits.substr(end);
}

// The digits of |value|, without sign.
Result<std::string> digits_of(const Value& value, const Spec& spec) {
    char buffer[1600];
    if (spec.type == 'd' || spec.type == 'x' || spec.type == 'X' || spec.type == 'o' ||
        spec.type == 'b') {
        const uint64_t magnitude = value.as_int() < 0 ? 0 - static_cast<uint64_t>(value.as_int())
                                                      : static_cast<uint64_t>(value.as_int());
        const unsigned base = spec.type == 'd'   ? 10
                              : spec.type == 'o' ? 8
                              : spec.type == 'b' ? 2
                                                 : 16;
        const char* const symbols = spec.type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
        std::string out;
        for (uint64_t rest = magnitude; rest > 0 || out.empty(); rest /= base) {
            out += symbols[rest % base];
        }
        if (spec.alternate && base != 10) {
            out += spec.type;
            out += '0';
        }
        std::reverse(out.begin(), out.end());
        return out;
    }
    const double x = std::fabs(value.as_double());
    if (std::isinf(x)) return std::string("inf");
    if (std::isnan(x)) return std::string("nan");
    if (spec.type == 0) return float_repr(x);
    const auto precision = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
    const char format[6] = {'%', '.', '*', spec.type == '%' ? 'f' : spec.type, 0, 0};
    const int n =
        std::snprintf(buffer, sizeof buffer, format, precision, spec.type == '%' ? x * 100 : x);
    if (n < 0 || static_cast<size_t>(n) >= sizeof buffer)
        return bad("format: the number is too long");
    return std::string(buffer) + (spec.type == '%' ? "%" : "");
}

Result<void> write_number(Budget& budget, const Value& value, const Spec& spec, MarkedText& out) {
    NIB_ASSIGN(std::string digits, digits_of(value, spec));
    if (spec.comma) digits = with_commas(digits);
    const bool negative =
        value.is(Kind::Float) ? std::signbit(value.as_double()) : value.as_int() < 0;
    const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
    if (spec.align == '=') {
        const auto used = static_cast<int64_t>(sign.size());
        NIB_ASSIGN(const MarkedText padded,
                   pad(budget, MarkedText(digits), spec.width - used, spec.fill, Side::Right));
        if (!budget.fits(out.size() + padded.size() + 1)) return budget.error();
        out.add(sign);
        out.add(padded);
        return {};
    }
    return write_padded(budget, MarkedText(sign + digits), spec, spec.align ? spec.align : '>',
                        out);
}

Result<void> write_text(
    Budget& budget, const MarkedText& text, const Spec& spec, char align, MarkedText& out) {
    if (spec.precision < 0) return write_padded(budget, text, spec, align, out);
    const size_t end = byte_of_point(text.bytes, static_cast<size_t>(spec.precision));
    return write_padded(budget, text.slice(0, end), spec, align, out);
}

class PercentFormat {
  public:
    PercentFormat(Budget& budget, const MarkedText& format, const Value& values, bool escape)
        : budget_(budget), format_(format), values_(values), escape_(escape) {}
    Result<MarkedText> run();

  private:
    Result<void> field();
    Result<Spec> read_spec(bool& has_name, Value& named);
    Result<int64_t> read_size();
    Result<Value> next_value();
    Result<void> convert(Spec spec, const Value& value);
    char peek() const { return at_ < format_.size() ? format_.bytes[at_] : '\0'; }

    Budget& budget_;
    const MarkedText& format_;
    const Value& values_;
    bool escape_;  // the format is markup
    MarkedText out_;
    size_t at_ = 0, n_used_ = 0;
    bool used_names_ = false;
};

Result<MarkedText> PercentFormat::run() {
    if (!budget_.spend_bytes(4 * format_.size())) return budget_.error();
    while (at_ < format_.size()) {
        const size_t percent = std::min(format_.bytes.find('%', at_), format_.size());
        if (!budget_.fits(out_.size() + percent - at_)) return budget_.error();
        out_.add(format_, at_, percent);
        at_ = percent;
        if (at_ < format_.size()) NIB_TRY(field());
    }
    const size_t n_given = values_.is(Kind::Tuple) ? values_.items().size() : 1;
    const bool may_stay = values_.is(Kind::Dict) || values_.is(Kind::List) ||
                          values_.is(Kind::Range) || values_.is_undefined();
    if (!used_names_ && !may_stay && n_used_ < n_given) return bad("%: not all values are used");
    return std::move(out_);
}

Result<Value> PercentFormat::next_value() {
    const bool is_tuple = values_.is(Kind::Tuple);
    const size_t i = n_used_++;
    if (i >= (is_tuple ? values_.items().size() : 1))
        return bad("%: too few values for the format");
    return is_tuple ? values_.items()[i] : values_;
}

Result<int64_t> PercentFormat::read_size() {
    if (peek() == '*') {
        ++at_;
        NIB_ASSIGN(const Value value, next_value());
        if (!value.is_integral()) return bad("%: * expects an integer");
        return value.as_int();
    }
    int64_t size = 0;
    if (!read_number(format_.bytes, at_, size)) return bad("%: a width or precision is too large");
    return size;
}

Result<Spec> PercentFormat::read_spec(bool& has_name, Value& named) {
    Spec spec;
    if (peek() == '(') {
        const size_t close = format_.bytes.find(')', at_);
        if (close == std::string::npos) return bad("%: a name without its )");
        if (!values_.is(Kind::Dict)) return bad("%: a named field needs a dict");
        const std::string_view name =
            std::string_view(format_.bytes).substr(at_ + 1, close - at_ - 1);
        const Value* value = values_.dict().find(name);
        if (!value) return bad("%: the dict has no key '" + std::string(name.substr(0, 60)) + "'");
        named = *value;
        has_name = used_names_ = true;
        at_ = close + 1;
    }
    bool zero = false;
    for (bool more = true; more && at_ < format_.size(); at_ += more) {
        switch (format_.bytes[at_]) {
        case '-':
            spec.align = '<';
            break;
        case '+':
            spec.sign = '+';
            break;
        case ' ':
            if (spec.sign == '-') spec.sign = ' ';
            break;
        case '0':
            zero = true;
            break;
        case '#':
            spec.alternate = true;
            break;
        default:
            more = false;
        }
    }
    NIB_ASSIGN(spec.width, read_size());
    if (spec.width < 0) {
        spec.align = '<';
        spec.width = spec.width == std::numeric_limits<int64_t>::min() ? 0 : -spec.width;
    }
    if (peek() == '.') {
        ++at_;
        NIB_ASSIGN(spec.precision, read_size());
        spec.precision = std::max<int64_t>(spec.precision, 0);
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L')
        ++at_;
    if (zero && spec.align != '<') {
        spec.align = '=';
        spec.fill = "0";
    }
    return spec;
}

Result<void> PercentFormat::field() {
    ++at_;
    if (peek() == '%') {
        out_.add(format_, at_, at_ + 1);
        ++at_;
        return {};
    }
    bool has_name = false;
    Value value;
    NIB_ASSIGN(Spec spec, read_spec(has_name, value));
    if (at_ >= format_.size()) return bad("%: an incomplete format");
    spec.type = format_.bytes[at_++];
    if (spec.type == '%') {
        out_.add("%");
        return {};
    }
    if (!has_name) {
        NIB_ASSIGN(value, next_value());
    }
    return convert(spec, value);
}

Result<void> PercentFormat::convert(Spec spec, const Value& value) {
    static constexpr std::string_view kIntegers = "diuxXo", kFloats = "eEfFgG";
    if (kIntegers.find(spec.type) != std::string_view::npos) {
        if (!value.is_number()) return operand_error("%: an integer field", value);
        const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
        if (decimal) spec.type = 'd';
        if (!value.is(Kind::Float))
            return write_number(budget_, Value::integer(value.as_int()), spec, out_);
        const double whole = std::trunc(value.as_double());
        if (!decimal || !(std::fabs(whole) < 9.2e18))
            return bad("%: expected an integer, got a float");
        return write_number(budget_, Value::integer(static_cast<int64_t>(whole)), spec, out_);
    }
    if (kFloats.find(spec.type) != std::string_view::npos) {
        if (!value.is_number()) return operand_error("%: a number field", value);
        if (spec.precision > kPrecisionMax) return bad("%: the precision is too large");
        return write_number(budget_, Value::real(value.as_double()), spec, out_);
    }
    if (spec.align == '=') spec.fill = " ";
    const char align = spec.align == '<' ? '<' : '>';
    if (spec.type == 's') {
        NIB_ASSIGN(MarkedText text, to_str(budget_, value));
        if (escape_ && !is_markup(value)) text = escape_html(text);
        return write_text(budget_, text, spec, align, out_);
    }
    if (spec.type == 'r' || spec.type == 'a') {
        MarkedText text;
        NIB_TRY(print_repr(budget_, value, text));
        if (escape_) text = escape_html(text);
        return write_text(budget_, text, spec, align, out_);
    }
    if (spec.type == 'c' && value.is_string() && value.text_object().n_points == 1) {
        return write_text(budget_, value.text(), spec, align, out_);
    }
    return bad(std::string("%: unsupported field '") + spec.type + "'");
}

class BraceFormat {
  public:
    BraceFormat(Budget& budget, const MarkedText& format, const Args& args)
        : budget_(budget), format_(format), args_(args) {}
    Result<MarkedText> run();

  private:
    Result<void> field(std::string_view text);
    Result<Value> value_of(std::string_view name);
    static Result<Spec> read_spec(std::string_view text);
    Result<void> write(const Value& value, Spec spec);

    Budget& budget_;
    const MarkedText& format_;
    const Args& args_;
    MarkedText out_;
    size_t next_ = 0;
};

Result<MarkedText> BraceFormat::run() {
    const std::string& s = format_.bytes;
    if (!budget_.spend_bytes(4 * s.size())) return budget_.error();
    for (size_t at = 0; at < s.size();) {
        const size_t brace = std::min(s.find_first_of("{}", at), s.size());
        if (!budget_.fits(out_.size() + brace - at)) return budget_.error();
        out_.add(format_, at, brace);
        at = brace;
        if (at >= s.size()) break;
        if (at + 1 < s.size() && s[at + 1] == s[at]) {
            out_.add(format_, at, at + 1);
            at += 2;
            continue;
        }
        const size_t close = s[at] == '{' ? s.find('}', at) : std::string::npos;
        if (close == std::string::npos) return bad("format: a single brace");
        NIB_TRY(field(std::string_view(s).substr(at + 1, close - at - 1)));
        at = close + 1;
    }
    return std::move(out_);
}

Result<Value> BraceFormat::value_of(std::string_view name) {
    if (name.find_first_of(".[{") != std::string_view::npos) {
        return bad("format: fields may not look into values");
    }
    size_t at = 0;
    int64_t index = 0;
    const bool is_number = read_number(name, at, index) && at == name.size();
    if (is_number) {
        const size_t i = name.empty() ? next_++ : static_cast<size_t>(index);
        if (i >= args_.positional.size()) return bad("format: too few values");
        return args_.positional[i];
    }
    for (const auto& [key, value] : args_.named) {
        if (key.bytes() == name) return value;
    }
    return bad("format: no value named '" + std::string(name.substr(0, 60)) + "'");
}

Result<Spec> BraceFormat::read_spec(std::string_view s) {
    Spec spec;
    size_t at = 0;
    const auto is_align = [&](size_t i) {
        return i < s.size() && std::string_view("<>^=").find(s[i]) != std::string_view::npos;
    };
    const size_t first = s.empty() ? 0 : point_at(s, 0).length;
    if (is_align(first) && first > 0) {
        spec.fill = s.substr(0, first);
        spec.align = s[first];
        at = first + 1;
    } else if (is_align(0)) {
        spec.align = s[at++];
    }
    if (at < s.size() && (s[at] == '+' || s[at] == '-' || s[at] == ' ')) spec.sign = s[at++];
    if (at < s.size() && s[at] == '#') {
        spec.alternate = true;
        ++at;
    }
    if (at < s.size() && s[at] == '0') {
        if (!spec.align) spec.align = '=';
        if (spec.fill == " ") spec.fill = "0";
        ++at;
    }
    if (!read_number(s, at, spec.width)) return bad("format: the width is too large");
    if (at < s.size() && s[at] == ',') {
        spec.comma = true;
        ++at;
    }
    if (at < s.size() && s[at] == '.') {
        ++at;
        if (!read_number(s, at, spec.precision)) return bad("format: the precision is too large");
    }
    if (at < s.size()) spec.type = s[at++];
    if (at < s.size()) return bad("format: expected a format like >8.2f");
    return spec;
}

Result<void> BraceFormat::write(const Value& value, Spec spec) {
    static constexpr std::string_view kIntegers = "dxXob", kFloats = "eEfFgG%";
    const bool is_text = !value.is_number() || (value.is(Kind::Bool) && spec.type == 0);
    if (is_text) {
        if (spec.type != 0 && spec.type != 's') return bad("format: expected a number");
        NIB_ASSIGN(const MarkedText text, to_str(budget_, value));
        if (spec.align == '=') spec.align = '<';
        return write_text(budget_, text, spec, spec.align ? spec.align : '<', out_);
    }
    if (value.is_integral() &&
        (spec.type == 0 || kIntegers.find(spec.type) != std::string_view::npos)) {
        if (spec.type == 0) spec.type = 'd';
        return write_number(budget_, Value::integer(value.as_int()), spec, out_);
    }
    if (spec.precision > kPrecisionMax) return bad("format: the precision is too large");
    if (spec.type == 0 && spec.precision >= 0) spec.type = 'g';
    if (spec.type != 0 && kFloats.find(spec.type) == std::string_view::npos) {
        return bad(std::string("format: unsupported type '") + spec.type + "'");
    }
    return write_number(budget_, Value::real(value.as_double()), spec, out_);
}

Result<void> BraceFormat::field(std::string_view text) {
    const size_t colon = std::min(text.find(':'), text.size());
    std::string_view name = text.substr(0, colon);
    const bool as_repr = name.size() >= 2 && name.substr(name.size() - 2) == "!r";
    const bool as_str = name.size() >= 2 && name.substr(name.size() - 2) == "!s";
    if (as_repr || as_str) name.remove_suffix(2);
    NIB_ASSIGN(Value value, value_of(name));
    NIB_ASSIGN(const Spec spec, read_spec(text.substr(std::min(colon + 1, text.size()))));
    if (as_repr) {
        MarkedText repr;
        NIB_TRY(print_repr(budget_, value, repr));
        value = make_text(&budget_, std::move(repr));
    } else if (as_str) {
        NIB_ASSIGN(MarkedText str, to_str(budget_, value));
        value = make_text(&budget_, std::move(str));
    }
    return write(value, spec);
}

}  // namespace

Result<Value> percent_format(Budget& budget, const Value& format, const Value& values) {
    const bool markup = is_markup(format);
    NIB_ASSIGN(MarkedText out, PercentFormat(budget, format.text(), values, markup).run());
    return markup ? make_markup(&budget, std::move(out)) : make_text(&budget, std::move(out));
}

Result<MarkedText> brace_format(Evaluator& ev, const MarkedText& format, const Args& args) {
    return BraceFormat(ev.budget(), format, args).run();
}

}  // namespace nib::jinja
