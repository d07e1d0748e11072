// SPDX-License-Identifier: MIT
// What may stand behind `is`. Every test gives a bool.
#include "src/chat/builtins_impl.h"
#include "src/chat/operators.h"
#include "src/chat/print.h"

namespace nib::jinja {
namespace {

Result<Value> when(Args& args, bool result) {
    NIB_TRY(Bound::bind(args, {}, 0));
    return Value::boolean(result);
}

Result<Value> test_defined(Evaluator&, const Value& v, Args& a) {
    return when(a, !v.is_undefined());
}
Result<Value> test_undefined(Evaluator&, const Value& v, Args& a) {
    return when(a, v.is_undefined());
}
Result<Value> test_none(Evaluator&, const Value& v, Args& a) {
    return when(a, v.is_none());
}
Result<Value> test_boolean(Evaluator&, const Value& v, Args& a) {
    return when(a, v.is(Kind::Bool));
}
Result<Value> test_true(Evaluator&, const Value& v, Args& a) {
    return when(a, v.is(Kind::Bool) && v.as_bool());
}
Result<Value> test_false(Evaluator&, const Value& v, Args& a) {
    return when(a, v.is(Kind::Bool) && !v.as_bool());
}
Result<Value> test_integer(Evaluator&, const Value& v, Args& a) {
    return when(a, v.is(Kind::Int));
}
Result<Value> test_float(Evaluator&, const Value& v, Args& a) {
    return when(a, v.is(Kind::Float));
}
Result<Value> test_number(Evaluator&, const Value& v, Args& a) {
    return when(a, v.is_number());
}
Result<Value> test_string(Evaluator&, const Value& v, Args& a) {
    return when(a, v.is_string());
}
Result<Value> test_mapping(Evaluator&, const Value& v, Args& a) {
    return when(a, v.is(Kind::Dict));
}
Result<Value> test_escaped(Evaluator&, const Value& v, Args& a) {
    return when(a, is_markup(v));
}

Result<Value> test_sequence(Evaluator&, const Value& v, Args& a) {
    return when(a, v.is_string() || v.is_sequence() || v.is(Kind::Dict) || v.is(Kind::Range) ||
                       v.is_undefined());
}

Result<Value> test_iterable(Evaluator&, const Value& v, Args& a) {
    return when(a, v.is_string() || v.is_sequence() || v.is(Kind::Dict) || v.is(Kind::Range) ||
                       v.is(Kind::View) || v.is(Kind::Iterator) || v.is(Kind::Loop) ||
                       v.is_undefined());
}

Result<Value> test_callable(Evaluator&, const Value& v, Args& a) {
    return when(a, v.is(Kind::Function) || v.is(Kind::Macro) || v.is(Kind::Loop) ||
                       v.is(Kind::Joiner) || v.is_undefined());
}

Result<Value> cased(Evaluator& ev, const Value& v, Args& args, const char* method) {
    NIB_ASSIGN(MarkedText text, to_str(ev.budget(), v));
    return find_method(Kind::String, method)
        ->fn(ev, make_text(&ev.budget(), std::move(text)), args);
}

Result<Value> test_lower(Evaluator& ev, const Value& v, Args& args) {
    return cased(ev, v, args, "islower");
}
Result<Value> test_upper(Evaluator& ev, const Value& v, Args& args) {
    return cased(ev, v, args, "isupper");
}

Result<Value> remainder_is(Evaluator& ev, const Value& v, const Value& divisor, int64_t wanted) {
    NIB_ASSIGN(const Value rest, ev.binary(Op::Mod, v, divisor));
    return Value::boolean(equal(ev.budget(), rest, Value::integer(wanted)));
}

Result<Value> test_odd(Evaluator& ev, const Value& v, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    return remainder_is(ev, v, Value::integer(2), 1);
}
Result<Value> test_even(Evaluator& ev, const Value& v, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    return remainder_is(ev, v, Value::integer(2), 0);
}
Result<Value> test_divisibleby(Evaluator& ev, const Value& v, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"num"}, 1));
    return remainder_is(ev, v, *bound.get(0), 0);
}

Result<Value> compared(Evaluator& ev, const Value& v, Args& args, Op op) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"other"}, 1));
    return ev.binary(op, v, *bound.get(0));
}

Result<Value> test_eq(Evaluator& ev, const Value& v, Args& a) {
    return compared(ev, v, a, Op::Eq);
}
Result<Value> test_ne(Evaluator& ev, const Value& v, Args& a) {
    return compared(ev, v, a, Op::Ne);
}
Result<Value> test_lt(Evaluator& ev, const Value& v, Args& a) {
    return compared(ev, v, a, Op::Lt);
}
Result<Value> test_le(Evaluator& ev, const Value& v, Args& a) {
    return compared(ev, v, a, Op::Le);
}
Result<Value> test_gt(Evaluator& ev, const Value& v, Args& a) {
    return compared(ev, v, a, Op::Gt);
}
Result<Value> test_ge(Evaluator& ev, const Value& v, Args& a) {
    return compared(ev, v, a, Op::Ge);
}
Result<Value> test_in(Evaluator& ev, const Value& v, Args& a) {
    return compared(ev, v, a, Op::In);
}

// The same object: constants are, and handles to one shared value.
Result<Value> test_sameas(Evaluator& ev, const Value& v, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"other"}, 1));
    const Value& other = *bound.get(0);
    if (v.kind() != other.kind()) return Value::boolean(false);
    if (v.is_number() || v.is_none()) return Value::boolean(equal(ev.budget(), v, other));
    return Value::boolean(v.identity() == other.identity());
}

Result<Value> test_filter(Evaluator&, const Value& v, Args& a) {
    return when(a, v.is_string() && find_filter(v.bytes()));
}
Result<Value> test_test(Evaluator&, const Value& v, Args& a) {
    return when(a, v.is_string() && find_test(v.bytes()));
}

constexpr Native kTests[] = {
    {"!=", test_ne},
    {"<", test_lt},
    {"<=", test_le},
    {"==", test_eq},
    {">", test_gt},
    {">=", test_ge},
    {"boolean", test_boolean},
    {"callable", test_callable},
    {"defined", test_defined},
    {"divisibleby", test_divisibleby},
    {"eq", test_eq},
    {"equalto", test_eq},
    {"escaped", test_escaped},
    {"even", test_even},
    {"false", test_false},
    {"filter", test_filter},
    {"float", test_float},
    {"ge", test_ge},
    {"greaterthan", test_gt},
    {"gt", test_gt},
    {"in", test_in},
    {"integer", test_integer},
    {"iterable", test_iterable},
    {"le", test_le},
    {"lessthan", test_lt},
    {"lower", test_lower},
    {"lt", test_lt},
    {"mapping", test_mapping},
    {"ne", test_ne},
    {"none", test_none},
    {"number", test_number},
    {"odd", test_odd},
    {"sameas", test_sameas},
    {"sequence", test_sequence},
    {"string", test_string},
    {"test", test_test},
    {"true", test_true},
    {"undefined", test_undefined},
    {"upper", test_upper},
};

}  // namespace

NativeTable tests() {
    return {std::begin(kTests), std::end(kTests)};
}

}  // namespace nib::jinja
