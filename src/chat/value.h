// SPDX-License-Identifier: MIT
// What an expression evaluates to. Values are small handles; texts, lists and dicts behind them are
// shared and never change (a template may not change what it was given, as in transformers'
// sandbox), so nothing is copied and no cycle can form. Only namespaces, iterators, cyclers and
// joiners have state. A container knows how deep it is; make_list and make_dict refuse to nest
// beyond the limit, so walking and destroying values may recurse.
#pragma once
#include "ggml-like/result.h"
#include "src/chat/budget.h"
#include "src/chat/text.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nib::jinja {

enum class Kind : uint8_t {
    Undefined,
    None,
    Bool,
    Int,
    Float,
    String,
    List,
    Tuple,
    Dict,
    Range,
    View,      // dict.keys(), .values(), .items()
    Iterator,  // what map, select and the like give: can be walked over once
    Namespace,
    Function,
    Macro,
    Loop,
    Cycler,
    Joiner,
};

// What stands behind a handle. It gives back to the budget what it was charged.
struct Object {
    Budget* budget = nullptr;
    size_t charged = 0;
    Object() = default;
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    ~Object() {
        if (budget) budget->give_back(charged);
    }
    void charge(Budget* to, size_t bytes) {
        if (!to) return;
        budget = to;
        charged += bytes;
        to->charge(bytes);
    }
};

struct TextObject;
struct ListObject;
struct DictObject;
struct RangeObject;
struct ViewObject;
struct IteratorObject;
struct NamespaceObject;
struct FunctionObject;

class Value {
  public:
    Value() = default;
    static Value none() { return Value(Kind::None); }
    static Value boolean(bool b) {
        Value v(Kind::Bool);
        v.number_.i = b;
        return v;
    }
    static Value integer(int64_t i) {
        Value v(Kind::Int);
        v.number_.i = i;
        return v;
    }
    static Value real(double d) {
        Value v(Kind::Float);
        v.number_.d = d;
        return v;
    }
    template <class T>
    static Value object(Kind kind, std::shared_ptr<T> object) {
        Value v(kind);
        v.object_ = std::move(object);
        return v;
    }

    Kind kind() const { return kind_; }
    bool is(Kind kind) const { return kind_ == kind; }
    bool is_undefined() const { return kind_ == Kind::Undefined; }
    bool is_none() const { return kind_ == Kind::None; }
    bool is_string() const { return kind_ == Kind::String; }
    bool is_sequence() const { return kind_ == Kind::List || kind_ == Kind::Tuple; }
    bool is_integral() const { return kind_ == Kind::Int || kind_ == Kind::Bool; }
    bool is_number() const { return is_integral() || kind_ == Kind::Float; }

    bool as_bool() const { return number_.i != 0; }
    int64_t as_int() const { return number_.i; }
    double as_double() const {
        return kind_ == Kind::Float ? number_.d : static_cast<double>(number_.i);
    }
    const MarkedText& text() const;  // String; for Undefined the reason it is undefined
    const std::string& bytes() const { return text().bytes; }
    const TextObject& text_object() const { return get<TextObject>(); }
    const std::vector<Value>& items() const;  // List, Tuple
    const DictObject& dict() const { return get<DictObject>(); }
    template <class T>
    T& get() const {
        return *static_cast<T*>(object_.get());
    }
    const void* identity() const { return object_.get(); }

  private:
    explicit Value(Kind kind) : kind_(kind) {}

    Kind kind_ = Kind::Undefined;
    union {
        int64_t i;
        double d;
    } number_ = {0};
    std::shared_ptr<Object> object_;
};

struct TextObject : Object {
    MarkedText text;
    size_t n_points = 0;
    bool is_markup =
        false;  // from `safe` and `escape`: what is added to it is escaped for HTML first
    bool is_ascii() const { return n_points == text.size(); }
};

struct ListObject : Object {
    std::vector<Value> items;
    uint32_t depth = 1;
    bool is_group = false;  // what groupby gives: items are .grouper and .list too
};

