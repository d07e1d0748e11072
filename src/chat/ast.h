// SPDX-License-Identifier: MIT
// The tree of a template. Every node knows where it starts in the source and how high it stands
// over its leaves; the parser refuses trees higher than kTreeHeightMax, so walking and destroying
// may recurse. Operators of one precedence level form one Chain node, so long sums do not make high
// trees.
#pragma once
#include "src/chat/value.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nib::jinja {

constexpr uint32_t kTreeHeightMax = 200;

enum class ExprKind : uint8_t {
    Const,      // value
    Name,       // name
    List,       // kids
    Tuple,      // kids
    Dict,       // kids: key, value, key, value ...
    Chain,      // kids[0] ops[0] kids[1] ops[1] kids[2] ..., from left to right
    Compare,    // the same, as Python chains comparisons
    Concat,     // kids
    And,        // kids
    Or,         // kids
    Not,        // kids[0]
    Negate,     // kids[0]
    Plus,       // kids[0]
    Condition,  // kids: test, then, otherwise (may be null)
    Attribute,  // kids[0], value: the name
    Item,       // kids: object, index
    Slice,      // kids: object, start, stop, step (may be null)
    Call,       // kids[0], call
    Filter,     // kids[0] (null at the start of a filter block), value: the name, native, call
    Test,       // kids[0], value: the name, native, call
};

enum class Op : uint8_t {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
    NotIn
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArgs {
    std::vector<ExprPtr> positional;
    std::vector<std::pair<Value, ExprPtr>> named;
    ExprPtr star, double_star;
};

struct Expr {
    ExprKind kind = ExprKind::Const;
    uint32_t at = 0;  // byte offset in the source
    uint32_t height = 1;
    uint32_t name = 0;
    Value value;
    std::vector<ExprPtr> kids;
    std::vector<Op> ops;
    std::unique_ptr<CallArgs> call;
    const Native* native = nullptr;
};

// What `set`, `for` and `with` assign to.
struct Target {
    enum class What { Name, Attribute, Tuple } what = What::Name;
    uint32_t at = 0;
    uint32_t name = 0;  // the variable, or the namespace of an attribute
    Value attribute;
    std::vector<Target> parts;
};

enum class StmtKind : uint8_t {
    Text,         // value
    Output,       // expr
    Set,          // target, expr
    SetBlock,     // target, expr (filters or null), body
    For,          // target, expr, test, recursive, body, otherwise
    If,           // branches, otherwise
    Macro,        // macro
    CallBlock,    // expr (a call), macro (the caller)
    FilterBlock,  // expr (filters), body
    With,         // assignments, body
    Scope,        // body: what {% generation %} is for us
    Break,
    Continue,
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct MacroDef {
    Value name;
    uint32_t variable = 0;
    std::vector<uint32_t> params;
    std::vector<Value> param_names;
    std::vector<ExprPtr> defaults;  // of the last parameters
    Body body;
    bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

struct Stmt {
    StmtKind kind = StmtKind::Text;
    uint32_t at = 0;
    Value value;
    ExprPtr expr, test;
    Target target;
    Body body, otherwise;
    bool recursive = false;
    std::vector<std::pair<ExprPtr, Body>> branches;
    std::vector<std::pair<Target, ExprPtr>> assignments;
    std::unique_ptr<MacroDef> macro;
};

// Variables by number; the first numbers are the names the engine itself knows.
enum KnownName : uint32_t { kLoop, kCaller, kVarargs, kKwargs, kKnownNames };

struct Tree {
    Body body;
    std::vector<Value> names;      // the names as strings
    std::vector<Value> undefined;  // what an unset variable of that name is
};

struct SyntaxError {
    size_t at = 0;  // in the source with its newlines normalised
    std::string message;
};

}  // namespace nib::jinja
