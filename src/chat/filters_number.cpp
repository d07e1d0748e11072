// SPDX-License-Identifier: MIT
// Filters that convert and compute, and `default`.
#include "src/chat/builtins_impl.h"
#include "src/chat/operators.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace nib::jinja {
namespace {

// Digits in Python may have single underscores between them and white space around.
std::optional<std::string> plain_digits(std::string_view text) {
    size_t begin = 0, end = text.size();
    while (begin < end && is_space(point_at(text, begin).code))
        begin += point_at(text, begin).length;
    while (end > begin && is_space(point_at(text, previous_point(text, end)).code)) {
        end = previous_point(text, end);
    }
    std::string out;
    for (size_t i = begin; i < end; ++i) {
        if (text[i] != '_') {
            out += text[i];
            continue;
        }
        const auto is_alnum = [&](size_t k) {
            return k < end && std::isalnum(static_cast<unsigned char>(text[k]));
        };
        if (i == begin || !is_alnum(i - 1) || !is_alnum(i + 1)) return std::nullopt;
    }
    return out;
}

enum class Read { Ok, NotANumber, TooLarge };

Read read_integer(std::string_view text, int64_t base, int64_t& out) {
    std::optional<std::string> digits = plain_digits(text);
    if (!digits || digits->empty()) return Read::NotANumber;
    std::string_view rest = *digits;
    const bool negative = rest[0] == '-';
    if (rest[0] == '-' || rest[0] == '+') rest.remove_prefix(1);
    if (rest.size() > 1 && rest[0] == '0') {
        const char mark = static_cast<char>(rest[1] | 0x20);
        const int64_t named = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
        if (named && (base == named || base == 0)) {
            base = named;
            rest.remove_prefix(2);
        }
    }
    if (base == 0) base = 10;
    if (rest.empty() || rest[0] == '-') return Read::NotANumber;
    const std::string signed_text = (negative ? "-" : "") + std::string(rest);
    const char* last = signed_text.data() + signed_text.size();
    const auto read = std::from_chars(signed_text.data(), last, out, static_cast<int>(base));
    if (read.ptr != last) return Read::NotANumber;
    return read.ec == std::errc() ? Read::Ok : Read::TooLarge;
}

bool read_real(std::string_view text, double& out) {
    std::optional<std::string> digits = plain_digits(text);
    if (!digits || digits->empty()) return false;
    std::string_view rest = *digits;
    if (rest[0] == '+') rest.remove_prefix(1);
    if (rest.empty() || rest[0] == '+' || (digits->at(0) == '+' && rest[0] == '-')) return false;
    if (rest.find('(') != std::string_view::npos) return false;  // nan(...) is not Python's
    const char* last = rest.data() + rest.size();
    const auto read = std::from_chars(rest.data(), last, out);
    if (read.ptr != last) return false;
    if (read.ec == std::errc::result_out_of_range) {
        const size_t e = rest.find_first_of("eE");
        const bool tiny =
            e != std::string_view::npos && rest.substr(e).find('-') != std::string_view::npos;
        out = tiny ? 0.0 : std::numeric_limits<double>::infinity();
        if (rest[0] == '-') out = -out;
    }
    return true;
}

// int(x) of a double, or nothing if there is no such integer.
std::optional<Value> truncated(double x) {
    if (std::isnan(x) || std::isinf(x)) return std::nullopt;
    const double whole = std::trunc(x);
    if (whole >= 9223372036854775808.0 || whole < -9223372036854775808.0) return std::nullopt;
    return Value::integer(static_cast<int64_t>(whole));
}

Result<Value> filter_int(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"default", "base"}, 0));
    NIB_ASSIGN(const int64_t base, bound.integer(1, 10));
    const Value otherwise = bound.get(0) ? *bound.get(0) : Value::integer(0);
    if (self.is_undefined()) return operand_error("int", self);
    if (self.is_integral()) return Value::integer(self.as_int());
    double x = 0;
    if (self.is(Kind::Float)) {
        x = self.as_double();
        if (std::isinf(x)) return bad("int: infinity has no integer");
    } else if (self.is_string()) {
        if (!ev.budget().spend_bytes(self.text().size())) return ev.budget().error();
        if (base != 0 && (base < 2 || base > 36)) return otherwise;
        int64_t value = 0;
        const Read read = read_integer(self.bytes(), base, value);
        if (read == Read::Ok) return Value::integer(value);
        if (read == Read::TooLarge) return bad("int: the number does not fit 64 bits");
        if (!read_real(self.bytes(), x)) return otherwise;
    } else {
        return otherwise;
    }
    if (std::isnan(x) || std::isinf(x)) return otherwise;
    const std::optional<Value> value = truncated(x);
    if (!value) return bad("int: the number does not fit 64 bits");
    return *value;
}

