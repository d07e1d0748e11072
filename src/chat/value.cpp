// SPDX-License-Identifier: MIT
#include "src/chat/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace nib::jinja {
namespace {

constexpr size_t kScanEntries = 8;  // dicts up to this size are searched entry by entry
constexpr size_t kObjectBytes = 96;

int sign(int64_t x) {
    return x < 0 ? -1 : x > 0;
}

int compare_bytes(std::string_view a, std::string_view b) {
    return sign(a.compare(b));
}

int rank(const Value& v) {
    if (v.is_number()) return 0;
    return 1 + static_cast<int>(v.kind());
}

uint32_t deepest(const std::vector<Value>& items) {
    uint32_t depth = 0;
    for (const Value& item : items)
        depth = std::max(depth, depth_of(item));
    return depth;
}

Error too_deep() {
    return bad("values nested too deep");
}

Value pair_of(Budget* budget, const Value& key, const Value& value) {
    auto pair = std::make_shared<ListObject>();
    pair->items = {key, value};
    pair->depth = 1 + std::max(depth_of(key), depth_of(value));
    pair->charge(budget, kObjectBytes + 2 * sizeof(Value));
    return Value::object(Kind::Tuple, std::move(pair));
}

bool equal_items(Budget& budget, const std::vector<Value>& a, const std::vector<Value>& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
        if (!equal(budget, a[i], b[i])) return false;
    }
    return true;
}

bool equal_dicts(Budget& budget, const DictObject& a, const DictObject& b) {
    if (a.entries.size() != b.entries.size()) return false;
    for (const auto& [key, value] : a.entries) {
        const Value* other = b.find(key);
        if (!other || !equal(budget, value, *other)) return false;
    }
    return true;
}

}  // namespace

Error bad(std::string message) {
    return Error{Status::BadRequest, std::move(message)};
}

size_t find_bytes(std::string_view text, std::string_view needle, size_t from) {
    if (from > text.size()) return std::string_view::npos;
    if (needle.empty()) return from;
    const void* at = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
    return at ? static_cast<size_t>(static_cast<const char*>(at) - text.data())
              : std::string_view::npos;
}

const MarkedText& Value::text() const {
    static const MarkedText kEmpty;
    return object_ ? get<TextObject>().text : kEmpty;
}

const std::vector<Value>& Value::items() const {
    return get<ListObject>().items;
}

Value make_text(Budget* budget, MarkedText text) {
    auto object = std::make_shared<TextObject>();
    object->text = std::move(text);
    object->n_points = count_points(object->text.bytes);
    object->charge(budget, kObjectBytes + object->text.bytes.capacity() +
                               object->text.data.capacity() * sizeof(MarkedText::Run));
    return Value::object(Kind::String, std::move(object));
}

Value make_markup(Budget* budget, MarkedText text) {
    Value value = make_text(budget, std::move(text));
    value.get<TextObject>().is_markup = true;
    return value;
}

bool is_markup(const Value& value) {
    return value.is_string() && value.text_object().is_markup;
}

Value keep_markup(const Value& like, Value value) {
    if (!is_markup(like) || !value.is_string() || is_markup(value)) return value;
    const TextObject& text = value.text_object();
    return make_markup(text.budget, text.text);
}

Value make_undefined(Budget* budget, std::string reason) {
    auto object = std::make_shared<TextObject>();
    object->text.bytes = std::move(reason);
    object->charge(budget, kObjectBytes + object->text.bytes.size());
    return Value::object(Kind::Undefined, std::move(object));
}

Result<Value> make_list(Budget& budget, std::vector<Value> items, Kind kind) {
    auto list = std::make_shared<ListObject>();
    list->depth = 1 + deepest(items);
    if (list->depth > budget.depth_max()) return too_deep();
    list->items = std::move(items);
    list->charge(&budget, kObjectBytes + list->items.capacity() * sizeof(Value));
    return Value::object(kind, std::move(list));
}

Result<Value> make_iterator(Budget& budget, std::vector<Value> items) {
    auto iterator = std::make_shared<IteratorObject>();
    iterator->depth = 1 + deepest(items);
    if (iterator->depth > budget.depth_max()) return too_deep();
    iterator->items = std::move(items);
    iterator->charge(&budget, kObjectBytes + iterator->items.capacity() * sizeof(Value));
    return Value::object(Kind::Iterator, std::move(iterator));
}

