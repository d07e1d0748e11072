// SPDX-License-Identifier: MIT
#include "src/chat/builtins.h"

#include "src/chat/builtins_impl.h"

#include <algorithm>
#include <initializer_list>

namespace nib::jinja {
namespace {

const Native* find_in(NativeTable table, std::string_view name) {
    const Native* at = std::lower_bound(
        table.first, table.second, name,
        [](const Native& native, std::string_view key) { return native.name < key; });
    return at != table.second && at->name == name ? at : nullptr;
}

}  // namespace

const Native* find_filter(std::string_view name) {
    for (const NativeTable& table :
         {text_filters(), list_filters(), number_filters(), select_filters()}) {
        if (const Native* native = find_in(table, name)) return native;
    }
    return nullptr;
}

const Native* find_test(std::string_view name) {
    return find_in(tests(), name);
}
const Native* find_global(std::string_view name) {
    return find_in(globals(), name);
}

const Native* find_method(Kind kind, std::string_view name) {
    switch (kind) {
    case Kind::String:
        return find_in(text_methods(), name);
    case Kind::Dict:
        return find_in(dict_methods(), name);
    case Kind::List:
        return find_in(sequence_methods(), name);
    case Kind::Tuple:
    case Kind::Range:
        return name == "copy" ? nullptr : find_in(sequence_methods(), name);
    case Kind::Loop:
        return find_in(loop_methods(), name);
    case Kind::Cycler:
        return find_in(cycler_methods(), name);
    default:
        return nullptr;
    }
}

bool is_forbidden_method(Kind kind, std::string_view name) {
    static constexpr std::string_view kList[] = {"append", "clear",  "extend",  "insert",
                                                 "pop",    "remove", "reverse", "sort"};
    static constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
    if (kind == Kind::List)
        return std::find(std::begin(kList), std::end(kList), name) != std::end(kList);
    return kind == Kind::Dict &&
           std::find(std::begin(kDict), std::end(kDict), name) != std::end(kDict);
}

}  // namespace nib::jinja
