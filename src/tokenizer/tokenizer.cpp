// SPDX-License-Identifier: MIT
// The tokenizer as others see it. Encoding: the segments are joined to one text, marks are found in
// it from left to right, and each run of text between two marks goes to the model of the
// vocabulary.
#include "src/tokenizer/tokenizer.h"

#include "ggml-like/files/text.h"
#include "src/tokenizer/byte_alphabet.h"
#include "src/tokenizer/marks.h"
#include "src/tokenizer/pre_tokenizer.h"
#include "src/tokenizer/text_model.h"
#include "src/tokenizer/utf8.h"

#include <algorithm>

namespace nib {
namespace {

// Marks that end a turn of the model, by what they are called in the families we know. The first
// one that a vocabulary has is its EOT if the file does not name one.
constexpr std::string_view kEndMarks[] = {"<|eot_id|>",        "<|im_end|>",
                                          "<end_of_turn>",     "<turn|>",
                                          "<|end|>",           "<|eom_id|>",
                                          "<|endoftext|>",     "</s>",
                                          "<|end_of_text|>",   "<|EOT|>",
                                          "<|return|>",        "<|call|>",
                                          "<|endofturn|>",     "<|END_OF_TURN_TOKEN|>",
                                          "<end_of_utterance>"};
constexpr size_t kTurnMarks = 5;  // how many of them end a turn rather than a text

// A part of the joined text.
struct Part {
    size_t end;
    bool trusted;
};

}  // namespace

struct Tokenizer::Impl {
    explicit Impl(std::unique_ptr<const Vocabulary> vocabulary)
        : owned(std::move(vocabulary)), v(*owned), marks(v) {}

    std::unique_ptr<const Vocabulary> owned;
    const Vocabulary& v;
    MarkSet marks;
    std::unique_ptr<const TextModel> model;
    Token bos = kNoToken, eos = kNoToken, eot = kNoToken;
    bool adds_bos = false, adds_eos = false;
    bool strips_space = false;   // a decoded text has no space of its own in front
    bool phantom_space = false;  // WPM: words begin with U+2581, not the others with ##
    std::vector<Token> end_tokens;