Result<Value> make_dict(Budget& budget, std::vector<std::pair<Value, Value>> entries) {
    auto dict = std::make_shared<DictObject>();
    for (const auto& [key, value] : entries) {
        if (!is_hashable(key)) return bad("unhashable type: '" + type_name(key) + "'");
        dict->depth = std::max({dict->depth, 1 + depth_of(key), 1 + depth_of(value)});
    }
    if (dict->depth > budget.depth_max()) return too_deep();
    std::vector<uint32_t> order(entries.size());
    for (uint32_t i = 0; i < order.size(); ++i)
        order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return key_order(entries[a].first, entries[b].first) < 0;
    });
    std::vector<bool> drop(entries.size());
    size_t n_dropped = 0;
    for (size_t i = 1, first = 0; i < order.size(); ++i) {
        if (key_order(entries[order[first]].first, entries[order[i]].first) == 0) {
            entries[order[first]].second = std::move(entries[order[i]].second);
            drop[order[i]] = true;
            ++n_dropped;
        } else {
            first = i;
        }
    }
    if (n_dropped > 0) {
        std::vector<std::pair<Value, Value>> kept;
        for (size_t i = 0; i < entries.size(); ++i) {
            if (!drop[i]) kept.push_back(std::move(entries[i]));
        }
        return make_dict(budget, std::move(kept));
    }
    dict->entries = std::move(entries);
    if (dict->entries.size() > kScanEntries) dict->sorted = std::move(order);
    dict->charge(&budget, kObjectBytes + dict->entries.capacity() * (2 * sizeof(Value) + 4));
    return Value::object(Kind::Dict, std::move(dict));
}

const Value* DictObject::find(const Value& key) const {
    if (sorted.empty()) {
        for (const auto& [name, value] : entries) {
            if (key_order(name, key) == 0) return &value;
        }
        return nullptr;
    }
    const auto at = std::lower_bound(
        sorted.begin(), sorted.end(), key,
        [&](uint32_t i, const Value& k) { return key_order(entries[i].first, k) < 0; });
    if (at == sorted.end() || key_order(entries[*at].first, key) != 0) return nullptr;
    return &entries[*at].second;
}

const Value* DictObject::find(std::string_view key) const {
    if (!sorted.empty()) return find(make_text(nullptr, key));
    for (const auto& [name, value] : entries) {
        if (name.is_string() && name.bytes() == key) return &value;
    }
    return nullptr;
}

Value* NamespaceObject::find(std::string_view key) {
    for (auto& [name, value] : entries) {
        if (name.bytes() == key) return &value;
    }
    return nullptr;
}

void NamespaceObject::set(Budget& to, const Value& key, Value value) {
    to.spend(entries.size() / 16);
    if (Value* old = find(key.bytes())) {
        *old = std::move(value);
        return;
    }
    entries.emplace_back(key, std::move(value));
    charge(&to, 4 * sizeof(Value));
}

Result<Bound> Bound::bind(Args& args, std::initializer_list<const char*> names, size_t required) {
    Bound bound;
    std::copy(names.begin(), names.end(), bound.names_);
    if (args.positional.size() > names.size()) {
        return bad("takes at most " + std::to_string(names.size()) + " arguments, got " +
                   std::to_string(args.positional.size()));
    }
    for (size_t i = 0; i < args.positional.size(); ++i)
        bound.values_[i] = args.positional[i];
    for (const auto& [key, value] : args.named) {
        const auto* at = std::find_if(names.begin(), names.end(), [&key = key](const char* name) {
            return key.bytes() == name;
        });
        if (at == names.end()) return bad("unexpected keyword argument '" + key.bytes() + "'");
        const auto i = static_cast<size_t>(at - names.begin());
        if (bound.values_[i]) return bad("two values for argument '" + key.bytes() + "'");
        bound.values_[i] = value;
    }
    for (size_t i = 0; i < required; ++i) {
        if (!bound.values_[i])
            return bad(std::string("missing argument '") + bound.names_[i] + "'");
    }
    return bound;
}

Result<int64_t> Bound::integer(size_t i, int64_t otherwise) const {
    if (!values_[i]) return otherwise;
    if (!values_[i]->is_integral()) {
        return bad(std::string("argument '") + names_[i] + "': expected an integer, got " +
                   type_name(*values_[i]));
    }
    return values_[i]->as_int();
}

