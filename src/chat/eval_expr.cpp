// SPDX-License-Identifier: MIT
// Expressions: what stands in {{ }} and in the tags.
#include "src/chat/builtins.h"
#include "src/chat/evaluator.h"
#include "src/chat/nest.h"
#include "src/chat/operators.h"
#include "src/chat/print.h"

namespace nib::jinja {

Result<Value> Evaluator::eval(const Expr& e) {
    const Nest nest(*this);
    Result<Value> result =
        nest.ok() && budget_.spend(1) ? eval_inner(e) : Result<Value>(nest.error());
    if (!result.ok() && !has_error_at_) {
        has_error_at_ = true;
        error_at_ = e.at;
    }
    return result;
}

Result<Value> Evaluator::eval_inner(const Expr& e) {
    switch (e.kind) {
    case ExprKind::Const:
        return e.value;
    case ExprKind::Name:
        return eval_name(e.name);
    case ExprKind::List:
    case ExprKind::Tuple:
        return eval_items(e);
    case ExprKind::Dict:
        return eval_dict(e);
    case ExprKind::Chain:
        return eval_chain(e);
    case ExprKind::Compare:
        return eval_compare(e);
    case ExprKind::Concat:
        return eval_concat(e);
    case ExprKind::And:
    case ExprKind::Or:
        return eval_logic(e);
    case ExprKind::Not:
    case ExprKind::Negate:
    case ExprKind::Plus:
        return eval_unary(e);
    case ExprKind::Condition:
        return eval_condition(e);
    case ExprKind::Attribute: {
        NIB_ASSIGN(const Value object, eval(*e.kids[0]));
        return get_attribute(object, e.value);
    }
    case ExprKind::Item: {
        NIB_ASSIGN(const Value object, eval(*e.kids[0]));
        NIB_ASSIGN(const Value index, eval(*e.kids[1]));
        return get_item(object, index);
    }
    case ExprKind::Slice:
        return eval_slice(e);
    case ExprKind::Call:
        return eval_call(e);
    case ExprKind::Filter:
        return eval_filter(e, nullptr);
    case ExprKind::Test:
        break;
    }
    return eval_test(e);
}

// Innermost scope first, then the context, then the functions that are always there.
Result<Value> Evaluator::eval_name(uint32_t name) {
    size_t n_seen = 0;
    for (Scope* scope = scope_.get(); scope; scope = scope->parent.get()) {
        n_seen += 1 + scope->variables.size();
        if (const Value* value = scope->find(name)) return *value;
    }
    if (!budget_.spend(n_seen / 16)) return budget_.error();
    const std::string& text = tree_.names[name].bytes();
    if (const Value* value = context_.dict().find(text)) return *value;
    if (const Native* native = find_global(text)) {
        auto function = std::make_shared<FunctionObject>();
        function->native = native;
        function->charge(&budget_, 64);
        return Value::object(Kind::Function, std::move(function));
    }
    return tree_.undefined[name];
}

Result<Value> Evaluator::eval_items(const Expr& e) {
    std::vector<Value> items;
    items.reserve(e.kids.size());
    for (const ExprPtr& kid : e.kids) {
        NIB_ASSIGN(Value item, eval(*kid));
        items.push_back(std::move(item));
    }
    return make_list(budget_, std::move(items),
                     e.kind == ExprKind::List ? Kind::List : Kind::Tuple);
}

Result<Value> Evaluator::eval_dict(const Expr& e) {
    std::vector<std::pair<Value, Value>> entries;
    entries.reserve(e.kids.size() / 2);
    for (size_t i = 0; i < e.kids.size(); i += 2) {
        NIB_ASSIGN(Value key, eval(*e.kids[i]));
        NIB_ASSIGN(Value value, eval(*e.kids[i + 1]));
        entries.emplace_back(std::move(key), std::move(value));
    }
    return make_dict(budget_, std::move(entries));
}

Result<Value> Evaluator::eval_chain(const Expr& e) {
    NIB_ASSIGN(Value value, eval(*e.kids[0]));
    for (size_t i = 0; i < e.ops.size(); ++i) {
        NIB_ASSIGN(const Value right, eval(*e.kids[i + 1]));
        NIB_ASSIGN(value, binary(e.ops[i], value, right));
    }
    return value;
}

Result<Value> Evaluator::eval_compare(const Expr& e) {
    NIB_ASSIGN(Value left, eval(*e.kids[0]));
    Value value = Value::boolean(true);
    for (size_t i = 0; i < e.ops.size() && truthy(value); ++i) {
        NIB_ASSIGN(Value right, eval(*e.kids[i + 1]));
        NIB_ASSIGN(value, binary(e.ops[i], left, right));
        left = std::move(right);
    }
    return value;
}

Result<Value> Evaluator::eval_concat(const Expr& e) {
    MarkedText out;
    for (const ExprPtr& kid : e.kids) {
        NIB_ASSIGN(const Value value, eval(*kid));
        NIB_TRY(print_str(budget_, value, out));
    }
    return text(std::move(out));
}

Result<Value> Evaluator::eval_logic(const Expr& e) {
    const bool stop_at = e.kind == ExprKind::Or;
    Value value;
    for (const ExprPtr& kid : e.kids) {
        NIB_ASSIGN(value, eval(*kid));
        if (truthy(value) == stop_at) break;
    }
    return value;
}

Result<Value> Evaluator::eval_condition(const Expr& e) {
    NIB_ASSIGN(const Value test, eval(*e.kids[0]));
    if (truthy(test)) return eval(*e.kids[1]);
    if (e.kids[2]) return eval(*e.kids[2]);
    return undefined("the condition is false and has no else");
}

Result<Value> Evaluator::eval_unary(const Expr& e) {
    NIB_ASSIGN(const Value value, eval(*e.kids[0]));
    if (e.kind == ExprKind::Not) return Value::boolean(!truthy(value));
    if (e.kind == ExprKind::Plus && value.is_number()) {
        return value.is(Kind::Float) ? value : Value::integer(value.as_int());
    }
    if (e.kind == ExprKind::Negate) return negate(value);
    return operand_error("unary +", value);
}

Result<Value> Evaluator::eval_slice(const Expr& e) {
    NIB_ASSIGN(const Value object, eval(*e.kids[0]));
    std::optional<int64_t> bounds[3];
    for (size_t i = 0; i < 3; ++i) {
        if (!e.kids[i + 1]) continue;
        NIB_ASSIGN(const Value bound, eval(*e.kids[i + 1]));
        if (bound.is_none()) continue;
        if (!bound.is_integral()) return operand_error("a slice bound", bound);
        bounds[i] = bound.as_int();
    }
    return slice(budget_, object, bounds[0], bounds[1], bounds[2]);
}

Result<Args> Evaluator::eval_args(const CallArgs& call) {
    Args args;
    for (const ExprPtr& arg : call.positional) {
        NIB_ASSIGN(Value value, eval(*arg));
        args.positional.push_back(std::move(value));
    }
    for (const auto& [name, arg] : call.named) {
        NIB_ASSIGN(Value value, eval(*arg));
        args.named.emplace_back(name, std::move(value));
    }
    if (call.star) {
        NIB_ASSIGN(const Value more, eval(*call.star));
        NIB_ASSIGN(const Walk walk, Walk::over(budget_, more));
        NIB_ASSIGN(std::vector<Value> values, walk.all(budget_));
        for (Value& value : values)
            args.positional.push_back(std::move(value));
    }
    if (call.double_star) {
        NIB_ASSIGN(const Value more, eval(*call.double_star));
        if (!more.is(Kind::Dict)) return bad("argument after ** must be a mapping");
        if (!budget_.allow_values(2 * more.dict().entries.size())) return budget_.error();
        for (const auto& [name, value] : more.dict().entries) {
            if (!name.is_string()) return bad("keywords must be strings");
            args.named.emplace_back(name, value);
        }
    }
    if (args.named.size() > 1) {
        std::vector<std::pair<Value, Value>> named = args.named;
        NIB_ASSIGN(const Value unique, make_dict(budget_, std::move(named)));
        if (unique.dict().entries.size() != args.named.size()) {
            return bad("a keyword argument is repeated");
        }
    }
    return args;
}

Result<Value> Evaluator::eval_call(const Expr& e) {
    const Expr& callee = *e.kids[0];
    if (callee.kind == ExprKind::Attribute) {
        NIB_ASSIGN(const Value object, eval(*callee.kids[0]));
        if (const Native* native = find_method(object.kind(), callee.value.bytes())) {
            NIB_ASSIGN(Args args, eval_args(*e.call));
            NIB_ASSIGN(Value value, native->fn(*this, object, args));
            return keep_markup(object, std::move(value));
        }
        NIB_ASSIGN(const Value function, get_attribute(object, callee.value));
        NIB_ASSIGN(Args args, eval_args(*e.call));
        return call(function, args);
    }
    NIB_ASSIGN(const Value function, eval(callee));
    NIB_ASSIGN(Args args, eval_args(*e.call));
    return call(function, args);
}

// input: what the innermost filter of a filter block works on.
Result<Value> Evaluator::eval_filter(const Expr& e, const Value* input) {
    Value value;
    if (!e.kids[0]) {
        value = *input;
    } else if (input && e.kids[0]->kind == ExprKind::Filter) {
        NIB_ASSIGN(value, eval_filter(*e.kids[0], input));
    } else {
        NIB_ASSIGN(value, eval(*e.kids[0]));
    }
    if (!e.native) return bad("unknown filter '" + e.value.bytes() + "'");
    NIB_ASSIGN(Args args, eval_args(*e.call));
    return e.native->fn(*this, value, args);
}

Result<Value> Evaluator::eval_test(const Expr& e) {
    NIB_ASSIGN(const Value value, eval(*e.kids[0]));
    if (!e.native) return bad("unknown test '" + e.value.bytes() + "'");
    NIB_ASSIGN(Args args, eval_args(*e.call));
    return e.native->fn(*this, value, args);
}

}  // namespace nib::jinja
