// SPDX-License-Identifier: MIT
// Filters on sequences and dicts: choosing, ordering, grouping.
#include "src/chat/builtins_impl.h"
#include "src/chat/print.h"

#include <algorithm>
#include <set>

namespace nib::jinja {
namespace {

bool is_given(const Value* value) {
    return value && !value->is_none();
}

Value lowered(Evaluator& ev, const Value& value) {
    if (!value.is_string()) return value;
    ev.budget().spend_bytes(8 * value.text().size());
    return make_text(&ev.budget(), change_case(value.text(), Casing::Lower));
}

// What items are ordered by: an attribute path or the item itself, texts in lower case unless told.
Result<Value> key_of(Evaluator& ev,
                     const Value& item,
                     const Value* path,
                     bool case_sensitive,
                     const Value* otherwise = nullptr) {
    Value key = item;
    if (is_given(path)) {
        NIB_ASSIGN(key, get_path(ev, item, *path, otherwise));
    }
    return case_sensitive ? key : lowered(ev, key);
}

// Several paths with commas between give a list of keys.
Result<Value> keys_of(Evaluator& ev, const Value& item, const Value* path, bool case_sensitive) {
    if (!is_given(path) || !path->is_string() || path->bytes().find(',') == std::string::npos) {
        return key_of(ev, item, path, case_sensitive);
    }
    std::vector<Value> keys;
    const std::string& all = path->bytes();
    for (size_t begin = 0; begin <= all.size();) {
        const size_t end = std::min(all.find(',', begin), all.size());
        const Value part = make_text(&ev.budget(), all.substr(begin, end - begin));
        NIB_ASSIGN(Value key, key_of(ev, item, &part, case_sensitive));
        keys.push_back(std::move(key));
        begin = end + 1;
    }
    return make_list(ev.budget(), std::move(keys));
}

// sort compares lists of keys, in which equal keys are never asked for their order (None < None is
// an error).
Result<bool> less_unless_equal(Budget& budget, const Value& a, const Value& b) {
    if (equal(budget, a, b)) return false;
    return less(budget, a, b);
}

using Less = Result<bool> (*)(Budget&, const Value&, const Value&);

// A stable merge sort of positions, because comparing may fail.
Result<void> merge_sort(Budget& budget,
                        const std::vector<Value>& keys,
                        std::vector<size_t>& order,
                        bool reverse,
                        Less less_than) {
    std::vector<size_t> merged(order.size());
    for (size_t width = 1; width < order.size(); width *= 2) {
        for (size_t low = 0; low < order.size(); low += 2 * width) {
            const size_t middle = std::min(low + width, order.size());
            const size_t high = std::min(low + 2 * width, order.size());
            size_t a = low, b = middle;
            for (size_t to = low; to < high; ++to) {
                bool take_b = a == middle;
                if (a < middle && b < high) {
                    const Value& x = keys[order[reverse ? a : b]];
                    const Value& y = keys[order[reverse ? b : a]];
                    NIB_ASSIGN(take_b, less_than(budget, x, y));
                }
                merged[to] = order[take_b ? b++ : a++];
            }
        }
        order.swap(merged);
    }
    return {};
}

Result<std::vector<Value>> sorted_by(Budget& budget,
                                     const std::vector<Value>& items,
                                     const std::vector<Value>& keys,
                                     bool reverse,
                                     Less less_than = less) {
    std::vector<size_t> order(items.size());
    for (size_t i = 0; i < order.size(); ++i)
        order[i] = i;
    NIB_TRY(merge_sort(budget, keys, order, reverse, less_than));
    std::vector<Value> out;
    out.reserve(items.size());
    for (const size_t i : order)
        out.push_back(items[i]);
    return out;
}

Result<Value> filter_sort(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"reverse", "case_sensitive", "attribute"}, 0));
    NIB_ASSIGN(const std::vector<Value> items, all_items(ev, self));
    std::vector<Value> keys;
    for (const Value& item : items) {
        NIB_ASSIGN(Value key, keys_of(ev, item, bound.get(2), bound.truth(1, false)));
        keys.push_back(std::move(key));
    }
    NIB_ASSIGN(std::vector<Value> sorted,
               sorted_by(ev.budget(), items, keys, bound.truth(0, false), less_unless_equal));
    return make_list(ev.budget(), std::move(sorted));
}

