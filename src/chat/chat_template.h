// SPDX-License-Identifier: MIT
// A model's own chat template (Jinja), rendered as Python's jinja2 does in the environment that
// transformers uses: trim_blocks, lstrip_blocks, loop controls, a `generation` tag that prints its
// body, tojson = json.dumps(ensure_ascii=False), raise_exception, strftime_now. Parsing and
// rendering are bounded in depth, steps and output; a template reads no file and calls no code.
//
// Rendered text remembers which bytes came out of the conversation and which out of the template,
// so that marks in a message never become control tokens (Rendered::segments). Threads: a
// ChatTemplate is immutable; render() may run on any thread.
#pragma once
#include "ggml-like/result.h"
#include "src/json/json.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nib {

struct RenderLimits {
    uint64_t steps = 10'000'000;
    uint32_t depth = 200;              // nesting of expressions, blocks and calls
    uint64_t output_bytes = 8u << 20;  // plus 64 bytes for each byte of input
    double seconds = 2.0;
};

struct Rendered {
    std::string text;
    // Byte ranges of `text` that came from the context's data (messages, tools, kwargs), sorted,
    // not touching each other. The rest is the template's own.
    struct Range {
        size_t begin, end;
    };
    std::vector<Range> data;
};

class ChatTemplate {
  public:
    // Errors: BadFile with "line L, column C". Source limit: 1 MiB.
    static Result<std::shared_ptr<const ChatTemplate>> parse(std::string_view source);

    // context: an object; what it does not hold is undefined. Strings in it are data, except those
    // under the names in `trusted_names` (bos_token, eos_token and the like).
    // now_unix: the clock for strftime_now (UTC). Errors: BadRequest with line and column, and with
    // the text of raise_exception.
    Result<Rendered> render(const Json& context,
                            int64_t now_unix,
                            const RenderLimits& limits = {}) const;

    const std::string& source() const;
    ~ChatTemplate();

  private:
    ChatTemplate();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace nib
