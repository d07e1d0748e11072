// SPDX-License-Identifier: MIT
// The only file that knows PCRE2. The JIT compiler is used if the system lets it; the interpreter
// gives the same matches. The text is known to be valid UTF-8, so PCRE2 is told not to check it
// again: it would do so for each match, and the work would grow with the square of the text.
#include "src/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <algorithm>
#include <string>

#include <pcre2.h>

namespace nib {
namespace {

// \s and \S in PCRE2 hold U+180E, which left White_Space long ago.
std::string with_unicode_space(std::string_view pattern) {
    std::string out;
    for (size_t i = 0; i < pattern.size(); ++i) {
        if (pattern[i] != '\\' || i + 1 == pattern.size()) {
            out += pattern[i];
            continue;
        }
        const char next = pattern[++i];
        if (next == 's') {
            out += "\\p{White_Space}";
        } else if (next == 'S') {
            out += "\\P{White_Space}";
        } else {
            out += '\\';
            out += next;
        }
    }
    return out;
}

template <class T, void (*kFree)(T*)>
struct Freed {
    void operator()(T* p) const { kFree(p); }
};
using MatchData = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data, pcre2_match_data_free>>;
using MatchContext =
    std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context, pcre2_match_context_free>>;

constexpr uint32_t kHeapLimitKib = 64 * 1024;

// Room for patterns whose work grows in step with the text, and no more.
MatchContext make_context(size_t text_bytes) {
    MatchContext context(pcre2_match_context_create(nullptr));
    if (!context) return context;
    const uint64_t steps = 10'000'000 + 20 * static_cast<uint64_t>(text_bytes);
    pcre2_set_match_limit(context.get(),
                          static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
    pcre2_set_heap_limit(context.get(), kHeapLimitKib);
    return context;
}

}  // namespace

struct Regex::Code {
    pcre2_code* code = nullptr;
    ~Code() { pcre2_code_free(code); }
};

Result<Regex> Regex::compile(std::string_view pattern) {
    const std::string text = with_unicode_space(pattern);
    int error = 0;
    PCRE2_SIZE where = 0;
    auto code = std::make_shared<Code>();
    code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                               PCRE2_UTF | PCRE2_UCP, &error, &where, nullptr);
    if (!code->code) {
        PCRE2_UCHAR message[256] = {};
        pcre2_get_error_message(error, message, sizeof message);
        return Error{Status::Internal, "pattern '" + text + "' at " + std::to_string(where) + ": " +
                                           reinterpret_cast<const char*>(message)};
    }
    // Without a JIT (no such machine, or executable pages are forbidden) the interpreter does it.
    (void)pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);
    Regex regex;
    regex.code_ = std::move(code);
    return regex;
}

// One match after another in one thread.
struct Regex::Matcher {
    const pcre2_code* code;
    MatchData data;
    MatchContext context;

    Matcher(const pcre2_code* c, size_t text_bytes)
        : code(c),
          data(pcre2_match_data_create_from_pattern(c, nullptr)),
          context(make_context(text_bytes)) {}

    // The next match at or after `from`; false if there is none or a limit is reached.
    bool next(std::string_view piece, size_t from, size_t& begin, size_t& end) const {
        if (!data || !context) return false;
        const auto subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
        int rc = pcre2_match(code, subject, piece.size(), from, PCRE2_NO_UTF_CHECK, data.get(),
                             context.get());
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
            rc = pcre2_match(code, subject, piece.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                             data.get(), context.get());
        }
        if (rc < 0) return false;
        const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data.get());
        begin = found[0];
        end = found[1];
        return begin >= from && end >= begin && end <= piece.size();
    }

    void split(std::string_view piece, size_t base, std::vector<size_t>& ends) const {
        size_t done = 0;  // all before it is cut
        size_t begin = 0;
        size_t end = 0;
        for (size_t from = 0; from < piece.size() && next(piece, from, begin, end);) {
            if (begin > done) ends.push_back(base + begin);
            if (end > begin) ends.push_back(base + end);
            done = end;
            from = end;
            if (end ==
                begin) {  // an empty match is only a border: look on behind the next character
                ++from;
                while (from < piece.size() && (static_cast<uint8_t>(piece[from]) & 0xC0) == 0x80)
                    ++from;
            }
        }
        if (done < piece.size()) ends.push_back(base + piece.size());
    }
};

void Regex::split(std::string_view text, std::vector<size_t>& ends) const {
    const Matcher matcher(code_->code, text.size());
    std::vector<size_t> finer;
    finer.reserve(ends.size());
    size_t begin = 0;
    for (const size_t end : ends) {
        matcher.split(text.substr(begin, end - begin), begin, finer);
        begin = end;
    }
    ends.swap(finer);
}

}  // namespace nib