// Entries in order of insertion. More than a few are found through `sorted`, their positions by
// key.
struct DictObject : Object {
    std::vector<std::pair<Value, Value>> entries;
    std::vector<uint32_t> sorted;
    uint32_t depth = 1;
    const Value* find(const Value& key) const;
    const Value* find(std::string_view key) const;
};

struct RangeObject : Object {
    int64_t start = 0, stop = 0, step = 1, count = 0;
    int64_t at(int64_t i) const {  // i * step alone may overflow where the sum does not
        return static_cast<int64_t>(static_cast<uint64_t>(start) +
                                    static_cast<uint64_t>(i) * static_cast<uint64_t>(step));
    }
};

struct ViewObject : Object {
    enum class What { Keys, Values, Items } what = What::Keys;
    Value dict;
};

struct IteratorObject : Object {
    std::vector<Value> items;
    size_t next = 0;
    uint32_t depth = 1;
};

struct NamespaceObject : Object {
    std::vector<std::pair<Value, Value>> entries;
    Value* find(std::string_view key);
    void set(Budget& budget, const Value& key, Value value);
};

// Arguments of a call, evaluated.
struct Args {
    std::vector<Value> positional;
    std::vector<std::pair<Value, Value>> named;  // the names are strings
};

class Evaluator;
// Filters, methods (self is the object) and global functions alike.
using NativeFn = Result<Value> (*)(Evaluator& ev, const Value& self, Args& args);
struct Native {
    std::string_view name;
    NativeFn fn;
};

struct FunctionObject : Object {
    Value self;
    const Native* native = nullptr;
};

// Arguments laid out by parameter; get(i) is null for one that was not given.
class Bound {
  public:
    static Result<Bound> bind(Args& args,
                              std::initializer_list<const char*> names,
                              size_t required);
    const Value* get(size_t i) const { return values_[i] ? &*values_[i] : nullptr; }
    Result<int64_t> integer(size_t i, int64_t otherwise) const;
    bool truth(size_t i, bool otherwise) const;
    Result<std::string> text(size_t i, std::string_view otherwise) const;

  private:
    std::optional<Value> values_[6];
    const char* names_[6] = {};
};

Value make_text(Budget* budget, MarkedText text);
inline Value make_text(Budget* budget, std::string_view text) {
    return make_text(budget, MarkedText(text));
}
Value make_markup(Budget* budget, MarkedText text);
bool is_markup(const Value& value);
// `value`, as markup if `like` is.
Value keep_markup(const Value& like, Value value);
Value make_undefined(Budget* budget, std::string reason);
Result<Value> make_list(Budget& budget, std::vector<Value> items, Kind kind = Kind::List);
Result<Value> make_iterator(Budget& budget, std::vector<Value> items);
// Equal keys: the first keeps its place, the last its value. Keys that cannot be hashed are an
// error.
Result<Value> make_dict(Budget& budget, std::vector<std::pair<Value, Value>> entries);

std::string type_name(const Value& value);  // as Python calls it
uint32_t depth_of(const Value& value);
bool truthy(const Value& value);
bool is_hashable(const Value& value);
// A total order over hashable values in which equal values (1, 1.0, True) are equal.
int key_order(const Value& a, const Value& b);
bool equal(Budget& budget, const Value& a, const Value& b);
// Python's <: false or true, or an error for kinds that do not compare.
Result<bool> less(Budget& budget, const Value& a, const Value& b);
// Compares an integer and a double exactly; 2 if the double is NaN.
int compare_numbers(const Value& a, const Value& b);
Error bad(std::string message);
// Where `needle` is found from `from` on, or npos; linear in the length of `text`.
size_t find_bytes(std::string_view text, std::string_view needle, size_t from = 0);

// Something to walk over: count known, items made as needed. The source lives as long as this.
class Walk {
  public:
    static Result<Walk> over(Budget& budget,
                             const Value& source);  // takes what an iterator has left
    size_t count() const { return count_; }
    Value at(size_t i) const;
    Result<std::vector<Value>> all(Budget& budget) const;

  private:
    Budget* budget_ = nullptr;
    Value source_;
    std::vector<Value> items_;
    size_t count_ = 0;
};

}  // namespace nib::jinja
