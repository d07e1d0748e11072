// SPDX-License-Identifier: MIT
#include "src/chat/operators.h"

#include "src/chat/text_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nib::jinja {
namespace {

constexpr int64_t kIntMin = std::numeric_limits<int64_t>::min();

const char* symbol(Op op) {
    static constexpr const char* kSymbols[] = {
        "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
    return kSymbols[static_cast<size_t>(op)];
}

Error overflow(Op op) {
    return bad(std::string(symbol(op)) + ": the result does not fit 64 bits");
}
Error zero(Op op) {
    return bad(std::string(symbol(op)) + ": division by zero");
}

// Rounds towards minus infinity. b is not 0, and a / b does not overflow.
int64_t floor_div(int64_t a, int64_t b) {
    const int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

Result<Value> integer_power(int64_t base, int64_t exponent) {
    int64_t result = 1;
    while (exponent > 0) {
        if (exponent & 1 && __builtin_mul_overflow(result, base, &result)) return overflow(Op::Pow);
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow(Op::Pow);
    }
    return Value::integer(result);
}

Result<Value> integers(Op op, int64_t a, int64_t b) {
    int64_t result = 0;
    switch (op) {
    case Op::Add:
        if (__builtin_add_overflow(a, b, &result)) return overflow(op);
        return Value::integer(result);
    case Op::Sub:
        if (__builtin_sub_overflow(a, b, &result)) return overflow(op);
        return Value::integer(result);
    case Op::Mul:
        if (__builtin_mul_overflow(a, b, &result)) return overflow(op);
        return Value::integer(result);
    case Op::Div:
        if (b == 0) return zero(op);
        return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case Op::FloorDiv:
        if (b == 0) return zero(op);
        if (a == kIntMin && b == -1) return overflow(op);
        return Value::integer(floor_div(a, b));
    case Op::Mod:
        if (b == 0) return zero(op);
        return Value::integer(b == -1 ? 0 : a - floor_div(a, b) * b);
    default:
        break;
    }
    if (b >= 0) return integer_power(a, b);
    if (a == 0) return zero(op);
    return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
}

double float_mod(double a, double b) {
    double r = std::fmod(a, b);
    if (r != 0 && (r < 0) != (b < 0)) r += b;
    return r == 0 ? std::copysign(0.0, b) : r;
}

Result<Value> reals(Op op, double a, double b) {
    if ((op == Op::Div || op == Op::FloorDiv || op == Op::Mod) && b == 0) return zero(op);
    switch (op) {
    case Op::Add:
        return Value::real(a + b);
    case Op::Sub:
        return Value::real(a - b);
    case Op::Mul:
        return Value::real(a * b);
    case Op::Div:
        return Value::real(a / b);
    case Op::FloorDiv: {
        const double whole = std::floor((a - float_mod(a, b)) / b + 0.5);
        return Value::real(whole == 0 ? std::copysign(0.0, a / b) : whole);
    }
    case Op::Mod:
        return Value::real(float_mod(a, b));
    default:
        break;
    }
    if (a == 0 && b < 0) return zero(op);
    if (a < 0 && std::isfinite(b) && b != std::floor(b)) {
        return bad("**: a negative number to a broken power");
    }
    const double result = std::pow(a, b);
    if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
        return bad("**: the result does not fit a double");
    }
    return Value::real(result);
}

Result<Value> repeat_text(Budget& budget, const MarkedText& text, int64_t count) {
    if (count <= 0 || text.size() == 0) return make_text(&budget, "");
    uint64_t size = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(count), text.size(), &size) ||
        !budget.allow_text(size)) {
        budget.fits(std::numeric_limits<uint64_t>::max());
        return budget.error();
    }
    uint64_t n_runs = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(count), text.data.size(), &n_runs) ||
        !budget.allow_values(n_runs)) {
        return budget.error();
    }
    MarkedText out;
    out.bytes.reserve(size);
    for (int64_t i = 0; i < count; ++i)
        out.add(text);
    return make_text(&budget, std::move(out));
}

