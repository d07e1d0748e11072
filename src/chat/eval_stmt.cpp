// SPDX-License-Identifier: MIT
// Statements: what stands in {% %}, and the text between tags.
#include "src/chat/evaluator.h"
#include "src/chat/nest.h"
#include "src/chat/print.h"

namespace nib::jinja {
namespace {

constexpr size_t kScopeBytes = 256;

// Holds a member's old value and puts it back.
template <class T>
class Restore {
  public:
    Restore(T& slot, T value) : slot_(slot), old_(std::move(slot)) { slot_ = std::move(value); }
    ~Restore() { slot_ = std::move(old_); }
    Restore(const Restore&) = delete;
    Restore& operator=(const Restore&) = delete;

  private:
    T& slot_;
    T old_;
};

}  // namespace

Evaluator::Evaluator(const Tree& tree, Value context, int64_t now_unix, Budget& budget)
    : tree_(tree), context_(std::move(context)), now_unix_(now_unix), budget_(budget) {}

// Scopes and namespaces may hold each other in circles: all are emptied before any goes.
Evaluator::~Evaluator() {
    for (const auto& space : namespaces_)
        space->entries.clear();
    for (const ScopePtr& scope : kept_scopes_)
        scope->variables.clear();
}

Result<MarkedText> Evaluator::run() {
    return captured(tree_.body, new_scope(nullptr));
}

ScopePtr Evaluator::new_scope(ScopePtr parent) {
    auto scope = std::make_shared<Scope>();
    scope->parent = std::move(parent);
    return scope;
}

Result<MarkedText> Evaluator::captured(const Body& body, ScopePtr scope) {
    MarkedText text;
    const Restore<MarkedText*> out(out_, &text);
    const Restore<ScopePtr> inner(scope_, std::move(scope));
    NIB_TRY(exec(body));
    return text;
}

Result<Evaluator::Flow> Evaluator::exec(const Body& body) {
    const Nest nest(*this);
    if (!nest.ok()) return nest.error();
    for (const auto& s : body) {
        Result<Flow> flow = budget_.spend(1) ? exec_statement(*s) : Result<Flow>(budget_.error());
        if (!flow.ok() && !has_error_at_) {
            has_error_at_ = true;
            error_at_ = s->at;
        }
        if (!flow.ok() || *flow != Flow::Next) return flow;
    }
    return Flow::Next;
}

Result<Evaluator::Flow> Evaluator::exec_statement(const Stmt& s) {
    switch (s.kind) {
    case StmtKind::Text:
    case StmtKind::Output:
        NIB_TRY(exec_output(s));
        break;
    case StmtKind::Set: {
        NIB_ASSIGN(const Value value, eval(*s.expr));
        NIB_TRY(assign(s.target, value));
        break;
    }
    case StmtKind::SetBlock:
    case StmtKind::FilterBlock:
        NIB_TRY(exec_set_block(s));
        break;
    case StmtKind::For:
        NIB_TRY(exec_for(s));
        break;
    case StmtKind::If:
        return exec_if(s);
    case StmtKind::Macro:
        for (ScopePtr scope = scope_; scope && !scope->kept; scope = scope->parent) {
            scope->kept = true;
            kept_scopes_.push_back(scope);
            budget_.charge(kScopeBytes);
        }
        set_variable(s.macro->variable, make_macro(*s.macro));
        break;
    case StmtKind::CallBlock:
        NIB_TRY(exec_call_block(s));
        break;
    case StmtKind::With:
        NIB_TRY(exec_with(s));
        break;
    case StmtKind::Scope:
        return exec_scope(s.body);
    case StmtKind::Break:
        return Flow::Break;
    case StmtKind::Continue:
        return Flow::Continue;
    }
    return Flow::Next;
}

Result<void> Evaluator::exec_output(const Stmt& s) {
    if (s.kind == StmtKind::Text) return print_str(budget_, s.value, *out_);
    NIB_ASSIGN(const Value value, eval(*s.expr));
    return print_str(budget_, value, *out_);
}

// {% set x %}...{% endset %} and {% filter f %}...{% endfilter %}: a text, filtered, kept or
// written.
Result<void> Evaluator::exec_set_block(const Stmt& s) {
    NIB_ASSIGN(MarkedText body, captured(s.body, new_scope(scope_)));
    Value value = make_text(&budget_, std::move(body));
    if (s.expr) {
        NIB_ASSIGN(value, eval_filter(*s.expr, &value));
    }
    return s.kind == StmtKind::SetBlock ? assign(s.target, value)
                                        : print_str(budget_, value, *out_);
}

Result<Evaluator::Flow> Evaluator::exec_if(const Stmt& s) {
    for (const auto& [test, body] : s.branches) {
        NIB_ASSIGN(const Value value, eval(*test));
        if (truthy(value)) return exec(body);
    }
    return exec(s.otherwise);
}

Result<Evaluator::Flow> Evaluator::exec_scope(const Body& body) {
    const Restore<ScopePtr> inner(scope_, new_scope(scope_));
    return exec(body);
}

// The values are computed outside of the scope that their names live in.
Result<void> Evaluator::exec_with(const Stmt& s) {
    std::vector<Value> values;
    for (const auto& assignment : s.assignments) {
        NIB_ASSIGN(Value value, eval(*assignment.second));
        values.push_back(std::move(value));
    }
    const Restore<ScopePtr> inner(scope_, new_scope(scope_));
    for (size_t i = 0; i < values.size(); ++i)
        NIB_TRY(assign(s.assignments[i].first, values[i]));
    NIB_TRY(exec(s.body));
    return {};
}

Result<void> Evaluator::exec_for(const Stmt& s) {
    NIB_ASSIGN(const Value source, eval(*s.expr));
    return loop_over(s, source, 0);
}

Result<std::vector<Value>> Evaluator::loop_filter(const Stmt& s, const Walk& walk) {
    std::vector<Value> kept;
    const Restore<ScopePtr> inner(scope_, new_scope(scope_));
    for (size_t i = 0; i < walk.count(); ++i) {
        const Value item = walk.at(i);
        NIB_TRY(assign(s.target, item));
        NIB_ASSIGN(const Value passed, eval(*s.test));
        if (truthy(passed)) kept.push_back(item);
    }
    return kept;
}

Result<void> Evaluator::loop_over(const Stmt& s, const Value& source, uint32_t depth) {
    NIB_ASSIGN(const Walk walk, Walk::over(budget_, source));
    std::vector<Value> filtered;
    if (s.test) {
        NIB_ASSIGN(filtered, loop_filter(s, walk));
    }
    auto loop = std::make_shared<LoopObject>();
    loop->statement = &s;
    loop->walk = &walk;
    loop->filtered = s.test ? &filtered : nullptr;
    loop->count = s.test ? filtered.size() : walk.count();
    loop->depth = depth;
    loop->outer = scope_;
    loop->charge(&budget_, kScopeBytes);
    if (loop->count == 0) {
        NIB_TRY(exec_scope(s.otherwise));
        return {};
    }
    const Result<void> done = loop_body(s, *loop, Value::object(Kind::Loop, loop));
    loop->walk = nullptr;  // from here on `loop` only answers what it remembers
    loop->filtered = nullptr;
    loop->changed_value.clear();
    return done;
}

Result<void> Evaluator::loop_body(const Stmt& s, LoopObject& loop, const Value& handle) {
    const ScopePtr outer = scope_;
    const Restore<ScopePtr> inner(scope_, new_scope(outer));
    for (; loop.index < loop.count; ++loop.index) {
        if (!budget_.spend(1)) return budget_.error();
        if (scope_.use_count() > 1 || scope_->kept) {
            scope_ = new_scope(outer);
        } else {
            scope_->variables.clear();
        }
        scope_->variables.emplace_back(kLoop, handle);
        NIB_TRY(assign(s.target, loop.item(loop.index)));
        NIB_ASSIGN(const Flow flow, exec(s.body));
        if (flow == Flow::Break) break;
    }
    return {};
}

Result<void> Evaluator::exec_call_block(const Stmt& s) {
    const Expr& e = *s.expr;
    NIB_ASSIGN(const Value function, eval(*e.kids[0]));
    NIB_ASSIGN(Args args, eval_args(*e.call));
    args.named.emplace_back(tree_.names[kCaller], make_macro(*s.macro));
    NIB_ASSIGN(const Value value, call(function, args));
    return print_str(budget_, value, *out_);
}

void Evaluator::set_variable(uint32_t name, const Value& value) {
    budget_.spend(scope_->variables.size() / 16);
    if (Value* old = scope_->find(name)) {
        *old = value;
    } else {
        scope_->variables.emplace_back(name, value);
    }
}

Result<void> Evaluator::assign(const Target& target, const Value& value) {
    if (target.what == Target::What::Name) {
        set_variable(target.name, value);
        return {};
    }
    if (target.what == Target::What::Attribute) {
        NIB_ASSIGN(const Value space, eval_name(target.name));
        if (!space.is(Kind::Namespace)) return bad("only a namespace's attributes can be set");
        space.get<NamespaceObject>().set(budget_, target.attribute, value);
        return {};
    }
    NIB_ASSIGN(const Walk walk, Walk::over(budget_, value));
    if (walk.count() != target.parts.size()) {
        return bad("expected " + std::to_string(target.parts.size()) + " values to unpack, got " +
                   std::to_string(walk.count()));
    }
    for (size_t i = 0; i < walk.count(); ++i)
        NIB_TRY(assign(target.parts[i], walk.at(i)));
    return {};
}

}  // namespace nib::jinja
