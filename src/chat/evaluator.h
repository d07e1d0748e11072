// SPDX-License-Identifier: MIT
// Walks the tree of a template and writes text. One Evaluator serves one rendering on one thread.
// Scopes form a chain; a macro keeps the scope it was defined in. Scopes and namespaces that a
// macro or a variable may hold in a circle are listed and emptied at the end. The first error wins:
// where it happened is noted on the way out.
#pragma once
#include "src/chat/ast.h"
#include "src/chat/budget.h"
#include "src/chat/value.h"

#include <memory>
#include <string>
#include <vector>

namespace nib::jinja {

struct Scope {
    std::shared_ptr<Scope> parent;
    std::vector<std::pair<uint32_t, Value>> variables;
    bool kept = false;

    Value* find(uint32_t name) {
        for (auto& [id, value] : variables) {
            if (id == name) return &value;
        }
        return nullptr;
    }
};
using ScopePtr = std::shared_ptr<Scope>;

struct MacroObject : Object {
    const MacroDef* def = nullptr;
    ScopePtr scope;
};

// `loop` inside a for statement.
struct LoopObject : Object {
    const Stmt* statement = nullptr;
    const std::vector<Value>* filtered = nullptr;  // items that passed the loop's test, or null
    const Walk* walk = nullptr;                    // both null once the loop is over
    size_t index = 0, count = 0;
    uint32_t depth = 0;
    ScopePtr outer;
    bool has_changed_value = false;
    std::vector<Value> changed_value;

    Value item(size_t i) const { return filtered ? (*filtered)[i] : walk->at(i); }
};

struct CyclerObject : Object {
    std::vector<Value> items;
    size_t position = 0;
};

struct JoinerObject : Object {
    Value separator;
    bool used = false;
};

class Evaluator {
  public:
    Evaluator(const Tree& tree, Value context, int64_t now_unix, Budget& budget);
    ~Evaluator();
    Evaluator(const Evaluator&) = delete;
    Evaluator& operator=(const Evaluator&) = delete;

    Result<MarkedText> run();
    size_t error_at() const { return error_at_; }

    // For filters, tests, methods and functions.
    Budget& budget() { return budget_; }
    int64_t now_unix() const { return now_unix_; }
    Result<Value> text(MarkedText text) { return make_text(&budget_, std::move(text)); }
    Value undefined(std::string reason) { return make_undefined(&budget_, std::move(reason)); }
    Result<Value> get_item(const Value& object, const Value& index);
    Result<Value> get_attribute(const Value& object, const Value& name);
    Result<Value> call(const Value& callee, Args& args);
    Result<bool> contains(const Value& container, const Value& item);
    Result<Value> binary(Op op, const Value& a, const Value& b);
    Result<Value> new_namespace(std::vector<std::pair<Value, Value>> entries);

  private:
    enum class Flow { Next, Break, Continue };
    struct Nest;

    Result<Value> eval(const Expr& e);
    Result<Value> eval_inner(const Expr& e);
    Result<Value> eval_name(uint32_t name);
    Result<Value> eval_items(const Expr& e);
    Result<Value> eval_dict(const Expr& e);
    Result<Value> eval_chain(const Expr& e);
    Result<Value> eval_compare(const Expr& e);
    Result<Value> eval_concat(const Expr& e);
    Result<Value> eval_logic(const Expr& e);
    Result<Value> eval_condition(const Expr& e);
    Result<Value> eval_unary(const Expr& e);
    Result<Value> eval_slice(const Expr& e);
    Result<Value> eval_call(const Expr& e);
    Result<Value> eval_filter(const Expr& e, const Value* input);
    Result<Value> eval_test(const Expr& e);
    Result<Args> eval_args(const CallArgs& call);

    Result<Flow> exec(const Body& body);
    Result<Flow> exec_statement(const Stmt& s);
    Result<void> exec_output(const Stmt& s);
    Result<void> exec_set_block(const Stmt& s);
    Result<Flow> exec_if(const Stmt& s);
    Result<void> exec_for(const Stmt& s);
    Result<void> exec_with(const Stmt& s);
    Result<Flow> exec_scope(const Body& body);
    Result<void> exec_call_block(const Stmt& s);
    Result<void> loop_over(const Stmt& s, const Value& source, uint32_t depth);
    Result<void> loop_body(const Stmt& s, LoopObject& loop, const Value& handle);
    Result<std::vector<Value>> loop_filter(const Stmt& s, const Walk& walk);
    Result<MarkedText> captured(const Body& body, ScopePtr scope);
    Result<void> assign(const Target& target, const Value& value);
    void set_variable(uint32_t name, const Value& value);
    Value make_macro(const MacroDef& def);
    Result<Value> call_macro(const MacroObject& macro, Args& args);
    Result<void> bind_macro(const MacroObject& macro, Args& args);
    Result<Value> call_loop(LoopObject& loop, Args& args);
    Result<Value> loop_attribute(const Value& loop, std::string_view name);
    Result<Value> method_of(const Value& object, const Value& name);
    ScopePtr new_scope(ScopePtr parent);

    const Tree& tree_;
    Value context_;
    int64_t now_unix_;
    Budget& budget_;
    ScopePtr scope_;
    MarkedText* out_ = nullptr;
    uint32_t depth_ = 0;
    size_t error_at_ = 0;
    bool has_error_at_ = false;
    std::vector<ScopePtr> kept_scopes_;
    std::vector<std::shared_ptr<NamespaceObject>> namespaces_;
};

}  // namespace nib::jinja