Result<Value> repeat_list(Budget& budget, const Value& list, int64_t count) {
    std::vector<Value> items;
    const std::vector<Value>& source = list.items();
    if (count > 0 && !source.empty()) {
        uint64_t size = 0;
        if (__builtin_mul_overflow(static_cast<uint64_t>(count), source.size(), &size)) {
            size = std::numeric_limits<uint64_t>::max();
        }
        if (!budget.allow_values(size)) return budget.error();
        items.reserve(size);
        for (int64_t i = 0; i < count; ++i)
            items.insert(items.end(), source.begin(), source.end());
    }
    return make_list(budget, std::move(items), list.kind());
}

Result<Value> concat(Budget& budget, const Value& a, const Value& b) {
    if (a.is_string()) {
        if (!budget.allow_text(a.text().size() + b.text().size())) return budget.error();
        const bool markup = is_markup(a) || is_markup(b);
        MarkedText out;
        out.bytes.reserve(a.text().size() + b.text().size());
        for (const Value* part : {&a, &b}) {
            const bool escape = markup && !is_markup(*part);
            if (escape && !budget.allow_text(out.size() + 5 * part->text().size())) {
                return budget.error();
            }
            out.add(escape ? escape_html(part->text()) : part->text());
        }
        return markup ? make_markup(&budget, std::move(out)) : make_text(&budget, std::move(out));
    }
    if (!budget.allow_values(a.items().size() + b.items().size())) return budget.error();
    std::vector<Value> items;
    items.reserve(a.items().size() + b.items().size());
    items.insert(items.end(), a.items().begin(), a.items().end());
    items.insert(items.end(), b.items().begin(), b.items().end());
    return make_list(budget, std::move(items), a.kind());
}

// The indexes a slice of n items visits: `count` of them from `start` in steps of `step`.
struct Span {
    int64_t start, stop, step, count;
};

Span span_of(int64_t n, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step) {
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    const auto clamp = [&](std::optional<int64_t> bound, int64_t otherwise) {
        if (!bound) return otherwise;
        const int64_t b = *bound < 0 ? (*bound < -n ? -n - 1 : *bound) + n : *bound;
        return std::clamp(b, low, high);
    };
    const int64_t first = clamp(start, step > 0 ? low : high);
    const int64_t last = clamp(stop, step > 0 ? high : low);
    const int64_t distance = step > 0 ? last - first : first - last;
    if (distance <= 0) return {first, last, step, 0};
    const uint64_t stride =
        step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
    const auto count = static_cast<int64_t>((static_cast<uint64_t>(distance) - 1) / stride + 1);
    return {first, last, step, count};
}

Result<Value> slice_text(Budget& budget, const Value& value, const Span& span) {
    const MarkedText& text = value.text();
    const bool ascii = value.text_object().is_ascii();
    if (!budget.spend_bytes(text.size())) return budget.error();
    if (span.count == 0) return make_text(&budget, "");
    const auto first = static_cast<size_t>(span.start);
    if (span.step == 1 || span.count == 1) {
        const size_t begin = ascii ? first : byte_of_point(text.bytes, first);
        const auto n = static_cast<size_t>(span.count);
        const size_t end =
            ascii ? begin + n
                  : begin + byte_of_point(std::string_view(text.bytes).substr(begin), n);
        return make_text(&budget, text.slice(begin, end));
    }
    const auto count = static_cast<uint64_t>(span.count);
    if (!budget.allow_text(text.size()) || !budget.allow_values(count)) return budget.error();
    std::vector<uint32_t> starts;  // where each point starts, and the end
    if (!ascii) {
        for (size_t at = 0; at < text.size(); at += point_at(text.bytes, at).length) {
            starts.push_back(static_cast<uint32_t>(at));
        }
        starts.push_back(static_cast<uint32_t>(text.size()));
    }
    MarkedText out;
    for (int64_t i = 0; i < span.count; ++i) {
        const auto point = static_cast<size_t>(span.start + i * span.step);
        out.add(text, ascii ? point : starts[point], ascii ? point + 1 : starts[point + 1]);
    }
    return make_text(&budget, std::move(out));
}

}  // namespace