Result<Value> filter_dictsort(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"case_sensitive", "by", "reverse"}, 0));
    NIB_ASSIGN(const std::string by, bound.text(1, "key"));
    if (by != "key" && by != "value") return bad("dictsort: expected by 'key' or 'value'");
    if (!self.is(Kind::Dict)) return bad("dictsort: expected a dict, got " + type_name(self));
    if (!ev.budget().allow_values(3 * self.dict().entries.size())) return ev.budget().error();
    std::vector<Value> pairs, keys;
    for (const auto& [key, value] : self.dict().entries) {
        NIB_ASSIGN(Value pair, make_list(ev.budget(), {key, value}, Kind::Tuple));
        pairs.push_back(std::move(pair));
        const Value& chosen = by == "key" ? key : value;
        keys.push_back(bound.truth(0, false) ? chosen : lowered(ev, chosen));
    }
    NIB_ASSIGN(std::vector<Value> sorted,
               sorted_by(ev.budget(), pairs, keys, bound.truth(2, false)));
    return make_list(ev.budget(), std::move(sorted));
}

Result<Value> filter_groupby(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"attribute", "default", "case_sensitive"}, 1));
    NIB_ASSIGN(const std::vector<Value> items, all_items(ev, self));
    const Value* otherwise = is_given(bound.get(1)) ? bound.get(1) : nullptr;
    const bool case_sensitive = bound.truth(2, false);
    std::vector<Value> keys, positions;
    for (size_t i = 0; i < items.size(); ++i) {
        NIB_ASSIGN(Value key, key_of(ev, items[i], bound.get(0), case_sensitive, otherwise));
        keys.push_back(std::move(key));
        positions.push_back(Value::integer(static_cast<int64_t>(i)));
    }
    NIB_ASSIGN(const std::vector<Value> order, sorted_by(ev.budget(), positions, keys, false));
    std::vector<Value> groups;
    for (size_t i = 0; i < order.size();) {
        const auto first = static_cast<size_t>(order[i].as_int());
        std::vector<Value> members;
        for (; i < order.size(); ++i) {
            const auto at = static_cast<size_t>(order[i].as_int());
            if (!equal(ev.budget(), keys[first], keys[at])) break;
            members.push_back(items[at]);
        }
        if (members.empty()) return ev.budget().error();
        NIB_ASSIGN(Value grouper, key_of(ev, items[first], bound.get(0), true, otherwise));
        NIB_ASSIGN(Value list, make_list(ev.budget(), std::move(members)));
        NIB_ASSIGN(Value group, make_list(ev.budget(), {grouper, list}, Kind::Tuple));
        group.get<ListObject>().is_group = true;
        groups.push_back(std::move(group));
    }
    return make_list(ev.budget(), std::move(groups));
}

Result<Value> filter_unique(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"case_sensitive", "attribute"}, 0));
    NIB_ASSIGN(const std::vector<Value> items, all_items(ev, self));
    const auto before = [](const Value& a, const Value& b) { return key_order(a, b) < 0; };
    std::set<Value, decltype(before)> seen(before);
    std::vector<Value> out;
    for (const Value& item : items) {
        NIB_ASSIGN(Value key, key_of(ev, item, bound.get(1), bound.truth(0, false)));
        if (!is_hashable(key)) return bad("unhashable type: '" + type_name(key) + "'");
        if (seen.insert(std::move(key)).second) out.push_back(item);
    }
    return make_iterator(ev.budget(), std::move(out));
}

