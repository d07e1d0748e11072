// SPDX-License-Identifier: MIT
// The parser's two halves share this class: parser.cpp holds statements, parser_expr.cpp
// expressions. A function that fails has set the error and gives null or false; the first error
// stays.
#pragma once
#include "src/chat/ast.h"
#include "src/chat/lexer.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nib::jinja {

class Parser {
  public:
    Parser(std::vector<Token> tokens, Tree& tree, SyntaxError& error);
    bool run();

  private:
    // Counts one level of nesting while it lives.
    struct Nest {
        explicit Nest(Parser& parser) : p(parser) { ++p.depth_; }
        ~Nest() { --p.depth_; }
        bool ok() { return p.depth_ <= kTreeHeightMax || p.fail("nested too deep"); }
        Parser& p;
    };

    const Token& now() const { return tokens_[at_]; }
    const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
    void next() {
        if (at_ + 1 < tokens_.size()) ++at_;
    }
    bool fail(std::string message) { return fail_at(now().at, std::move(message)); }
    bool fail_at(size_t at, std::string message);
    bool unexpected(const char* expected);
    bool skip_op(std::string_view s);
    bool skip_name(std::string_view s);
    bool expect_op(const char* s);
    bool expect_name(const char* s);
    bool expect_block_end();
    uint32_t intern(const std::string& name);
    uint32_t use_name(const std::string& name);

    // Statements. A body ends at one of the tags in `ends`, whose name is then the current token.
    using Ends = std::vector<std::string_view>;
    bool parse_body(Body& body, const Ends& ends);
    bool parse_block_body(Body& body, const Ends& ends);
    bool parse_statement(Body& body);
    bool parse_set(Stmt& s);
    bool parse_for(Stmt& s);
    bool parse_if(Stmt& s);
    bool parse_macro(Stmt& s);
    bool parse_call_block(Stmt& s);
    bool parse_filter_block(Stmt& s);
    bool parse_with(Stmt& s);
    bool parse_loop_control(Stmt& s);
    bool parse_signature(MacroDef& macro);
    bool parse_macro_body(MacroDef& macro, std::string_view end);
    bool parse_target(Target& target, bool allow_attribute, bool stop_at_in);
    bool parse_one_target(Target& target, bool allow_attribute);

    // Expressions.
    ExprPtr make(ExprKind kind, size_t at) const;
    ExprPtr finish(ExprPtr e);
    ExprPtr parse_expression(bool with_condition = true);
    ExprPtr parse_condition();
    ExprPtr parse_or();
    ExprPtr parse_and();
    ExprPtr parse_not();
    ExprPtr parse_compare();
    ExprPtr parse_sum();
    ExprPtr parse_concat();
    ExprPtr parse_product();
    ExprPtr parse_power();
    ExprPtr parse_unary(bool with_filter = true);
    ExprPtr parse_primary();
    ExprPtr parse_tuple(bool with_condition,
                        bool parentheses = false,
                        bool stop_at_recursive = false);
    ExprPtr parse_list();
    ExprPtr parse_dict();
    ExprPtr parse_postfix(ExprPtr e);
    ExprPtr parse_filters_and_tests(ExprPtr e);
    ExprPtr parse_subscript(ExprPtr e);
    ExprPtr parse_index(ExprPtr object, size_t at);
    ExprPtr parse_call(ExprPtr callee);
    ExprPtr parse_filter(ExprPtr input, bool has_input);
    ExprPtr parse_test(ExprPtr input);
    bool parse_args(CallArgs& args);
    using Rule = ExprPtr (Parser::*)();
    struct Operator {
        std::string_view text;
        Op op;
    };
    ExprPtr parse_chain(Rule operand, std::initializer_list<Operator> operators);
    ExprPtr parse_words(Rule operand, std::string_view word, ExprKind kind);
    bool find_compare(Op& op);

    std::vector<Token> tokens_;
    size_t at_ = 0;
    Tree& tree_;
    SyntaxError& error_;
    bool failed_ = false;
    uint32_t depth_ = 0;
    uint32_t soft_ = 0;                 // inside branches of `if`
    std::vector<SyntaxError> unknown_;  // filters and tests, outside of branches and conditions
    uint32_t loops_ = 0;                // inside loops of this macro
    std::vector<MacroDef*> macros_;
    std::map<std::string, uint32_t, std::less<>> names_;
};

}  // namespace nib::jinja
