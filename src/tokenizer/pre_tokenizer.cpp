// SPDX-License-Identifier: MIT
// The table of pre-tokenizers. The patterns are those that the models' own tokenizer files publish;
// characters outside ASCII are written as numbers.
#include "src/tokenizer/pre_tokenizer.h"

#include <algorithm>

namespace nib {
namespace {

#define NIB_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define NIB_SPACE_TAIL   R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define NIB_UPPER        R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define NIB_LOWER        R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define NIB_CAMEL(end)                                                                         \
    R"([^\r\n\p{L}\p{N}]?)" NIB_UPPER "*" NIB_LOWER "+" end R"(|[^\r\n\p{L}\p{N}]?)" NIB_UPPER \
    "+" NIB_LOWER "*" end
#define NIB_GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
#define NIB_PUNCTUATED_WORDS                             \
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)" \
    R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)" NIB_SPACE_TAIL
#define NIB_CJK      R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)"
#define NIB_CJK_JA   R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"
#define NIB_NO_STOPS R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)"

using Patterns = std::string_view;

constexpr Patterns kGpt2[] = {NIB_GPT2};
constexpr Patterns kDigitsThenGpt2[] = {R"(\p{N})", NIB_GPT2};
constexpr Patterns kWords3[] = {
    NIB_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" NIB_SPACE_TAIL};
constexpr Patterns kWords1[] = {
    NIB_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" NIB_SPACE_TAIL};
constexpr Patterns kWords1Marks[] = {
    NIB_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" NIB_SPACE_TAIL};
constexpr Patterns kSeedCoder[] = {
    NIB_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+)" NIB_SPACE_TAIL};
constexpr Patterns kBailing[] = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr Patterns kTekken[] = {
    NIB_CAMEL("") R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" NIB_SPACE_TAIL};
constexpr Patterns kGpt4o[] = {
    NIB_CAMEL(NIB_CONTRACTIONS "?") R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" NIB_SPACE_TAIL};
constexpr Patterns kDeepSeekCoder[] = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", NIB_CJK,
                                       R"(\p{N})"};
constexpr Patterns kDeepSeek3[] = {R"(\p{N}{1,3})", NIB_CJK_JA, NIB_PUNCTUATED_WORDS};
// Letters of the scripts that have cases.
constexpr Patterns kCasedLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF})"
    R"(\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D})"
    R"(\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5})"
    R"(\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5})"
    R"(\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
    R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15})"
    R"(\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59})"
    R"(\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE})"
    R"(\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB})"
    R"(\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D})"
    R"(\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183})"
    R"(\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3})"
    R"(\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"
    R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3})"
    R"(\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
    R"(\x{1E900}-\x{1E943}]+)";
constexpr Patterns kDeepSeekLlm[] = {
    R"([\r\n])",
    kCasedLetters,
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
    R"(\s+$)",
    NIB_CJK,
    R"(\p{N}+)"};
constexpr Patterns kFalcon[] = {R"([\p{P}$+<=>^~|`]+)", NIB_GPT2, "[0-9][0-9][0-9]"};
constexpr Patterns kBloom[] = {NIB_NO_STOPS};
constexpr Patterns kViking[] = {NIB_NO_STOPS, R"(\p{N})"};
constexpr Patterns kSuperBpe[] = {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"};
constexpr Patterns kChameleon[] = {"<sentinel:[0-9]+>",       "IMGIMG[A-I]{1,4}Z",
                                   R"([\t\n]|    |  )",       R"(\p{N})",
                                   R"([\p{P}!-/:-@\[-`{-~])", NIB_GPT2};
constexpr Patterns kJais2[] = {
    NIB_CONTRACTIONS
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
    R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S))"
    R"(|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"};

constexpr PreTokenizerDef kPreTokenizers[] = {
    {.names =
         "default gpt-2 gpt2 phi-2 jais trillion granite-docling exaone4 gigachat a.x-4.0 mellum "
         "jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe",
     .patterns = kGpt2,
     .fast = FastSplit::Gpt2},
    {.names = "mpt olmo modern-bert", .patterns = kGpt2, .fast = FastSplit::Gpt2, .nfc = true},
    {.names = "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
     .patterns = kDigitsThenGpt2,
     .fast = FastSplit::DigitsThenGpt2},
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     .patterns = kWords3,
     .fast = FastSplit::Words3,
     .adds_bos = true,
     .whole_words = true},
    {.names = "dbrx smaug-bpe glm4 chatglm-bpe", .patterns = kWords3, .fast = FastSplit::Words3},
    {.names = "qwen2 deepseek-r1-qwen megrez kormo f2llmv2",
     .patterns = kWords1,
     .fast = FastSplit::Words1,
     .nfc = true},
    {.names = "stablelm2 hunyuan solar-open grok-2",
     .patterns = kWords1,
     .fast = FastSplit::Words1},
    {.names = "qwen35", .patterns = kWords1Marks, .nfc = true},
    {.names = "deepseek-coder", .patterns = kDeepSeekCoder},
    {.names = "deepseek-llm", .patterns = kDeepSeekLlm},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm", .patterns = kDeepSeek3},
    {.names = "falcon", .patterns = kFalcon},
    {.names = "tekken", .patterns = kTekken, .adds_bos = true, .whole_words = true},
    {.names = "gpt-4o llama4 kanana2 minimax-m2", .patterns = kGpt4o},
    {.names = "seed-coder", .patterns = kSeedCoder},
    {.names = "bailingmoe bailingmoe2 llada-moe", .patterns = kBailing},
    {.names = "bloom poro-chat gpt3-finnish", .patterns = kBloom},
    {.names = "viking", .patterns = kViking},
    {.names = "superbpe", .patterns = kSuperBpe},
    {.names = "chameleon", .patterns = kChameleon, .adds_bos = true},
    {.names = "jais-2", .patterns = kJais2},
};

// The first name of a list, which is then without it; empty at the end.
std::string_view take_name(std::string_view& names) {
    const size_t end = std::min(names.find(' '), names.size());
    const std::string_view name = names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
    return name;
}

}  // namespace

const PreTokenizerDef* find_pre_tokenizer(std::string_view name) {
    for (const PreTokenizerDef& def : kPreTokenizers) {
        std::string_view names = def.names;
        while (!names.empty()) {
            if (take_name(names) == name) return &def;
        }
    }
    return nullptr;
}

std::string known_pre_tokenizers() {
    std::vector<std::string_view> all;
    for (const PreTokenizerDef& def : kPreTokenizers) {
        std::string_view names = def.names;
        while (!names.empty())
            all.push_back(take_name(names));
    }
    std::sort(all.begin(), all.end());
    std::string out;
    for (const std::string_view name : all) {
        if (!out.empty()) out += ", ";
        out += name;
    }
    return out;
}

Result<PreTokenizer> PreTokenizer::create(const PreTokenizerDef& def) {
    PreTokenizer pre;
    pre.def_ = &def;
    for (const std::string_view pattern : def.patterns) {
        NIB_ASSIGN(Regex regex, Regex::compile(pattern));
        pre.patterns_.push_back(std::move(regex));
    }
    return pre;
}

void PreTokenizer::split(std::string_view text, std::vector<size_t>& ends) const {
    if (def_->fast == FastSplit::None) return split_by_patterns(text, ends);
    ends.clear();
    split_fast(def_->fast, text, ends);
}

void PreTokenizer::split_by_patterns(std::string_view text, std::vector<size_t>& ends) const {
    ends.clear();
    if (text.empty()) return;
    ends.push_back(text.size());
    for (const Regex& pattern : patterns_)
        pattern.split(text, ends);
}

}  // namespace nib