Result<Value> extreme(Evaluator& ev, const Value& self, Args& args, bool want_max) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"case_sensitive", "attribute"}, 0));
    NIB_ASSIGN(const std::vector<Value> items, all_items(ev, self));
    if (items.empty()) return ev.undefined("the sequence is empty");
    size_t best = 0;
    Value best_key;
    for (size_t i = 0; i < items.size(); ++i) {
        NIB_ASSIGN(Value key, key_of(ev, items[i], bound.get(1), bound.truth(0, false)));
        bool better = i == 0;
        if (i > 0) {
            NIB_ASSIGN(better, want_max ? less(ev.budget(), best_key, key)
                                        : less(ev.budget(), key, best_key));
        }
        if (!better) continue;
        best = i;
        best_key = std::move(key);
    }
    return items[best];
}

Result<Value> filter_min(Evaluator& ev, const Value& self, Args& args) {
    return extreme(ev, self, args, false);
}
Result<Value> filter_max(Evaluator& ev, const Value& self, Args& args) {
    return extreme(ev, self, args, true);
}

Result<Value> filter_length(Evaluator&, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    NIB_ASSIGN(const int64_t n, length_of(self));
    return Value::integer(n);
}

Result<Value> filter_list(Evaluator& ev, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    NIB_ASSIGN(std::vector<Value> items, all_items(ev, self));
    return make_list(ev.budget(), std::move(items));
}

Result<Value> filter_first(Evaluator& ev, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    NIB_ASSIGN(const Walk walk, Walk::over(ev.budget(), self));
    return walk.count() > 0 ? walk.at(0) : ev.undefined("the sequence has no first item");
}

Result<Value> filter_last(Evaluator& ev, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    if (self.is(Kind::Iterator)) return bad("last: a generator cannot be read from its end");
    NIB_ASSIGN(const Walk walk, Walk::over(ev.budget(), self));
    const size_t n = walk.count();
    return n > 0 ? walk.at(n - 1) : ev.undefined("the sequence has no last item");
}

Result<Value> filter_reverse(Evaluator& ev, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    NIB_ASSIGN(std::vector<Value> items, all_items(ev, self));
    std::reverse(items.begin(), items.end());
    if (!self.is_string()) return make_iterator(ev.budget(), std::move(items));
    MarkedText text;
    for (const Value& item : items)
        text.add(item.text());
    return ev.text(std::move(text));
}

Result<Value> filter_items(Evaluator& ev, const Value& self, Args& args) {
    NIB_TRY(Bound::bind(args, {}, 0));
    if (self.is_undefined()) return make_iterator(ev.budget(), {});
    if (!self.is(Kind::Dict)) return bad("items: expected a dict, got " + type_name(self));
    auto view = std::make_shared<ViewObject>();
    view->what = ViewObject::What::Items;
    view->dict = self;
    NIB_ASSIGN(std::vector<Value> pairs, all_items(ev, Value::object(Kind::View, std::move(view))));
    return make_iterator(ev.budget(), std::move(pairs));
}

Result<Value> filter_batch(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"linecount", "fill_with"}, 1));
    NIB_ASSIGN(const int64_t n, bound.integer(0, 0));
    NIB_ASSIGN(const std::vector<Value> items, all_items(ev, self));
    std::vector<Value> rows, row;
    const auto flush = [&]() -> Result<void> {
        NIB_ASSIGN(Value list, make_list(ev.budget(), std::move(row)));
        rows.push_back(std::move(list));
        row = {};
        return {};
    };
    for (const Value& item : items) {
        if (static_cast<int64_t>(row.size()) == n) NIB_TRY(flush());
        row.push_back(item);
    }
    if (!row.empty()) {
        const auto size = static_cast<int64_t>(row.size());
        if (is_given(bound.get(1)) && size < n) {
            if (!ev.budget().allow_values(static_cast<uint64_t>(n))) return ev.budget().error();
            row.resize(static_cast<size_t>(n), *bound.get(1));
        }
        NIB_TRY(flush());
    }
    return make_iterator(ev.budget(), std::move(rows));
}

