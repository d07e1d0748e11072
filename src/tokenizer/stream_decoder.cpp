// SPDX-License-Identifier: MIT
// Text from a stream of tokens: what is sent is always whole characters.
#include "src/tokenizer/tokenizer.h"
#include "src/tokenizer/utf8.h"

namespace nib {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Moves all that is whole or surely broken from `held` to the result. At most an incomplete
// character of three bytes remains; if `last`, nothing does.
std::string take_text(std::string& held, bool last) {
    std::string out;
    size_t i = 0;
    while (i < held.size()) {
        const Utf8Char c = utf8_at(held, i);
        if (c.incomplete && !last) break;
        out += c.valid ? std::string_view(held).substr(i, c.bytes) : kReplacement;
        i += c.bytes;
    }
    held.erase(0, i);
    return out;
}

}  // namespace

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer,
                             bool special,
                             bool starts_text)
    : tokenizer_(std::move(tokenizer)), special_(special), at_start_(starts_text) {}

std::string StreamDecoder::push(Token token) {
    std::string bytes = tokenizer_->piece(token, special_);
    if (at_start_ && !bytes.empty()) {
        at_start_ = false;
        bytes = tokenizer_->decode({&token, 1}, special_);
    }
    held_ += bytes;
    return take_text(held_, false);
}

std::string StreamDecoder::finish() {
    return take_text(held_, true);
}

}  // namespace nib