bool Bound::truth(size_t i, bool otherwise) const {
    return values_[i] ? truthy(*values_[i]) : otherwise;
}

Result<std::string> Bound::text(size_t i, std::string_view otherwise) const {
    if (!values_[i]) return std::string(otherwise);
    if (!values_[i]->is_string()) {
        return bad(std::string("argument '") + names_[i] + "': expected a string, got " +
                   type_name(*values_[i]));
    }
    return values_[i]->bytes();
}

std::string type_name(const Value& value) {
    static constexpr const char* kNames[] = {
        "Undefined", "NoneType", "bool",  "int",         "float",     "str",
        "list",      "tuple",    "dict",  "range",       "dict view", "generator",
        "Namespace", "function", "Macro", "LoopContext", "Cycler",    "Joiner"};
    return kNames[static_cast<size_t>(value.kind())];
}

uint32_t depth_of(const Value& value) {
    switch (value.kind()) {
    case Kind::List:
    case Kind::Tuple:
        return value.get<ListObject>().depth;
    case Kind::Dict:
        return value.dict().depth;
    case Kind::View:
        return 1 + depth_of(value.get<ViewObject>().dict);
    case Kind::Iterator:
        return value.get<IteratorObject>().depth;
    case Kind::Function:
        return 1 + depth_of(value.get<FunctionObject>().self);
    default:
        return 0;
    }
}

bool truthy(const Value& value) {
    switch (value.kind()) {
    case Kind::Undefined:
    case Kind::None:
        return false;
    case Kind::Bool:
    case Kind::Int:
        return value.as_int() != 0;
    case Kind::Float:
        return value.as_double() != 0;
    case Kind::String:
        return value.text().size() > 0;
    case Kind::List:
    case Kind::Tuple:
        return !value.items().empty();
    case Kind::Dict:
        return !value.dict().entries.empty();
    case Kind::Range:
        return value.get<RangeObject>().count > 0;
    case Kind::View:
        return truthy(value.get<ViewObject>().dict);
    default:
        return true;
    }
}

bool is_hashable(const Value& value) {
    if (value.is(Kind::List) || value.is(Kind::Dict) || value.is(Kind::View)) return false;
    if (!value.is(Kind::Tuple)) return true;
    return std::all_of(value.items().begin(), value.items().end(), is_hashable);
}

int compare_numbers(const Value& a, const Value& b) {
    if (a.is_integral() && b.is_integral()) {
        return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
    }
    if (b.is_integral()) {
        const int reversed = compare_numbers(b, a);
        return reversed == 2 ? 2 : -reversed;
    }
    const double y = b.as_double();
    if (std::isnan(y)) return 2;
    if (!a.is_integral()) {
        const double x = a.as_double();
        return std::isnan(x) ? 2 : x < y ? -1 : x > y;
    }
    // Every integer lies in [-2^63, 2^63); inside, the whole part of y is an integer too.
    if (y >= 9223372036854775808.0) return -1;
    if (y < -9223372036854775808.0) return 1;
    const auto whole = static_cast<int64_t>(y);
    if (a.as_int() != whole) return a.as_int() < whole ? -1 : 1;
    const double rest = y - static_cast<double>(whole);
    return rest > 0 ? -1 : rest < 0;
}

int key_order(const Value& a, const Value& b) {
    const int rank_a = rank(a), rank_b = rank(b);
    if (rank_a != rank_b) return rank_a < rank_b ? -1 : 1;
    if (rank_a == 0) {
        const int order = compare_numbers(a, b);
        if (order != 2) return order;
        return sign(std::isnan(b.as_double()) - std::isnan(a.as_double()));
    }
    switch (a.kind()) {
    case Kind::String:
        return compare_bytes(a.bytes(), b.bytes());
    case Kind::Tuple: {
        const size_t n = std::min(a.items().size(), b.items().size());
        for (size_t i = 0; i < n; ++i) {
            if (const int order = key_order(a.items()[i], b.items()[i])) return order;
        }
        return sign(static_cast<int64_t>(a.items().size()) -
                    static_cast<int64_t>(b.items().size()));
    }
    case Kind::None:
    case Kind::Undefined:
        return 0;
    default:
        return a.identity() == b.identity()                ? 0
               : std::less<>()(a.identity(), b.identity()) ? -1
                                                           : 1;
    }
}