Error operand_error(const char* op, const Value& value) {
    if (value.is_undefined() && !value.bytes().empty()) return bad(value.bytes());
    return bad(std::string(op) + " does not work on " + type_name(value));
}

Result<Value> negate(const Value& value) {
    if (value.is(Kind::Float)) return Value::real(-value.as_double());
    if (!value.is_integral()) return operand_error("unary -", value);
    if (value.as_int() == kIntMin) return overflow(Op::Sub);
    return Value::integer(-value.as_int());
}

Result<Value> arithmetic(Budget& budget, Op op, const Value& a, const Value& b) {
    if (a.is_integral() && b.is_integral()) return integers(op, a.as_int(), b.as_int());
    if (a.is_number() && b.is_number()) return reals(op, a.as_double(), b.as_double());
    if (op == Op::Mod && a.is_string()) return percent_format(budget, a, b);
    if (op == Op::Add && a.kind() == b.kind() && (a.is_string() || a.is_sequence())) {
        return concat(budget, a, b);
    }
    if (op == Op::Mul) {
        const bool left = b.is_integral();
        const Value& source = left ? a : b;
        const Value& count = left ? b : a;
        if (count.is_integral() && source.is_string()) {
            NIB_ASSIGN(Value out, repeat_text(budget, source.text(), count.as_int()));
            return keep_markup(source, std::move(out));
        }
        if (count.is_integral() && source.is_sequence()) {
            return repeat_list(budget, source, count.as_int());
        }
    }
    if (a.is_undefined()) return operand_error(symbol(op), a);
    if (b.is_undefined()) return operand_error(symbol(op), b);
    return bad(std::string(symbol(op)) + " does not work on " + type_name(a) + " and " +
               type_name(b));
}

Result<Value> slice(Budget& budget,
                    const Value& object,
                    std::optional<int64_t> start,
                    std::optional<int64_t> stop,
                    std::optional<int64_t> step) {
    if (step && *step == 0) return bad("a slice step cannot be zero");
    const int64_t stride = step.value_or(1);
    if (object.is_string()) {
        const auto n = static_cast<int64_t>(object.text_object().n_points);
        NIB_ASSIGN(Value out, slice_text(budget, object, span_of(n, start, stop, stride)));
        return keep_markup(object, std::move(out));
    }
    if (object.is_sequence()) {
        const std::vector<Value>& source = object.items();
        const Span span = span_of(static_cast<int64_t>(source.size()), start, stop, stride);
        if (!budget.allow_values(static_cast<uint64_t>(span.count))) return budget.error();
        std::vector<Value> items;
        items.reserve(static_cast<size_t>(span.count));
        for (int64_t i = 0; i < span.count; ++i) {
            items.push_back(source[static_cast<size_t>(span.start + i * span.step)]);
        }
        return make_list(budget, std::move(items), object.kind());
    }
    if (object.is(Kind::Range)) {
        const auto& range = object.get<RangeObject>();
        const Span span = span_of(range.count, start, stop, stride);
        auto part = std::make_shared<RangeObject>();
        // Wraps where it overflows; only the bounds that repr() prints of an empty range can.
        const auto place = [&range](int64_t i) {
            return static_cast<int64_t>(static_cast<uint64_t>(range.start) +
                                        static_cast<uint64_t>(range.step) *
                                            static_cast<uint64_t>(i));
        };
        part->start = place(span.start);
        part->stop = place(span.stop);
        part->step = static_cast<int64_t>(static_cast<uint64_t>(range.step) *
                                          static_cast<uint64_t>(span.step));
        part->count = span.count;
        return Value::object(Kind::Range, std::move(part));
    }
    return operand_error("a slice", object);
}

}  // namespace nib::jinja
