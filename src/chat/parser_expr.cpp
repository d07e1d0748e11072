// SPDX-License-Identifier: MIT
// One function for each level of precedence, weakest first, as jinja2 has them.
#include "src/chat/builtins.h"
#include "src/chat/parser_impl.h"

#include <algorithm>

namespace nib::jinja {

ExprPtr Parser::make(ExprKind kind, size_t at) const {
    auto e = std::make_unique<Expr>();
    e->kind = kind;
    e->at = static_cast<uint32_t>(at);
    return e;
}

// Every node with children passes through here before it becomes a child itself.
ExprPtr Parser::finish(ExprPtr e) {
    uint32_t height = 0;
    const auto under = [&height](const ExprPtr& kid) {
        if (kid) height = std::max(height, kid->height);
    };
    for (const ExprPtr& kid : e->kids)
        under(kid);
    if (e->call) {
        for (const ExprPtr& arg : e->call->positional)
            under(arg);
        for (const auto& named : e->call->named)
            under(named.second);
        under(e->call->star);
        under(e->call->double_star);
    }
    e->height = height + 1;
    if (e->height > kTreeHeightMax) {
        fail_at(e->at, "nested too deep");
        return nullptr;
    }
    return e;
}

ExprPtr Parser::parse_expression(bool with_condition) {
    return with_condition ? parse_condition() : parse_or();
}

ExprPtr Parser::parse_condition() {
    Nest nest(*this);
    if (!nest.ok()) return nullptr;
    const size_t at = now().at;
    const size_t n_unknown = unknown_.size();
    ExprPtr value = parse_or();
    while (value && skip_name("if")) {
        ExprPtr e = make(ExprKind::Condition, at);
        ExprPtr test = parse_or();
        ExprPtr otherwise;
        const bool has_else = test && skip_name("else");
        if (has_else) otherwise = parse_condition();
        if (!test || (has_else && !otherwise)) return nullptr;
        e->kids.push_back(std::move(test));
        e->kids.push_back(std::move(value));
        e->kids.push_back(std::move(otherwise));
        value = finish(std::move(e));
        unknown_.resize(n_unknown);
    }
    return value;
}

ExprPtr Parser::parse_words(Rule operand, std::string_view word, ExprKind kind) {
    const size_t at = now().at;
    ExprPtr first = (this->*operand)();
    if (!first || !now().is_name(word)) return first;
    ExprPtr e = make(kind, at);
    e->kids.push_back(std::move(first));
    while (skip_name(word)) {
        e->kids.push_back((this->*operand)());
        if (!e->kids.back()) return nullptr;
    }
    return finish(std::move(e));
}

ExprPtr Parser::parse_or() {
    return parse_words(&Parser::parse_and, "or", ExprKind::Or);
}
ExprPtr Parser::parse_and() {
    return parse_words(&Parser::parse_not, "and", ExprKind::And);
}

ExprPtr Parser::parse_not() {
    if (!now().is_name("not")) return parse_compare();
    Nest nest(*this);
    if (!nest.ok()) return nullptr;
    ExprPtr e = make(ExprKind::Not, now().at);
    next();
    e->kids.push_back(parse_not());
    if (!e->kids[0]) return nullptr;
    return finish(std::move(e));
}

// Steps over a comparison operator.
bool Parser::find_compare(Op& op) {
    static constexpr Operator kOperators[] = {{"==", Op::Eq}, {"!=", Op::Ne}, {"<", Op::Lt},
                                              {"<=", Op::Le}, {">", Op::Gt},  {">=", Op::Ge}};
    for (const Operator& candidate : kOperators) {
        if (!skip_op(candidate.text)) continue;
        op = candidate.op;
        return true;
    }
    if (skip_name("in")) {
        op = Op::In;
        return true;
    }
    if (!now().is_name("not") || !look().is_name("in")) return false;
    next();
    next();
    op = Op::NotIn;
    return true;
}

ExprPtr Parser::parse_compare() {
    const size_t at = now().at;
    ExprPtr first = parse_sum();
    Op op = Op::Eq;
    if (!first || !find_compare(op)) return first;
    ExprPtr e = make(ExprKind::Compare, at);
    e->kids.push_back(std::move(first));
    do {
        e->ops.push_back(op);
        e->kids.push_back(parse_sum());
        if (!e->kids.back()) return nullptr;
    } while (find_compare(op));
    return finish(std::move(e));
}

ExprPtr Parser::parse_chain(Rule operand, std::initializer_list<Operator> operators) {
    const size_t at = now().at;
    ExprPtr first = (this->*operand)();
    ExprPtr e;
    while (first || e) {
        const auto* op =
            std::find_if(operators.begin(), operators.end(),
                         [this](const Operator& o) { return now().is_operator(o.text); });
        if (op == operators.end()) break;
        next();
        if (!e) {
            e = make(ExprKind::Chain, at);
            e->kids.push_back(std::move(first));
        }
        e->ops.push_back(op->op);
        e->kids.push_back((this->*operand)());
        if (!e->kids.back()) return nullptr;
    }
    return e ? finish(std::move(e)) : std::move(first);
}

ExprPtr Parser::parse_sum() {
    return parse_chain(&Parser::parse_concat, {{"+", Op::Add}, {"-", Op::Sub}});
}

ExprPtr Parser::parse_concat() {
    const size_t at = now().at;
    ExprPtr first = parse_product();
    if (!first || !now().is_operator("~")) return first;
    ExprPtr e = make(ExprKind::Concat, at);
    e->kids.push_back(std::move(first));
    while (skip_op("~")) {
        e->kids.push_back(parse_product());
        if (!e->kids.back()) return nullptr;
    }
    return finish(std::move(e));
}

ExprPtr Parser::parse_product() {
    return parse_chain(&Parser::parse_power,
                       {{"*", Op::Mul}, {"/", Op::Div}, {"//", Op::FloorDiv}, {"%", Op::Mod}});
}

ExprPtr Parser::parse_power() {
    const auto operand = [](Parser& p) { return p.parse_unary(); };
    const size_t at = now().at;
    ExprPtr first = operand(*this);
    if (!first || !now().is_operator("**")) return first;
    ExprPtr e = make(ExprKind::Chain, at);
    e->kids.push_back(std::move(first));
    while (skip_op("**")) {
        e->ops.push_back(Op::Pow);
        e->kids.push_back(operand(*this));
        if (!e->kids.back()) return nullptr;
    }
    return finish(std::move(e));
}

ExprPtr Parser::parse_unary(bool with_filter) {
    ExprPtr e;
    if (now().is_operator("-") || now().is_operator("+")) {
        Nest nest(*this);
        if (!nest.ok()) return nullptr;
        e = make(now().text == "-" ? ExprKind::Negate : ExprKind::Plus, now().at);
        next();
        e->kids.push_back(parse_unary(false));
        if (!e->kids[0]) return nullptr;
        e = finish(std::move(e));
    } else {
        e = parse_primary();
    }
    if (e) e = parse_postfix(std::move(e));
    if (e && with_filter) e = parse_filters_and_tests(std::move(e));
    return e;
}

ExprPtr Parser::parse_primary() {
    const Token& token = now();
    ExprPtr e = make(ExprKind::Const, token.at);
    switch (token.kind) {
    case TokenKind::Name:
        if (token.text == "true" || token.text == "True") {
            e->value = Value::boolean(true);
        } else if (token.text == "false" || token.text == "False") {
            e->value = Value::boolean(false);
        } else if (token.text == "none" || token.text == "None") {
            e->value = Value::none();
        } else {
            e->kind = ExprKind::Name;
            e->name = use_name(token.text);
        }
        next();
        return e;
    case TokenKind::String: {
        std::string text;
        for (; now().kind == TokenKind::String; next())
            text += now().text;
        e->value = make_text(nullptr, text);
        return e;
    }
    case TokenKind::Integer:
        e->value = Value::integer(token.integer);
        next();
        return e;
    case TokenKind::Float:
        e->value = Value::real(token.real);
        next();
        return e;
    case TokenKind::Operator:
        if (token.text == "[") return parse_list();
        if (token.text == "{") return parse_dict();
        if (token.text == "(") {
            next();
            e = parse_tuple(true, true);
            if (!e || !expect_op(")")) return nullptr;
            return e;
        }
        break;
    default:
        break;
    }
    unexpected("an expression");
    return nullptr;
}

ExprPtr Parser::parse_tuple(bool with_condition, bool parentheses, bool stop_at_recursive) {
    const size_t at = now().at;
    ExprPtr tuple = make(ExprKind::Tuple, at);
    bool is_tuple = false;
    while (true) {
        const TokenKind kind = now().kind;
        if (kind == TokenKind::OutputEnd || kind == TokenKind::BlockEnd || now().is_operator(")") ||
            (stop_at_recursive && now().is_name("recursive"))) {
            break;
        }
        tuple->kids.push_back(parse_expression(with_condition));
        if (!tuple->kids.back()) return nullptr;
        if (!now().is_operator(",")) break;
        is_tuple = true;
        next();
    }
    if (!is_tuple && !tuple->kids.empty()) return std::move(tuple->kids[0]);
    if (!is_tuple && !parentheses) {
        unexpected("an expression");
        return nullptr;
    }
    return finish(std::move(tuple));
}

ExprPtr Parser::parse_list() {
    ExprPtr e = make(ExprKind::List, now().at);
    next();
    while (!now().is_operator("]")) {
        if (!e->kids.empty() && !expect_op(",")) return nullptr;
        if (now().is_operator("]")) break;
        e->kids.push_back(parse_expression());
        if (!e->kids.back()) return nullptr;
    }
    next();
    return finish(std::move(e));
}

ExprPtr Parser::parse_dict() {
    ExprPtr e = make(ExprKind::Dict, now().at);
    next();
    while (!now().is_operator("}")) {
        if (!e->kids.empty() && !expect_op(",")) return nullptr;
        if (now().is_operator("}")) break;
        e->kids.push_back(parse_expression());
        if (!e->kids.back() || !expect_op(":")) return nullptr;
        e->kids.push_back(parse_expression());
        if (!e->kids.back()) return nullptr;
    }
    next();
    return finish(std::move(e));
}

ExprPtr Parser::parse_postfix(ExprPtr e) {
    while (e) {
        if (now().is_operator(".") || now().is_operator("[")) {
            e = parse_subscript(std::move(e));
        } else if (now().is_operator("(")) {
            e = parse_call(std::move(e));
        } else {
            break;
        }
    }
    return e;
}

ExprPtr Parser::parse_filters_and_tests(ExprPtr e) {
    while (e) {
        if (skip_op("|")) {
            e = parse_filter(std::move(e), true);
        } else if (now().is_name("is")) {
            e = parse_test(std::move(e));
        } else if (now().is_operator("(")) {
            e = parse_call(std::move(e));
        } else {
            break;
        }
    }
    return e;
}

ExprPtr Parser::parse_subscript(ExprPtr object) {
    const size_t at = now().at;
    if (now().is_operator("[")) {
        next();
        ExprPtr e = parse_index(std::move(object), at);
        if (!e || !expect_op("]")) return nullptr;
        return finish(std::move(e));
    }
    next();
    ExprPtr e = make(ExprKind::Attribute, at);
    e->kids.push_back(std::move(object));
    if (now().kind == TokenKind::Name) {
        e->value = tree_.names[intern(now().text)];
    } else if (now().kind == TokenKind::Integer) {
        e->kind = ExprKind::Item;
        e->kids.push_back(make(ExprKind::Const, now().at));
        e->kids[1]->value = Value::integer(now().integer);
    } else {
        unexpected("a name or number");
        return nullptr;
    }
    next();
    return finish(std::move(e));
}

// What stands between brackets: an index, several (a tuple), or a slice.
ExprPtr Parser::parse_index(ExprPtr object, size_t at) {
    ExprPtr e = make(ExprKind::Item, at);
    e->kids.push_back(std::move(object));
    const auto at_end = [this] { return now().is_operator("]") || now().is_operator(":"); };
    ExprPtr first;
    if (!now().is_operator(":")) {
        first = parse_tuple(true);
        if (!first) return nullptr;
    }
    if (!now().is_operator(":")) {
        e->kids.push_back(std::move(first));
        return e;
    }
    e->kind = ExprKind::Slice;
    e->kids.push_back(std::move(first));
    for (int i = 0; i < 2; ++i) {
        ExprPtr bound;
        if (skip_op(":") && !at_end()) {
            bound = parse_expression();
            if (!bound) return nullptr;
        }
        e->kids.push_back(std::move(bound));
    }
    return e;
}

bool Parser::parse_args(CallArgs& args) {
    const size_t at = now().at;
    if (!expect_op("(")) return false;
    bool first = true;
    while (!now().is_operator(")")) {
        if (!first && !expect_op(",")) return false;
        if (now().is_operator(")")) break;
        first = false;
        ExprPtr* slot = nullptr;
        if (now().is_operator("*") || now().is_operator("**")) {
            const bool is_double = now().text == "**";
            if (args.double_star || (args.star && !is_double)) {
                return fail_at(at, "arguments in a wrong order");
            }
            next();
            slot = is_double ? &args.double_star : &args.star;
        } else if (now().kind == TokenKind::Name && look().is_operator("=")) {
            if (args.double_star) return fail_at(at, "arguments in a wrong order");
            args.named.emplace_back(tree_.names[intern(now().text)], nullptr);
            slot = &args.named.back().second;
            next();
            next();
        } else {
            if (args.star || args.double_star || !args.named.empty()) {
                return fail_at(at, "arguments in a wrong order");
            }
            args.positional.emplace_back();
            slot = &args.positional.back();
        }
        *slot = parse_expression();
        if (!*slot) return false;
    }
    next();
    return true;
}

ExprPtr Parser::parse_call(ExprPtr callee) {
    ExprPtr e = make(ExprKind::Call, now().at);
    e->call = std::make_unique<CallArgs>();
    e->kids.push_back(std::move(callee));
    if (!parse_args(*e->call)) return nullptr;
    return finish(std::move(e));
}

// Behind the '|'.
ExprPtr Parser::parse_filter(ExprPtr input, bool has_input) {
    if (now().kind != TokenKind::Name) {
        unexpected("the name of a filter");
        return nullptr;
    }
    ExprPtr e = make(ExprKind::Filter, now().at);
    e->call = std::make_unique<CallArgs>();
    e->value = tree_.names[intern(now().text)];
    e->native = find_filter(now().text);
    if (!e->native && soft_ == 0) {
        unknown_.push_back({now().at, "unknown filter '" + now().text.substr(0, 60) + "'"});
    }
    next();
    e->kids.push_back(has_input ? std::move(input) : nullptr);
    if (now().is_operator("(") && !parse_args(*e->call)) return nullptr;
    return finish(std::move(e));
}

ExprPtr Parser::parse_test(ExprPtr input) {
    const size_t at = now().at;
    next();
    const bool negated = skip_name("not");
    if (now().kind != TokenKind::Name) {
        unexpected("the name of a test");
        return nullptr;
    }
    ExprPtr e = make(ExprKind::Test, at);
    e->call = std::make_unique<CallArgs>();
    e->value = tree_.names[intern(now().text)];
    e->native = find_test(now().text);
    if (!e->native && soft_ == 0) {
        unknown_.push_back({now().at, "unknown test '" + now().text.substr(0, 60) + "'"});
    }
    next();
    e->kids.push_back(std::move(input));
    const Token& token = now();
    const bool starts_value = token.kind == TokenKind::Name || token.kind == TokenKind::String ||
                              token.kind == TokenKind::Integer || token.kind == TokenKind::Float ||
                              token.is_operator("[") || token.is_operator("{");
    if (token.is_operator("(")) {
        if (!parse_args(*e->call)) return nullptr;
    } else if (starts_value && !token.is_name("else") && !token.is_name("or") &&
               !token.is_name("and")) {
        if (token.is_name("is")) {
            fail("tests with 'is' cannot be chained");
            return nullptr;
        }
        ExprPtr arg = parse_primary();
        if (arg) arg = parse_postfix(std::move(arg));
        if (!arg) return nullptr;
        e->call->positional.push_back(std::move(arg));
    }
    e = finish(std::move(e));
    if (!e || !negated) return e;
    ExprPtr n = make(ExprKind::Not, at);
    n->kids.push_back(std::move(e));
    return finish(std::move(n));
}

}  // namespace nib::jinja
