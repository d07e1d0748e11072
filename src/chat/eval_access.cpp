// SPDX-License-Identifier: MIT
// Attributes, items and calls. Only tables of our own are looked into: an attribute that is neither
// a known method nor an entry of the value is undefined, whatever it is called.
#include "src/chat/builtins.h"
#include "src/chat/evaluator.h"
#include "src/chat/nest.h"
#include "src/chat/operators.h"
#include "src/chat/print.h"

#include <algorithm>

namespace nib::jinja {
namespace {

Error undefined_error(const Value& value) {
    return bad(value.bytes().empty() ? "a value is undefined" : value.bytes());
}

Value at_or_undefined(Evaluator& ev, const std::vector<Value>& items, int64_t i) {
    const auto n = static_cast<int64_t>(items.size());
    if (i < 0) i += n;
    if (i < 0 || i >= n) return ev.undefined("the list has no item at this index");
    return items[static_cast<size_t>(i)];
}

}  // namespace

// A method bound to its object, or undefined.
Result<Value> Evaluator::method_of(const Value& object, const Value& name) {
    if (const Native* native = find_method(object.kind(), name.bytes())) {
        auto function = std::make_shared<FunctionObject>();
        function->self = object;
        function->native = native;
        function->charge(&budget_, 96);
        return Value::object(Kind::Function, std::move(function));
    }
    if (is_forbidden_method(object.kind(), name.bytes())) {
        return undefined("'" + name.bytes() + "' of '" + type_name(object) +
                         "' changes a value, which a template may not do");
    }
    return undefined("'" + type_name(object) + "' has no attribute '" + name.bytes().substr(0, 60) +
                     "'");
}

Result<Value> Evaluator::get_attribute(const Value& object, const Value& name) {
    const std::string& key = name.bytes();
    if (!budget_.spend_bytes(key.size())) return budget_.error();
    switch (object.kind()) {
    case Kind::Undefined:
        if (key.starts_with("__")) break;  // Python's own attributes are never seen
        return undefined_error(object);
    case Kind::Dict:
        if (!find_method(Kind::Dict, key) && !is_forbidden_method(Kind::Dict, key)) {
            if (const Value* value = object.dict().find(name)) return *value;
        }
        break;
    case Kind::Namespace:
        budget_.spend(object.get<NamespaceObject>().entries.size() / 16);
        if (const Value* value = object.get<NamespaceObject>().find(key)) return *value;
        break;
    case Kind::Loop:
        return loop_attribute(object, key);
    case Kind::Cycler:
        if (key == "current") {
            const auto& cycler = object.get<CyclerObject>();
            return cycler.items[cycler.position];
        }
        break;
    case Kind::Macro:
        if (key == "name") return object.get<MacroObject>().def->name;
        break;
    case Kind::Tuple:
        if (object.get<ListObject>().is_group && key == "grouper") return object.items()[0];
        if (object.get<ListObject>().is_group && key == "list") return object.items()[1];
        break;
    default:
        break;
    }
    return method_of(object, name);
}

Result<Value> Evaluator::get_item(const Value& object, const Value& index) {
    if (object.is_undefined()) return undefined_error(object);
    if (index.is_string() && !budget_.spend_bytes(index.text().size())) return budget_.error();
    if (object.is(Kind::Dict) && is_hashable(index)) {
        if (const Value* value = object.dict().find(index)) return *value;
    }
    if (index.is_integral()) {
        const int64_t i = index.as_int();
        if (object.is_sequence()) return at_or_undefined(*this, object.items(), i);
        if (object.is_string()) {
            const auto n = static_cast<int64_t>(object.text_object().n_points);
            const int64_t k = i < 0 ? i + n : i;
            if (k >= 0 && k < n) return slice(budget_, object, k, k + 1, std::nullopt);
        }
        if (object.is(Kind::Range)) {
            const auto& range = object.get<RangeObject>();
            const int64_t k = i < 0 ? i + range.count : i;
            if (k >= 0 && k < range.count) return Value::integer(range.at(k));
        }
    }
    if (!index.is_string()) return undefined("'" + type_name(object) + "' has no such item");
    if (object.is(Kind::Dict)) return method_of(object, index);
    return get_attribute(object, index);
}

Result<bool> Evaluator::contains(const Value& container, const Value& item) {
    if (container.is_string()) {
        if (!item.is_string()) {
            return bad("'in' a string expects a string on its left, got " + type_name(item));
        }
        if (!budget_.spend_bytes(container.text().size() + item.text().size())) {
            return budget_.error();
        }
        return find_bytes(container.bytes(), item.bytes()) != std::string_view::npos;
    }
    if (container.is(Kind::Dict)) {
        if (!is_hashable(item)) return bad("unhashable type: '" + type_name(item) + "'");
        if (item.is_string() && !budget_.spend_bytes(item.text().size())) return budget_.error();
        return container.dict().find(item) != nullptr;
    }
    if (container.is(Kind::Range) && item.is_integral()) {
        const auto& range = container.get<RangeObject>();
        if (range.count == 0) return false;
        const int64_t low = std::min(range.at(0), range.at(range.count - 1));
        const int64_t high = std::max(range.at(0), range.at(range.count - 1));
        if (item.as_int() < low || item.as_int() > high) return false;
        const auto from = static_cast<uint64_t>(range.step > 0 ? range.start : item.as_int());
        const auto to = static_cast<uint64_t>(range.step > 0 ? item.as_int() : range.start);
        const auto step = static_cast<uint64_t>(range.step);
        return (to - from) % (range.step > 0 ? step : 0 - step) == 0;
    }
    if (container.is_none() || container.is_number()) {
        return bad("a value of type " + type_name(container) + " cannot hold another");
    }
    NIB_ASSIGN(const Walk walk, Walk::over(budget_, container));
    for (size_t i = 0; i < walk.count(); ++i) {
        if (equal(budget_, walk.at(i), item)) return true;
        if (!budget_.spend(1)) return budget_.error();
    }
    return false;
}

Result<Value> Evaluator::binary(Op op, const Value& a, const Value& b) {
    switch (op) {
    case Op::Eq:
        return Value::boolean(equal(budget_, a, b));
    case Op::Ne:
        return Value::boolean(!equal(budget_, a, b));
    case Op::In:
    case Op::NotIn: {
        NIB_ASSIGN(const bool found, contains(b, a));
        return Value::boolean(found == (op == Op::In));
    }
    case Op::Lt:
    case Op::Ge:
    case Op::Gt:
    case Op::Le: {
        if (a.is_number() && b.is_number() && compare_numbers(a, b) == 2) {
            return Value::boolean(false);
        }
        const bool swap = op == Op::Gt || op == Op::Le;
        NIB_ASSIGN(const bool is_less, swap ? less(budget_, b, a) : less(budget_, a, b));
        return Value::boolean(is_less == (op == Op::Lt || op == Op::Gt));
    }
    default:
        return arithmetic(budget_, op, a, b);
    }
}

Result<Value> Evaluator::new_namespace(std::vector<std::pair<Value, Value>> entries) {
    auto space = std::make_shared<NamespaceObject>();
    space->charge(&budget_, 192);
    for (auto& [key, value] : entries) {
        if (!key.is_string()) return bad("the names of a namespace must be strings");
        space->set(budget_, key, std::move(value));
    }
    namespaces_.push_back(space);
    return Value::object(Kind::Namespace, std::move(space));
}

Result<Value> Evaluator::call(const Value& callee, Args& args) {
    const Nest nest(*this);
    if (!nest.ok()) return nest.error();
    switch (callee.kind()) {
    case Kind::Undefined:
        return undefined_error(callee);
    case Kind::Function: {
        const auto& function = callee.get<FunctionObject>();
        return function.native->fn(*this, function.self, args);
    }
    case Kind::Macro:
        return call_macro(callee.get<MacroObject>(), args);
    case Kind::Loop:
        return call_loop(callee.get<LoopObject>(), args);
    case Kind::Joiner: {
        auto& joiner = callee.get<JoinerObject>();
        if (joiner.used) return joiner.separator;
        joiner.used = true;
        return make_text(&budget_, "");
    }
    default:
        return bad("'" + type_name(callee) + "' is not callable");
    }
}

Value Evaluator::make_macro(const MacroDef& def) {
    auto macro = std::make_shared<MacroObject>();
    macro->def = &def;
    macro->scope = scope_;
    macro->charge(&budget_, 128);
    return Value::object(Kind::Macro, std::move(macro));
}

Result<Value> Evaluator::call_macro(const MacroObject& macro, Args& args) {
    const ScopePtr caller_scope = scope_;
    scope_ = new_scope(macro.scope);
    Result<void> bound = bind_macro(macro, args);
    const ScopePtr inner = scope_;
    scope_ = caller_scope;
    NIB_TRY(std::move(bound));
    NIB_ASSIGN(MarkedText text, captured(macro.def->body, inner));
    return make_text(&budget_, std::move(text));
}

// Fills scope_, the macro's own, with its parameters.
Result<void> Evaluator::bind_macro(const MacroObject& macro, Args& args) {
    const MacroDef& def = *macro.def;
    const size_t n = def.params.size();
    const std::string who = "macro '" + def.name.bytes() + "'";
    std::vector<std::optional<Value>> given(n);
    std::vector<Value> more;
    std::vector<std::pair<Value, Value>> more_named;
    std::optional<Value> caller;
    for (size_t i = 0; i < args.positional.size(); ++i) {
        if (i < n) {
            given[i] = args.positional[i];
        } else if (def.uses_varargs) {
            more.push_back(args.positional[i]);
        } else {
            return bad(who + " takes not more than " + std::to_string(n) + " arguments");
        }
    }
    for (const auto& [key, value] : args.named) {
        size_t i = 0;
        while (i < n && def.param_names[i].bytes() != key.bytes())
            ++i;
        if (i < n) {
            if (given[i]) return bad(who + " got two values for '" + key.bytes() + "'");
            given[i] = value;
        } else if (key.bytes() == "caller" && def.uses_caller) {
            caller = value;
        } else if (def.uses_kwargs) {
            more_named.emplace_back(key, value);
        } else {
            return bad(who + " takes no argument '" + key.bytes() + "'");
        }
    }
    const size_t first_default = n - def.defaults.size();
    for (size_t i = 0; i < n; ++i) {
        if (!given[i] && i >= first_default) {
            NIB_ASSIGN(given[i], eval(*def.defaults[i - first_default]));
        }
        if (!given[i]) {
            given[i] = undefined("parameter '" + def.param_names[i].bytes() + "' was not given");
        }
        set_variable(def.params[i], *given[i]);
    }
    if (def.uses_caller)
        set_variable(kCaller, caller ? *caller : undefined("no caller is defined"));
    if (def.uses_varargs) {
        NIB_ASSIGN(const Value list, make_list(budget_, std::move(more), Kind::Tuple));
        set_variable(kVarargs, list);
    }
    if (def.uses_kwargs) {
        NIB_ASSIGN(const Value dict, make_dict(budget_, std::move(more_named)));
        set_variable(kKwargs, dict);
    }
    return {};
}

// loop(items) in a recursive loop: its body again, one level deeper, as a text.
Result<Value> Evaluator::call_loop(LoopObject& loop, Args& args) {
    if (!loop.statement->recursive) return bad("this loop is not recursive");
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"iterable"}, 1));
    MarkedText text;
    MarkedText* const out = out_;
    const ScopePtr scope = scope_;
    out_ = &text;
    scope_ = loop.outer;
    const Result<void> done = loop_over(*loop.statement, *bound.get(0), loop.depth + 1);
    out_ = out;
    scope_ = scope;
    NIB_TRY(done);
    return make_text(&budget_, std::move(text));
}

Result<Value> Evaluator::loop_attribute(const Value& handle, std::string_view name) {
    const auto& loop = handle.get<LoopObject>();
    const auto n = static_cast<int64_t>(loop.count);
    const auto i = std::min(static_cast<int64_t>(loop.index), n - 1);
    const bool is_running = loop.walk != nullptr;
    if (name == "index") return Value::integer(i + 1);
    if (name == "index0") return Value::integer(i);
    if (name == "revindex") return Value::integer(n - i);
    if (name == "revindex0") return Value::integer(n - i - 1);
    if (name == "first") return Value::boolean(i == 0);
    if (name == "last") return Value::boolean(i + 1 == n);
    if (name == "length") return Value::integer(n);
    if (name == "depth") return Value::integer(loop.depth + 1);
    if (name == "depth0") return Value::integer(loop.depth);
    if (name == "previtem") {
        if (i == 0 || !is_running) return undefined("there is no previous item");
        return loop.item(loop.index - 1);
    }
    if (name == "nextitem") {
        if (i + 1 >= n || !is_running) return undefined("there is no next item");
        return loop.item(loop.index + 1);
    }
    return method_of(handle, make_text(nullptr, name));
}

}  // namespace nib::jinja
