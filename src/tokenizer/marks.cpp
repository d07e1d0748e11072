// SPDX-License-Identifier: MIT
// Marks in a sorted list: reading a text narrows the range of marks that begin like it, byte by
// byte. The work at one place is bounded by the longest mark (kMarkBytesMax) and ends at once at
// most places.
#include "src/tokenizer/marks.h"

#include <algorithm>
#include <tuple>

namespace nib {
namespace {

// SentencePiece finds its user-defined tokens after spaces have become U+2581; we look before.
std::string with_spaces(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size();) {
        if (text.substr(i, kSpaceMark.size()) == kSpaceMark) {
            out += ' ';
            i += kSpaceMark.size();
        } else {
            out += text[i++];
        }
    }
    return out;
}

}  // namespace

MarkSet::MarkSet(const Vocabulary& vocabulary) {
    std::vector<Token> respelled;
    for (Token t = 0; t < vocabulary.size(); ++t) {
        const TokenKind kind = vocabulary.kind(t);
        const std::string_view text = vocabulary.text(t);
        const bool user_defined = kind == TokenKind::UserDefined;
        if (text.empty()) continue;
        if (!user_defined && kind != TokenKind::Control && kind != TokenKind::Unknown) continue;
        marks_.push_back({text, t, user_defined});
        if (user_defined && vocabulary.model == TokenizerModel::Spm &&
            text.find(kSpaceMark) != std::string_view::npos) {
            respelled.push_back(t);
        }
    }
    spellings_.reserve(respelled.size());  // the marks point into it
    for (const Token t : respelled) {
        spellings_.push_back(with_spaces(vocabulary.text(t)));
        marks_.push_back({spellings_.back(), t, true});
    }
    const auto key = [](const Mark& m) {
        return std::make_tuple(m.text, !m.user_defined, m.token);
    };
    std::sort(marks_.begin(), marks_.end(),
              [&](const Mark& a, const Mark& b) { return key(a) < key(b); });
    const auto same = [](const Mark& a, const Mark& b) {
        return a.text == b.text && a.user_defined == b.user_defined;
    };
    marks_.erase(std::unique(marks_.begin(), marks_.end(), same), marks_.end());
    for (const Mark& mark : marks_) {
        const auto byte = static_cast<uint8_t>(mark.text[0]);
        ++first_[byte + 1u];
        user_defined_first_[byte] |= mark.user_defined;
    }
    for (size_t b = 0; b < 256; ++b)
        first_[b + 1] += first_[b];
}

MarkSet::Found MarkSet::find(std::string_view text, size_t i, size_t control_end) const {
    const auto first = static_cast<uint8_t>(text[i]);
    if (control_end <= i && !user_defined_first_[first]) return {};
    auto low = marks_.begin() + first_[first];
    auto high = marks_.begin() + first_[first + 1u];
    Found found;
    for (size_t depth = 1; low != high; ++depth) {
        // The marks that are whole here: at most one of each sort, before the longer ones.
        for (; low != high && low->text.size() == depth; ++low) {
            const bool seen = low->user_defined || i + depth <= control_end;
            if (seen && found.bytes < depth) found = {low->token, depth};
        }
        if (low == high || i + depth == text.size()) break;
        const auto byte = static_cast<uint8_t>(text[i + depth]);
        low = std::partition_point(
            low, high, [&](const Mark& m) { return static_cast<uint8_t>(m.text[depth]) < byte; });
        high = std::partition_point(
            low, high, [&](const Mark& m) { return static_cast<uint8_t>(m.text[depth]) == byte; });
    }
    return found;
}

}  // namespace nib
