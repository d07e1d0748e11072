// SPDX-License-Identifier: MIT
// Small made-up vocabularies, one for each model, so that the algorithms are tested without any
// file.
#pragma once
#include "src/tokenizer/byte_alphabet.h"
#include "tests/tokenizer/fixtures.h"

namespace nib::test {

inline std::string spelled(std::string_view bytes) {
    std::string out;
    for (const char c : bytes)
        utf8_append(out, kByteAlphabet.code[static_cast<uint8_t>(c)]);
    return out;
}

inline constexpr Token kFirstMerge = 256;  // before it: token b is the byte b

// `merges` in the alphabet of bytes: "h e" makes the token "he".
inline GgufBytes bpe_bytes(const std::vector<std::string>& merges,
                           const std::string& pre,
                           const std::vector<Entry>& more = {}) {
    std::vector<Entry> entries;
    for (int b = 0; b < 256; ++b)
        entries.push_back({spelled(std::string(1, static_cast<char>(b)))});
    for (std::string merge : merges) {
        merge.erase(merge.find(' '), 1);
        entries.push_back({merge});
    }
    entries.insert(entries.end(), more.begin(), more.end());
    GgufBytes bytes = vocabulary_bytes("gpt2", entries);
    bytes.add_strings("tokenizer.ggml.merges", merges);
    bytes.add_string("tokenizer.ggml.pre", pre);
    return bytes;
}

// 0 <unk>, 1 <s>, 2 </s>, then 256 byte tokens, then the entries.
inline constexpr Token kFirstSpm = 259;

inline GgufBytes spm_bytes(const std::vector<Entry>& entries) {
    std::vector<Entry> all = {
        {"<unk>", TokenKind::Unknown}, {"<s>", TokenKind::Control}, {"</s>", TokenKind::Control}};
    for (int b = 0; b < 256; ++b) {
        char text[8];
        std::snprintf(text, sizeof text, "<0x%02X>", b);
        all.push_back({text, TokenKind::Byte});
    }
    all.insert(all.end(), entries.begin(), entries.end());
    GgufBytes bytes = vocabulary_bytes("llama", all);
    bytes.add_u32("tokenizer.ggml.unknown_token_id", 0);
    bytes.add_u32("tokenizer.ggml.bos_token_id", 1);
    bytes.add_u32("tokenizer.ggml.eos_token_id", 2);
    return bytes;
}

inline GgufBytes wpm_bytes(const std::vector<std::string>& pieces) {
    std::vector<Entry> all = {{"[UNK]", TokenKind::Control},
                              {"[CLS]", TokenKind::Control},
                              {"[SEP]", TokenKind::Control}};
    for (const std::string& piece : pieces)
        all.push_back({piece});
    GgufBytes bytes = vocabulary_bytes("bert", all);
    bytes.add_u32("tokenizer.ggml.unknown_token_id", 0);
    bytes.add_u32("tokenizer.ggml.cls_token_id", 1);
    bytes.add_u32("tokenizer.ggml.seperator_token_id", 2);
    return bytes;
}

}  // namespace nib::test