bool equal(Budget& budget, const Value& a, const Value& b) {
    if (!budget.spend(1)) return false;
    if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
    if (a.kind() != b.kind()) return false;
    switch (a.kind()) {
    case Kind::Undefined:
    case Kind::None:
        return true;
    case Kind::String:
        budget.spend_bytes(std::min(a.text().size(), b.text().size()));
        return a.bytes() == b.bytes();
    case Kind::List:
    case Kind::Tuple:
        return equal_items(budget, a.items(), b.items());
    case Kind::Dict:
        return equal_dicts(budget, a.dict(), b.dict());
    case Kind::Range: {
        const auto& x = a.get<RangeObject>();
        const auto& y = b.get<RangeObject>();
        if (x.count != y.count || x.count == 0) return x.count == y.count;
        return x.start == y.start && (x.count == 1 || x.step == y.step);
    }
    default:
        return a.identity() == b.identity();
    }
}

Result<bool> less(Budget& budget, const Value& a, const Value& b) {
    if (!budget.spend(1)) return budget.error();
    if (a.is_number() && b.is_number()) return compare_numbers(a, b) == -1;
    if (a.is_string() && b.is_string()) {
        budget.spend_bytes(std::min(a.text().size(), b.text().size()));
        return compare_bytes(a.bytes(), b.bytes()) < 0;
    }
    if (a.is_sequence() && a.kind() == b.kind()) {
        const size_t n = std::min(a.items().size(), b.items().size());
        for (size_t i = 0; i < n; ++i) {
            if (!equal(budget, a.items()[i], b.items()[i])) {
                return less(budget, a.items()[i], b.items()[i]);
            }
        }
        return a.items().size() < b.items().size();
    }
    if (a.is_undefined()) return bad(a.bytes().empty() ? "a value is undefined" : a.bytes());
    if (b.is_undefined()) return bad(b.bytes().empty() ? "a value is undefined" : b.bytes());
    return bad("'<' between " + type_name(a) + " and " + type_name(b) + " is not possible");
}

Result<Walk> Walk::over(Budget& budget, const Value& source) {
    Walk walk;
    walk.budget_ = &budget;
    walk.source_ = source;
    switch (source.kind()) {
    case Kind::Undefined:
        break;
    case Kind::List:
    case Kind::Tuple:
        walk.count_ = source.items().size();
        break;
    case Kind::Dict:
        walk.count_ = source.dict().entries.size();
        break;
    case Kind::View:
        walk.count_ = source.get<ViewObject>().dict.dict().entries.size();
        break;
    case Kind::Range:
        walk.count_ = static_cast<size_t>(source.get<RangeObject>().count);
        break;
    case Kind::Iterator: {
        auto& iterator = source.get<IteratorObject>();
        for (; iterator.next < iterator.items.size(); ++iterator.next) {
            walk.items_.push_back(std::move(iterator.items[iterator.next]));
        }
        walk.count_ = walk.items_.size();
        break;
    }
    case Kind::String: {
        const MarkedText& text = source.text();
        if (!budget.allow_values(source.text_object().n_points * 4)) return budget.error();
        for (size_t at = 0; at < text.size();) {
            const size_t n = point_at(text.bytes, at).length;
            walk.items_.push_back(make_text(&budget, text.slice(at, at + n)));
            at += n;
        }
        walk.count_ = walk.items_.size();
        break;
    }
    default:
        return bad("'" + type_name(source) + "' is not iterable");
    }
    return walk;
}

Value Walk::at(size_t i) const {
    switch (source_.kind()) {
    case Kind::List:
    case Kind::Tuple:
        return source_.items()[i];
    case Kind::Dict:
        return source_.dict().entries[i].first;
    case Kind::Range:
        return Value::integer(source_.get<RangeObject>().at(static_cast<int64_t>(i)));
    case Kind::View: {
        const auto& view = source_.get<ViewObject>();
        const auto& [key, value] = view.dict.dict().entries[i];
        if (view.what == ViewObject::What::Keys) return key;
        return view.what == ViewObject::What::Values ? value : pair_of(budget_, key, value);
    }
    default:
        return items_[i];
    }
}

Result<std::vector<Value>> Walk::all(Budget& budget) const {
    if (!budget.allow_values(count_)) return budget.error();
    std::vector<Value> out;
    out.reserve(count_);
    for (size_t i = 0; i < count_; ++i)
        out.push_back(at(i));
    return out;
}

}  // namespace nib::jinja
