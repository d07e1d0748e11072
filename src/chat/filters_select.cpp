// SPDX-License-Identifier: MIT
// Filters that apply another filter or a test to each item. They work at once and give an iterator,
// which, like Python's generators, can be walked over only once.
#include "src/chat/builtins_impl.h"

namespace nib::jinja {
namespace {

// Arguments behind the first n positional ones.
Args rest_of(const Args& args, size_t n) {
    Args rest;
    rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(n),
                           args.positional.end());
    rest.named = args.named;
    return rest;
}

Result<Value> map_attribute(Evaluator& ev, std::vector<Value> items, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"attribute", "default"}, 1));
    const Value* otherwise = bound.get(1) && !bound.get(1)->is_none() ? bound.get(1) : nullptr;
    for (Value& item : items) {
        NIB_ASSIGN(item, get_path(ev, item, *bound.get(0), otherwise));
    }
    return make_iterator(ev.budget(), std::move(items));
}

Result<Value> filter_map(Evaluator& ev, const Value& self, Args& args) {
    if (!truthy(self)) return make_iterator(ev.budget(), {});
    NIB_ASSIGN(std::vector<Value> items, all_items(ev, self));
    if (args.positional.empty()) {
        if (args.named.empty()) return bad("map: expected the name of a filter");
        return map_attribute(ev, std::move(items), args);
    }
    const Value& name = args.positional[0];
    const Native* filter = name.is_string() ? find_filter(name.bytes()) : nullptr;
    if (!filter) return bad("map: unknown filter '" + (name.is_string() ? name.bytes() : "") + "'");
    for (Value& item : items) {
        if (!ev.budget().spend(2)) return ev.budget().error();
        Args rest = rest_of(args, 1);
        NIB_ASSIGN(item, filter->fn(ev, item, rest));
    }
    return make_iterator(ev.budget(), std::move(items));
}

Result<Value> choose(
    Evaluator& ev, const Value& self, const Args& args, bool wanted, bool by_attribute) {
    if (!truthy(self)) return make_iterator(ev.budget(), {});
    const size_t n_names = by_attribute ? 1 : 0;
    if (args.positional.size() < n_names) return bad("expected the name of an attribute");
    const Native* test = nullptr;
    if (args.positional.size() > n_names) {
        const Value& name = args.positional[n_names];
        test = name.is_string() ? find_test(name.bytes()) : nullptr;
        if (!test) return bad("unknown test '" + (name.is_string() ? name.bytes() : "") + "'");
    }
    NIB_ASSIGN(const std::vector<Value> items, all_items(ev, self));
    std::vector<Value> out;
    for (const Value& item : items) {
        if (!ev.budget().spend(2)) return ev.budget().error();
        Value value = item;
        if (by_attribute) {
            NIB_ASSIGN(value, get_path(ev, item, args.positional[0]));
        }
        if (test) {
            Args rest = rest_of(args, n_names + 1);
            NIB_ASSIGN(value, test->fn(ev, value, rest));
        }
        if (truthy(value) == wanted) out.push_back(item);
    }
    return make_iterator(ev.budget(), std::move(out));
}

Result<Value> filter_select(Evaluator& ev, const Value& self, Args& args) {
    return choose(ev, self, args, true, false);
}
Result<Value> filter_reject(Evaluator& ev, const Value& self, Args& args) {
    return choose(ev, self, args, false, false);
}
Result<Value> filter_selectattr(Evaluator& ev, const Value& self, Args& args) {
    return choose(ev, self, args, true, true);
}
Result<Value> filter_rejectattr(Evaluator& ev, const Value& self, Args& args) {
    return choose(ev, self, args, false, true);
}

constexpr Native kSelectFilters[] = {
    {"map", filter_map},       {"reject", filter_reject},         {"rejectattr", filter_rejectattr},
    {"select", filter_select}, {"selectattr", filter_selectattr},
};

}  // namespace

NativeTable select_filters() {
    return {std::begin(kSelectFilters), std::end(kSelectFilters)};
}

}  // namespace nib::jinja
