// SPDX-License-Identifier: MIT
// A pull scanner for the JSON inside safetensors checkpoints: one token at a time, strict grammar,
// an explicit stack with a depth limit, strings decoded and checked. It builds no tree; callers
// take what they expect and skip the rest.
#pragma once
#include "ggml-like/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nib {

enum class JsonKind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Key,
    String,
    Number,
    Word,
    End
};

struct JsonToken {
    JsonKind kind = JsonKind::End;
    std::string
        text;  // of a key, a string (decoded), a number or a word (true, false, null) as written
};

class JsonScanner {
  public:
    static constexpr size_t kDepthMax = 64;

    // `text` must outlive the scanner. Errors carry no path: the caller knows it.
    explicit JsonScanner(std::string_view text) : text_(text) {}

    Result<JsonToken> next();
    // The rest of the value whose first token was just read.
    Result<void> skip(const JsonToken& first);
    // next(), which must be of this kind; `what` names it in the error.
    Result<JsonToken> expect(JsonKind kind, const char* what);
    // The next member's key, or a token of kind ObjectEnd.
    Result<JsonToken> key();
    // The integer in [0, 2^64) that a token must be; `what` names it in the error.
    static Result<uint64_t> whole(const char* what, const JsonToken& token);

  private:
    enum class State { Value, FirstKeyOrEnd, NextKey, FirstItemOrEnd, AfterValue, Done };

    Error bad(const std::string& what) const;
    void skip_blanks();
    Result<JsonToken> value();
    Result<JsonToken> open(bool object);
    Result<JsonToken> close();
    Result<JsonToken> member();
    Result<std::string> quoted_text();
    Result<void> escape(std::string& out);
    Result<uint32_t> hex4();
    Result<JsonToken> number();
    Result<JsonToken> word();
    void after_value();

    std::string_view text_;
    size_t at_ = 0;
    State state_ = State::Value;
    std::vector<bool> objects_;  // one per open container: is it an object?
};

}  // namespace nib
