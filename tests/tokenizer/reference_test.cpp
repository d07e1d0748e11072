// SPDX-License-Identifier: MIT
// Published vocabularies against tables of texts and ids made by the models' own tokenizers. The
// tables are large and live beside the checkout; without them these tests say that they are
// skipped.
#include "tests/tokenizer/fixtures.h"

#include <atomic>
#include <thread>

namespace nib::test {
namespace {

std::vector<std::string> split(const std::string& text, const std::string& separator) {
    std::vector<std::string> parts;
    size_t begin = 0;
    for (size_t at; (at = text.find(separator, begin)) != std::string::npos;) {
        parts.push_back(text.substr(begin, at - begin));
        begin = at + separator.size();
    }
    return parts;  // what follows the last separator is no part
}

Tokens numbers(const std::string& line) {
    Tokens out;
    const char* p = line.c_str();
    for (char* end = nullptr;; p = end) {
        const long value = std::strtol(p, &end, 10);
        if (end == p) return out;
        out.push_back(static_cast<Token>(value));
    }
}

class Tables : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        const std::string path =
            shared_data("vocabs/ggml-vocab-" + std::string(GetParam()) + ".gguf");
        if (path.empty()) GTEST_SKIP() << "skipped: no reference data";
        tokenizer_ = load(path);
        ASSERT_TRUE(tokenizer_);
        texts_ = split(read_file(path + ".inp"), "\n__ggml_vocab_test__\n");
        const auto lines = split(read_file(path + ".out"), "\n");
        ASSERT_EQ(texts_.size(), 46u);
        ASSERT_EQ(lines.size(), texts_.size());
        for (const std::string& line : lines)
            ids_.push_back(numbers(line));
    }
    bool byte_level() const { return std::string_view(tokenizer_->model_name()) == "bpe"; }

    TokenizerPtr tokenizer_;
    std::vector<std::string> texts_;
    std::vector<Tokens> ids_;
};

TEST_P(Tables, AllTextsGiveTheirIds) {
    for (size_t i = 0; i < texts_.size(); ++i) {
        EXPECT_EQ(tokenizer_->encode(texts_[i], false, false), ids_[i])
            << testing::PrintToString(texts_[i]);
    }
}

TEST_P(Tables, EveryPrefixComesBackAndIsTheSameAsOneUntrustedSegment) {
    for (const std::string& text : texts_) {
        for (size_t n = 0; n <= text.size(); ++n) {
            const std::string prefix = text.substr(0, n);
            const Tokens ids = tokenizer_->encode(prefix, false, false);
            const TextSegment segment{prefix, false};
            ASSERT_EQ(tokenizer_->encode_segments({&segment, 1}, false), ids);
            if (byte_level() && n == text.size()) {
                ASSERT_EQ(tokenizer_->decode(ids), prefix);
            }
            for (const Token id : ids)
                ASSERT_FALSE(tokenizer_->raw_text(id).empty());
        }
    }
}

TEST_P(Tables, EveryTokenHasItsPieceAndIsFoundByItsText) {
    for (Token id = 0; id < tokenizer_->n_vocab(); ++id) {
        ASSERT_FALSE(tokenizer_->piece(id, true).empty()) << id;
        ASSERT_EQ(tokenizer_->find(tokenizer_->raw_text(id)), id);
    }
    EXPECT_EQ(tokenizer_->piece(tokenizer_->n_vocab(), true), "");
    EXPECT_EQ(tokenizer_->piece(-1, true), "");
}

TEST_P(Tables, SixteenThreadsAgree) {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 16; ++t) {
        threads.emplace_back([&] {
            for (size_t i = 0; i < texts_.size(); ++i) {
                wrong += tokenizer_->encode(texts_[i], false, false) != ids_[i];
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies,
                         Tables,
                         testing::Values("llama-spm",
                                         "phi-3",
                                         "llama-bpe",
                                         "qwen2",
                                         "gpt-2",
                                         "deepseek-coder",
                                         "starcoder",
                                         "bert-bge"),
                         [](const auto& param) {
                             std::string name = param.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

}  // namespace
}  // namespace nib::test