    Result<void> make_model(const GgufFile& file, TokenizerOptions options);
    void find_ends();
    Token control(std::string_view text) const;
    void encode(std::string_view text,
                std::span<const Part> parts,
                bool add_special,
                std::vector<Token>& out) const;
    void append_piece(std::string& out, Token token, bool special) const;
    void append_bytes(std::string& out, std::string_view spelled) const;
};

Result<void> Tokenizer::Impl::make_model(const GgufFile& file, TokenizerOptions options) {
    const TokenizerSwitches& s = v.switches;
    bos = v.ids.bos;
    eos = v.ids.eos;
    if (v.model == TokenizerModel::Bpe) {
        const PreTokenizerDef* pre = find_pre_tokenizer(v.pre);
        if (!pre && options.allow_unknown_pre) pre = find_pre_tokenizer("default");
        if (!pre) {
            return file.bad("tokenizer.ggml.pre " + quoted(v.pre) +
                            " is not known (known: " + known_pre_tokenizers() + ")");
        }
        NIB_ASSIGN(model, make_bpe(v, *pre));
        adds_bos = s.add_bos < 0 ? pre->adds_bos : s.add_bos == 1;
        adds_eos = s.add_eos == 1;
    } else if (v.model == TokenizerModel::Spm) {
        strips_space = s.add_space_prefix != 0;
        model = make_spm(v, strips_space);
        adds_bos = s.add_bos != 0;
        adds_eos = s.add_eos == 1;
    } else {
        if (v.ids.cls != kNoToken) bos = v.ids.cls;
        if (v.ids.separator != kNoToken) eos = v.ids.separator;
        strips_space = true;
        model = make_wpm(v);
        for (Token t = 0; t < v.size() && !phantom_space; ++t) {
            phantom_space = v.text(t).substr(0, kSpaceMark.size()) == kSpaceMark;
        }
        adds_bos = s.add_bos != 0;
        adds_eos = s.add_sep >= 0 ? s.add_sep == 1 : s.add_eos != 0;
    }
    adds_bos = adds_bos && bos != kNoToken;
    adds_eos = adds_eos && eos != kNoToken;
    return {};
}

Token Tokenizer::Impl::control(std::string_view text) const {
    const Token token = v.reserved.find(text);
    return token != kNoToken && v.kind(token) == TokenKind::Control ? token : kNoToken;
}

void Tokenizer::Impl::find_ends() {
    eot = v.ids.eot;
    const auto add = [&](Token token) {
        if (token == kNoToken) return;
        if (std::find(end_tokens.begin(), end_tokens.end(), token) == end_tokens.end()) {
            end_tokens.push_back(token);
        }
    };
    add(eos);
    add(eot);
    add(v.ids.eom);
    // Where <|return|> ends a turn, <|end|> only ends one of its messages.
    const bool end_is_inner = control("<|return|>") != kNoToken && control("<|call|>") != kNoToken;
    for (size_t i = 0; i < std::size(kEndMarks); ++i) {
        if (end_is_inner && kEndMarks[i] == "<|end|>") continue;
        const Token token = control(kEndMarks[i]);
        add(token);
        if (eot == kNoToken && i < kTurnMarks) eot = token;
    }
}

void Tokenizer::Impl::encode(std::string_view text,
                             std::span<const Part> parts,
                             bool add_special,
                             std::vector<Token>& out) const {
    size_t run = 0;  // where the current run of ordinary text begins
    size_t part = 0;
    for (size_t i = 0; i < text.size();) {
        while (parts[part].end <= i)
            ++part;
        const MarkSet::Found mark = marks.find(text, i, parts[part].trusted ? parts[part].end : 0);
        if (mark.token == kNoToken) {
            ++i;
            continue;
        }
        if (i > run) model->encode(text.substr(run, i - run), out);
        out.push_back(mark.token);
        i += mark.bytes;
        run = i;
        // The text brings its own BOS; the one that was added is taken back.
        if (add_special && adds_bos && mark.token == bos && i == mark.bytes) out.pop_back();
    }
    if (run < text.size()) model->encode(text.substr(run), out);
}

void Tokenizer::Impl::append_bytes(std::string& out, std::string_view spelled) const {
    for (size_t i = 0; i < spelled.size();) {
        const Utf8Char c = utf8_at(spelled, i);
        const int byte = c.valid && c.code < ByteAlphabet::kCodes ? kByteAlphabet.byte[c.code] : -1;
        if (byte >= 0) {
            out += static_cast<char>(byte);
        } else {
            out +=
                spelled.substr(i, c.bytes);  // no character of the alphabet: it stands for itself
        }
        i += c.bytes;
    }
}

void Tokenizer::Impl::append_piece(std::string& out, Token token, bool special) const {
    if (!v.has(token)) return;
    const std::string_view text = v.text(token);
    const TokenKind kind = v.kind(token);
    if (kind == TokenKind::Control || kind == TokenKind::Unknown) {
        if (special) out += text;
        return;
    }
    if (v.model == TokenizerModel::Bpe) {
        if (kind == TokenKind::UserDefined) {
            out += text;
        } else {
            append_bytes(out, text);
        }
        return;
    }
    if (kind == TokenKind::Byte && v.model == TokenizerModel::Spm) {
        out += static_cast<char>(named_byte(text));
        return;
    }
    if (v.model == TokenizerModel::Wpm && !phantom_space) {
        const bool inner = text.substr(0, 2) == "##";
        if (!inner) out += ' ';
        out += text.substr(inner ? 2 : 0);
        return;
    }
    for (size_t i = 0; i < text.size();) {
        if (text.substr(i, kSpaceMark.size()) == kSpaceMark) {
            out += ' ';
            i += kSpaceMark.size();
        } else {
            out += text[i++];
        }
    }
}

Tokenizer::Tokenizer() = default;
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::create(const GgufFile& file,
                                                           uint64_t n_rows,
                                                           TokenizerOptions options) {
    NIB_ASSIGN(auto vocabulary, read_vocabulary(file, n_rows));
    const std::shared_ptr<Tokenizer> tokenizer(new Tokenizer());
    tokenizer->impl_ = std::make_unique<Impl>(std::move(vocabulary));
    NIB_TRY(tokenizer->impl_->make_model(file, options));
    tokenizer->impl_->find_ends();
    return std::shared_ptr<const Tokenizer>(tokenizer);
}

std::vector<Token> Tokenizer::encode(std::string_view text,
                                     bool add_special,
                                     bool parse_special) const {
    const TextSegment segment{text, parse_special};
    return encode_segments({&segment, 1}, add_special);
}

std::vector<Token> Tokenizer::encode_segments(std::span<const TextSegment> segments,
                                              bool add_special) const {
    std::string joined;
    std::vector<Part> parts;
    size_t end = 0;
    for (const TextSegment& segment : segments) {
        end += segment.text.size();
        parts.push_back({end, segment.trusted});
        if (segments.size() > 1) joined += segment.text;
    }
    const std::string_view text = segments.size() == 1 ? segments[0].text : joined;
    std::vector<Token> out;
    if (add_special && impl_->adds_bos) out.push_back(impl_->bos);
    impl_->encode(text, parts, add_special, out);
    if (add_special && impl_->adds_eos) out.push_back(impl_->eos);
    return out;
}

std::string Tokenizer::piece(Token token, bool special) const {
    std::string out;
    impl_->append_piece(out, token, special);
    return out;
}

std::string Tokenizer::decode(std::span<const Token> tokens, bool special) const {
    std::string out;
    bool at_start = impl_->strips_space;
    for (const Token token : tokens) {
        impl_->append_piece(out, token, special);
        if (!at_start || out.empty()) continue;
        at_start = false;
        if (out[0] == ' ') out.erase(0, 1);
    }
    return out;
}

int32_t Tokenizer::n_vocab() const {
    return impl_->v.size();
}

TokenKind Tokenizer::kind(Token token) const {
    return impl_->v.has(token) ? impl_->v.kind(token) : TokenKind::Unused;
}

std::string_view Tokenizer::raw_text(Token token) const {
    return impl_->v.has(token) ? impl_->v.text(token) : std::string_view();
}

Token Tokenizer::find(std::string_view raw_text) const {
    const Token a = impl_->v.ordinary.find(raw_text);
    const Token b = impl_->v.reserved.find(raw_text);
    return a == kNoToken ? b : b == kNoToken ? a : std::min(a, b);
}

Token Tokenizer::bos() const {
    return impl_->bos;
}
Token Tokenizer::eos() const {
    return impl_->eos;
}
Token Tokenizer::eot() const {
    return impl_->eot;
}
Token Tokenizer::unknown() const {
    return impl_->v.ids.unknown;
}
Token Tokenizer::padding() const {
    return impl_->v.ids.padding;
}
bool Tokenizer::adds_bos() const {
    return impl_->adds_bos;
}
bool Tokenizer::adds_eos() const {
    return impl_->adds_eos;
}

bool Tokenizer::is_end(Token token) const {
    const auto& ends = impl_->end_tokens;
    return std::find(ends.begin(), ends.end(), token) != ends.end();
}

const char* Tokenizer::model_name() const {
    switch (impl_->v.model) {
    case TokenizerModel::Bpe:
        return "bpe";
    case TokenizerModel::Spm:
        return "spm";
    case TokenizerModel::Wpm:
        break;
    }
    return "wpm";
}

}  // namespace nib
