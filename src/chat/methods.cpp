// SPDX-License-Identifier: MIT
// Methods of dicts, lists, tuples, ranges, loops and cyclers.
#include "src/chat/builtins_impl.h"

#include <algorithm>

namespace nib::jinja {
namespace {

Value view_of(Evaluator& ev, const Value& dict, ViewObject::What what) {
    auto view = std::make_shared<ViewObject>();
    view->what = what;
    view->dict = dict;
    view->charge(&ev.budget(), 96);
    return Value::object(Kind::View, std::move(view));
}

Result<Value> dict_items(Evaluator& ev, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    return view_of(ev, self, ViewObject::What::Items);
}
Result<Value> dict_keys(Evaluator& ev, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    return view_of(ev, self, ViewObject::What::Keys);
}
Result<Value> dict_values(Evaluator& ev, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    return view_of(ev, self, ViewObject::What::Values);
}

Result<Value> dict_get(Evaluator& ev, const Value& self, Args& args) {
    if (!args.named.empty()) return bad("get takes no keyword arguments");
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"key", "default"}, 1));
    const Value& key = *bound.get(0);
    if (!is_hashable(key)) return bad("unhashable type: '" + type_name(key) + "'");
    if (key.is_string() && !ev.budget().spend_bytes(key.text().size())) return ev.budget().error();
    if (const Value* value = self.dict().find(key)) return *value;
    return bound.get(1) ? *bound.get(1) : Value::none();
}

// Values never change, so a copy is the value itself.
Result<Value> copy(Evaluator&, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    return self;
}

Result<Value> sequence_index(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"value", "start", "stop"}, 1));
    NIB_ASSIGN(const Walk walk, Walk::over(ev.budget(), self));
    const auto n = static_cast<int64_t>(walk.count());
    int64_t limits[2] = {0, n};
    for (size_t i = 0; i < 2; ++i) {
        NIB_ASSIGN(const int64_t x, bound.integer(i + 1, limits[i]));
        limits[i] = x < 0 ? std::max<int64_t>(x < -n ? 0 : x + n, 0) : std::min(x, n);
    }
    for (int64_t i = limits[0]; i < limits[1]; ++i) {
        if (equal(ev.budget(), walk.at(static_cast<size_t>(i)), *bound.get(0)))
            return Value::integer(i);
        if (!ev.budget().spend(1)) return ev.budget().error();
    }
    return bad("index: the value is not in the sequence");
}

Result<Value> sequence_count(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"value"}, 1));
    NIB_ASSIGN(const Walk walk, Walk::over(ev.budget(), self));
    int64_t n = 0;
    for (size_t i = 0; i < walk.count(); ++i) {
        n += equal(ev.budget(), walk.at(i), *bound.get(0));
        if (!ev.budget().spend(1)) return ev.budget().error();
    }
    return Value::integer(n);
}

Result<Value> loop_cycle(Evaluator&, const Value& self, Args& args) {
    if (args.positional.empty()) return bad("loop.cycle: expected items to cycle through");
    return args.positional[self.get<LoopObject>().index % args.positional.size()];
}

Result<Value> loop_changed(Evaluator& ev, const Value& self, Args& args) {
    auto& loop = self.get<LoopObject>();
    if (!loop.walk) return bad("loop.changed: the loop is over");
    bool same = loop.has_changed_value && loop.changed_value.size() == args.positional.size();
    for (size_t i = 0; same && i < args.positional.size(); ++i) {
        same = equal(ev.budget(), loop.changed_value[i], args.positional[i]);
    }
    loop.has_changed_value = true;
    loop.changed_value = args.positional;
    return Value::boolean(!same);
}

Result<Value> cycler_next(Evaluator&, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    auto& cycler = self.get<CyclerObject>();
    const Value value = cycler.items[cycler.position];
    cycler.position = (cycler.position + 1) % cycler.items.size();
    return value;
}

Result<Value> cycler_reset(Evaluator&, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    self.get<CyclerObject>().position = 0;
    return Value::none();
}

constexpr Native kDictMethods[] = {
    {"copy", copy},      {"get", dict_get},       {"items", dict_items},
    {"keys", dict_keys}, {"values", dict_values},
};
constexpr Native kSequenceMethods[] = {
    {"copy", copy}, {"count", sequence_count}, {"index", sequence_index}};
constexpr Native kLoopMethods[] = {{"changed", loop_changed}, {"cycle", loop_cycle}};
constexpr Native kCyclerMethods[] = {{"next", cycler_next}, {"reset", cycler_reset}};

}  // namespace

NativeTable dict_methods() {
    return {std::begin(kDictMethods), std::end(kDictMethods)};
}
NativeTable sequence_methods() {
    return {std::begin(kSequenceMethods), std::end(kSequenceMethods)};
}
NativeTable loop_methods() {
    return {std::begin(kLoopMethods), std::end(kLoopMethods)};
}
NativeTable cycler_methods() {
    return {std::begin(kCyclerMethods), std::end(kCyclerMethods)};
}

}  // namespace nib::jinja