Result<Value> filter_slice(Evaluator& ev, const Value& self, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"slices", "fill_with"}, 1));
    NIB_ASSIGN(const int64_t slices, bound.integer(0, 0));
    if (slices == 0) return bad("slice: expected a number of slices, got 0");
    if (slices < 0) return make_iterator(ev.budget(), {});
    NIB_ASSIGN(const std::vector<Value> items, all_items(ev, self));
    if (!ev.budget().allow_values(4 * static_cast<uint64_t>(slices))) return ev.budget().error();
    const auto n = static_cast<int64_t>(items.size());
    const int64_t each = n / slices, longer = n % slices;
    std::vector<Value> out;
    int64_t at = 0;
    for (int64_t i = 0; i < slices; ++i) {
        const int64_t end = at + each + (i < longer ? 1 : 0);
        std::vector<Value> part(items.begin() + at, items.begin() + end);
        if (is_given(bound.get(1)) && i >= longer) part.push_back(*bound.get(1));
        NIB_ASSIGN(Value list, make_list(ev.budget(), std::move(part)));
        out.push_back(std::move(list));
        at = end;
    }
    return make_iterator(ev.budget(), std::move(out));
}

constexpr Native kListFilters[] = {
    {"batch", filter_batch}, {"count", filter_length},    {"dictsort", filter_dictsort},
    {"first", filter_first}, {"groupby", filter_groupby}, {"items", filter_items},
    {"last", filter_last},   {"length", filter_length},   {"list", filter_list},
    {"max", filter_max},     {"min", filter_min},         {"reverse", filter_reverse},
    {"slice", filter_slice}, {"sort", filter_sort},       {"unique", filter_unique},
};

}  // namespace

NativeTable list_filters() {
    return {std::begin(kListFilters), std::end(kListFilters)};
}

Result<std::vector<Value>> all_items(Evaluator& ev, const Value& source) {
    NIB_ASSIGN(const Walk walk, Walk::over(ev.budget(), source));
    return walk.all(ev.budget());
}

Result<int64_t> length_of(const Value& value) {
    switch (value.kind()) {
    case Kind::Undefined:
        return int64_t{0};
    case Kind::String:
        return static_cast<int64_t>(value.text_object().n_points);
    case Kind::List:
    case Kind::Tuple:
        return static_cast<int64_t>(value.items().size());
    case Kind::Dict:
        return static_cast<int64_t>(value.dict().entries.size());
    case Kind::View:
        return static_cast<int64_t>(value.get<ViewObject>().dict.dict().entries.size());
    case Kind::Range:
        return value.get<RangeObject>().count;
    case Kind::Loop:
        return static_cast<int64_t>(value.get<LoopObject>().count);
    default:
        return bad("a value of type " + type_name(value) + " has no length");
    }
}

Result<Value> get_path(Evaluator& ev,
                       const Value& item,
                       const Value& path,
                       const Value* otherwise) {
    if (!path.is_string()) {
        NIB_ASSIGN(Value value, ev.get_item(item, path));
        return value.is_undefined() && otherwise ? *otherwise : value;
    }
    Value value = item;
    const std::string& text = path.bytes();
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find('.', begin), text.size());
        const std::string part = text.substr(begin, end - begin);
        const bool is_number = !part.empty() && part.size() < 18 &&
                               part.find_first_not_of("0123456789") == std::string::npos;
        const Value step = is_number ? Value::integer(std::stoll(part)) : make_text(nullptr, part);
        NIB_ASSIGN(value, ev.get_item(value, step));
        if (value.is_undefined() && otherwise) value = *otherwise;
        begin = end + 1;
    }
    return value;
}

}  // namespace nib::jinja
