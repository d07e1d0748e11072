// SPDX-License-Identifier: MIT
#include "src/chat/parser.h"

#include "src/chat/parser_impl.h"

#include <algorithm>

namespace nib::jinja {
namespace {

std::string describe(const Token& token) {
    switch (token.kind) {
    case TokenKind::Text:
        return "text";
    case TokenKind::OutputBegin:
        return "'{{'";
    case TokenKind::OutputEnd:
        return "'}}'";
    case TokenKind::BlockBegin:
        return "'{%'";
    case TokenKind::BlockEnd:
        return "'%}'";
    case TokenKind::Name:
    case TokenKind::Operator:
        return "'" + token.text.substr(0, 60) + "'";
    case TokenKind::String:
        return "a string";
    case TokenKind::Integer:
    case TokenKind::Float:
        return "a number";
    case TokenKind::End:
        break;
    }
    return "the end of the template";
}

}  // namespace

Parser::Parser(std::vector<Token> tokens, Tree& tree, SyntaxError& error)
    : tokens_(std::move(tokens)), tree_(tree), error_(error) {
    for (const char* name : {"loop", "caller", "varargs", "kwargs"})
        intern(name);
}

bool Parser::fail_at(size_t at, std::string message) {
    if (!failed_) error_ = {at, std::move(message)};
    failed_ = true;
    return false;
}

bool Parser::unexpected(const char* expected) {
    return fail(std::string("expected ") + expected + ", got " + describe(now()));
}

bool Parser::skip_op(std::string_view s) {
    if (!now().is_operator(s)) return false;
    next();
    return true;
}

bool Parser::skip_name(std::string_view s) {
    if (!now().is_name(s)) return false;
    next();
    return true;
}

bool Parser::expect_op(const char* s) {
    return skip_op(s) || unexpected(("'" + std::string(s) + "'").c_str());
}

bool Parser::expect_name(const char* s) {
    return skip_name(s) || unexpected(("'" + std::string(s) + "'").c_str());
}

bool Parser::expect_block_end() {
    if (now().kind != TokenKind::BlockEnd) return unexpected("'%}'");
    next();
    return true;
}

uint32_t Parser::intern(const std::string& name) {
    const auto [at, is_new] = names_.try_emplace(name, static_cast<uint32_t>(tree_.names.size()));
    if (is_new) {
        tree_.names.push_back(make_text(nullptr, name));
        tree_.undefined.push_back(make_undefined(nullptr, "'" + name + "' is undefined"));
    }
    return at->second;
}

// A name that is read: macros around it learn of the special ones.
uint32_t Parser::use_name(const std::string& name) {
    const uint32_t id = intern(name);
    for (MacroDef* macro : macros_) {
        macro->uses_caller |= id == kCaller;
        macro->uses_varargs |= id == kVarargs;
        macro->uses_kwargs |= id == kKwargs;
    }
    return id;
}

bool Parser::run() {
    if (!parse_body(tree_.body, {})) return false;
    if (!unknown_.empty()) return fail_at(unknown_[0].at, unknown_[0].message);
    return now().kind == TokenKind::End || unexpected("the end of the template");
}

bool Parser::parse_body(Body& body, const Ends& ends) {
    while (now().kind != TokenKind::End) {
        const Token& token = now();
        if (token.kind == TokenKind::BlockBegin) {
            next();
            if (now().kind == TokenKind::Name &&
                std::find(ends.begin(), ends.end(), now().text) != ends.end()) {
                return true;
            }
            if (!parse_statement(body)) return false;
            continue;
        }
        auto s = std::make_unique<Stmt>();
        s->at = token.at;
        if (token.kind == TokenKind::Text) {
            s->value = make_text(nullptr, token.text);
            next();
        } else {
            next();
            s->kind = StmtKind::Output;
            s->expr = parse_tuple(true);
            if (!s->expr) return false;
            if (now().kind != TokenKind::OutputEnd) return unexpected("'}}'");
            next();
        }
        body.push_back(std::move(s));
    }
    if (ends.empty()) return true;
    std::string wanted;
    for (const std::string_view end : ends) {
        wanted += (wanted.empty() ? "" : " or ") + std::string("{% ") + std::string(end) + " %}";
    }
    return unexpected(wanted.c_str());
}

// The rest of an opening tag, then its body.
bool Parser::parse_block_body(Body& body, const Ends& ends) {
    Nest nest(*this);
    if (!nest.ok()) return false;
    skip_op(":");
    return expect_block_end() && parse_body(body, ends);
}

bool Parser::parse_statement(Body& body) {
    static const struct {
        std::string_view tag;
        bool (Parser::*parse)(Stmt&);
    } kTags[] = {
        {"set", &Parser::parse_set},
        {"for", &Parser::parse_for},
        {"if", &Parser::parse_if},
        {"macro", &Parser::parse_macro},
        {"call", &Parser::parse_call_block},
        {"filter", &Parser::parse_filter_block},
        {"with", &Parser::parse_with},
        {"break", &Parser::parse_loop_control},
        {"continue", &Parser::parse_loop_control},
    };
    if (now().kind != TokenKind::Name) return unexpected("the name of a tag");
    auto s = std::make_unique<Stmt>();
    s->at = now().at;
    const std::string tag = now().text;
    if (tag == "generation") {
        next();
        s->kind = StmtKind::Scope;
        if (!parse_block_body(s->body, {"endgeneration"})) return false;
        next();
        body.push_back(std::move(s));
        return expect_block_end();
    }
    for (const auto& known : kTags) {
        if (known.tag != tag) continue;
        if (!(this->*known.parse)(*s)) return false;
        body.push_back(std::move(s));
        return expect_block_end();
    }
    return fail("unknown tag '" + tag.substr(0, 60) + "'");
}

bool Parser::parse_set(Stmt& s) {
    next();
    if (!parse_target(s.target, true, false)) return false;
    if (skip_op("=")) {
        s.kind = StmtKind::Set;
        s.expr = parse_tuple(true);
        return s.expr != nullptr;
    }
    s.kind = StmtKind::SetBlock;
    while (now().is_operator("|")) {
        next();
        const bool has_input = s.expr != nullptr;
        s.expr = parse_filter(std::move(s.expr), has_input);
        if (!s.expr) return false;
    }
    if (!parse_block_body(s.body, {"endset"})) return false;
    next();
    return true;
}

bool Parser::parse_for(Stmt& s) {
    next();
    s.kind = StmtKind::For;
    if (!parse_target(s.target, false, true)) return false;
    if (s.target.what == Target::What::Name && s.target.name == kLoop) {
        return fail_at(s.target.at, "a loop cannot assign to 'loop'");
    }
    if (!expect_name("in")) return false;
    s.expr = parse_tuple(false, false, true);
    if (!s.expr) return false;
    if (skip_name("if")) {
        s.test = parse_expression();
        if (!s.test) return false;
    }
    s.recursive = skip_name("recursive");
    ++loops_;
    const bool ok = parse_block_body(s.body, {"endfor", "else"});
    --loops_;
    if (!ok) return false;
    const bool has_else = now().text == "else";
    next();
    if (!has_else) return true;
    if (!parse_block_body(s.otherwise, {"endfor"})) return false;
    next();
    return true;
}

bool Parser::parse_if(Stmt& s) {
    s.kind = StmtKind::If;
    while (true) {
        next();
        ExprPtr test = parse_tuple(false);
        if (!test) return false;
        s.branches.emplace_back(std::move(test), Body());
        ++soft_;
        const bool ok = parse_block_body(s.branches.back().second, {"elif", "else", "endif"});
        --soft_;
        if (!ok) return false;
        if (now().text == "elif") continue;
        const bool has_else = now().text == "else";
        next();
        if (!has_else) return true;
        ++soft_;
        const bool ok_else = parse_block_body(s.otherwise, {"endif"});
        --soft_;
        if (!ok_else) return false;
        next();
        return true;
    }
}

bool Parser::parse_signature(MacroDef& macro) {
    if (!expect_op("(")) return false;
    while (!now().is_operator(")")) {
        if (!macro.params.empty() && !expect_op(",")) return false;
        Target param;
        if (!parse_one_target(param, false)) return false;
        if (param.what != Target::What::Name) return fail_at(param.at, "expected a name");
        if (skip_op("=")) {
            macro.defaults.push_back(parse_expression());
            if (!macro.defaults.back()) return false;
        } else if (!macro.defaults.empty()) {
            return fail_at(param.at, "a parameter without a default follows one that has it");
        }
        macro.params.push_back(param.name);
        macro.param_names.push_back(tree_.names[param.name]);
    }
    next();
    return true;
}

bool Parser::parse_macro_body(MacroDef& macro, std::string_view end) {
    const uint32_t loops = loops_;
    loops_ = 0;
    macros_.push_back(&macro);
    const bool ok = parse_block_body(macro.body, {end});
    macros_.pop_back();
    loops_ = loops;
    if (!ok) return false;
    next();
    return true;
}

bool Parser::parse_macro(Stmt& s) {
    next();
    s.kind = StmtKind::Macro;
    s.macro = std::make_unique<MacroDef>();
    if (now().kind != TokenKind::Name) return unexpected("the name of the macro");
    s.macro->variable = intern(now().text);
    s.macro->name = tree_.names[s.macro->variable];
    next();
    return parse_signature(*s.macro) && parse_macro_body(*s.macro, "endmacro");
}

bool Parser::parse_call_block(Stmt& s) {
    next();
    s.kind = StmtKind::CallBlock;
    s.macro = std::make_unique<MacroDef>();
    s.macro->variable = kCaller;
    s.macro->name = tree_.names[kCaller];
    if (now().is_operator("(") && !parse_signature(*s.macro)) return false;
    s.expr = parse_expression();
    if (!s.expr) return false;
    if (s.expr->kind != ExprKind::Call) return fail_at(s.at, "expected a call");
    return parse_macro_body(*s.macro, "endcall");
}

bool Parser::parse_filter_block(Stmt& s) {
    next();
    s.kind = StmtKind::FilterBlock;
    do {
        const bool has_input = s.expr != nullptr;
        s.expr = parse_filter(std::move(s.expr), has_input);
        if (!s.expr) return false;
    } while (skip_op("|"));
    if (!parse_block_body(s.body, {"endfilter"})) return false;
    next();
    return true;
}

bool Parser::parse_with(Stmt& s) {
    next();
    s.kind = StmtKind::With;
    while (now().kind != TokenKind::BlockEnd) {
        if (!s.assignments.empty() && !expect_op(",")) return false;
        Target target;
        if (!parse_target(target, false, false) || !expect_op("=")) return false;
        ExprPtr value = parse_expression();
        if (!value) return false;
        s.assignments.emplace_back(std::move(target), std::move(value));
    }
    if (!parse_block_body(s.body, {"endwith"})) return false;
    next();
    return true;
}

bool Parser::parse_loop_control(Stmt& s) {
    s.kind = now().text == "break" ? StmtKind::Break : StmtKind::Continue;
    if (loops_ == 0) return fail("'" + now().text + "' outside of a loop");
    next();
    return true;
}

// A name, an attribute of a namespace, or several of them with commas between.
bool Parser::parse_target(Target& target, bool allow_attribute, bool stop_at_in) {
    const auto at_end = [&] {
        const TokenKind kind = now().kind;
        return kind == TokenKind::BlockEnd || kind == TokenKind::OutputEnd ||
               now().is_operator(")") || (stop_at_in && now().is_name("in"));
    };
    target.at = now().at;
    Target first;
    if (!parse_one_target(first, allow_attribute)) return false;
    if (!now().is_operator(",")) {
        target = std::move(first);
        return true;
    }
    target.what = Target::What::Tuple;
    target.parts.push_back(std::move(first));
    while (skip_op(",")) {
        if (at_end()) break;
        target.parts.emplace_back();
        if (!parse_one_target(target.parts.back(), allow_attribute)) return false;
    }
    return true;
}

bool Parser::parse_one_target(Target& target, bool allow_attribute) {
    Nest nest(*this);
    if (!nest.ok()) return false;
    target.at = now().at;
    if (skip_op("(")) {
        if (!parse_target(target, allow_attribute, false)) return false;
        return expect_op(")");
    }
    if (now().kind != TokenKind::Name) return unexpected("a name to assign to");
    static constexpr std::string_view kConstants[] = {"true", "false", "none",
                                                      "True", "False", "None"};
    if (std::find(std::begin(kConstants), std::end(kConstants), now().text) !=
        std::end(kConstants)) {
        return fail("cannot assign to '" + now().text + "'");
    }
    target.name = intern(now().text);
    next();
    if (!allow_attribute || !skip_op(".")) return true;
    if (now().kind != TokenKind::Name) return unexpected("the name of an attribute");
    target.what = Target::What::Attribute;
    target.attribute = tree_.names[intern(now().text)];
    next();
    return true;
}

bool parse_template(std::string_view source, Tree& tree, SyntaxError& error) {
    std::vector<Token> tokens;
    if (!tokenize(source, tokens, error)) return false;
    return Parser(std::move(tokens), tree, error).run();
}

}  // namespace nib::jinja