Result<Value> filter_float(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"default"}, 0));
    if (self.is_undefined()) return operand_error("float", self);
    if (self.is_number()) return Value::real(self.as_double());
    double x = 0;
    if (self.is_string()) {
        if (!ev.budget().spend_bytes(self.text().size())) return ev.budget().error();
        if (read_real(self.bytes(), x)) return Value::real(x);
    }
    return bound.get(0) ? *bound.get(0) : Value::real(0.0);
}

Result<Value> filter_abs(Evaluator&, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    if (self.is(Kind::Float)) return Value::real(std::fabs(self.as_double()));
    if (!self.is_integral()) return operand_error("abs", self);
    return self.as_int() < 0 ? negate(self) : Value::integer(self.as_int());
}

// Python rounds the decimal digits that printf prints, halves to even.
Result<double> round_common(double x, int64_t precision) {
    if (!std::isfinite(x) || x == 0 || precision > 323) return x;
    if (precision < -308) return std::copysign(0.0, x);
    if (precision >= 0) {
        char text[800];
        const int n = std::snprintf(text, sizeof text, "%.*f", static_cast<int>(precision), x);
        double out = 0;
        std::from_chars(text, text + std::min<size_t>(static_cast<size_t>(n), sizeof text - 1),
                        out);
        return out;
    }
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    const double out = std::nearbyint(x / scale) * scale;
    if (std::isinf(out)) return bad("round: the result does not fit a double");
    return out;
}

Result<Value> filter_round(Evaluator&, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"precision", "method"}, 0));
    NIB_ASSIGN(const int64_t precision, bound.integer(0, 0));
    NIB_ASSIGN(const std::string method, bound.text(1, "common"));
    if (!self.is_number()) return operand_error("round", self);
    if (method == "common") {
        if (self.is_integral() && precision >= 0) return Value::integer(self.as_int());
        NIB_ASSIGN(const double x, round_common(self.as_double(), precision));
        if (!self.is_integral()) return Value::real(x);
        const std::optional<Value> whole = truncated(x);
        return whole ? *whole : Result<Value>(bad("round: the result does not fit 64 bits"));
    }
    if (method != "ceil" && method != "floor") {
        return bad("round: expected the method common, ceil or floor");
    }
    const double scale = std::pow(10.0, static_cast<double>(precision));
    const double x = self.as_double() * scale;
    if (!std::isfinite(x) || scale == 0) return bad("round: the result does not fit a double");
    const double whole = (method == "ceil" ? std::ceil(x) : std::floor(x)) + 0.0;
    return Value::real(whole / scale);
}

Result<Value> filter_sum(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"attribute", "start"}, 0));
    NIB_ASSIGN(const std::vector<Value> items, all_items(ev, self));
    Value sum = bound.get(1) ? *bound.get(1) : Value::integer(0);
    if (sum.is_string()) return bad("sum: texts are joined with join, not summed");
    for (const Value& item : items) {
        Value value = item;
        if (bound.get(0) && !bound.get(0)->is_none()) {
            NIB_ASSIGN(value, get_path(ev, item, *bound.get(0)));
        }
        NIB_ASSIGN(sum, ev.binary(Op::Add, sum, value));
    }
    return sum;
}

Result<Value> filter_default(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"default_value", "boolean"}, 0));
    const bool replace = self.is_undefined() || (bound.truth(1, false) && !truthy(self));
    if (!replace) return self;
    return bound.get(0) ? *bound.get(0) : make_text(&ev.budget(), "");
}

Result<Value> filter_attr(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"name"}, 1));
    if (!bound.get(0)->is_string()) return bad("attr: expected the name of an attribute");
    const bool has_entries = self.is(Kind::Dict) && !find_method(Kind::Dict, bound.get(0)->bytes());
    if (has_entries) return ev.undefined("the dict has no such attribute");
    return ev.get_attribute(self, *bound.get(0));
}

constexpr Native kNumberFilters[] = {
    {"abs", filter_abs},         {"attr", filter_attr},   {"d", filter_default},
    {"default", filter_default}, {"float", filter_float}, {"int", filter_int},
    {"round", filter_round},     {"sum", filter_sum},
};

}  // namespace

NativeTable number_filters() {
    return {std::begin(kNumberFilters), std::end(kNumberFilters)};
}

}  // namespace nib::jinja
