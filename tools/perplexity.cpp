// SPDX-License-Identifier: MIT
// nib perplexity: how well a model predicts a text, and, with --kl-base, how far its predictions
// are from those of another model with the same vocabulary (usually the one that it was quantized
// from): the mean Kullback-Leibler divergence and how often both prefer the same token.
//
// The text is cut into chunks of the context's length, each computed afresh. Only the second half
// of a chunk counts, where every token has at least half a context before it. Of the base model one
// chunk's log-probabilities are held at a time.
#include "src/cli/model.h"
#include "src/cli/output.h"
#include "src/command.h"
#include "src/json/json.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace nib {
namespace {

constexpr int32_t kDefaultContext = 512;

using Chunk = std::vector<Token>;

std::vector<Chunk> cut(const std::vector<Token>& tokens,
                       size_t length,
                       const Tokenizer& tokenizer) {
    std::vector<Chunk> chunks;
    if (tokens.size() < length) return {tokens};
    for (size_t at = 0; at + length <= tokens.size(); at += length) {
        chunks.emplace_back(tokens.begin() + static_cast<ptrdiff_t>(at),
                            tokens.begin() + static_cast<ptrdiff_t>(at + length));
        if (tokenizer.adds_bos()) chunks.back()[0] = tokenizer.bos();
    }
    return chunks;
}

// Logits become log-probabilities.
void normalize(std::span<const float> logits, std::vector<float>& out) {
    const float most = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float l : logits)
        sum += std::exp(static_cast<double>(l - most));
    const double norm = most + std::log(sum);
    out.resize(logits.size());
    for (size_t i = 0; i < logits.size(); i++)
        out[i] = static_cast<float>(logits[i] - norm);
}

size_t best(std::span<const float> values) {
    return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

struct Mean {
    double sum = 0, squares = 0;
    int64_t n = 0;

    void add(double value) {
        sum += value;
        squares += value * value;
        n++;
    }
    double value() const { return n ? sum / static_cast<double>(n) : 0; }
    double standard_error() const {
        if (n < 2) return 0;
        const double count = static_cast<double>(n), mean = value();
        return std::sqrt(std::max(squares / count - mean * mean, 0.0) / (count - 1));
    }
};

struct Totals {
    Mean nll, base_nll, divergence, same_best;
};

class Comparison {
  public:
    Comparison(Engine& model, Engine* base) : model_(model), base_(base) {}

    Result<void> add(const Chunk& chunk) {
        const auto n = static_cast<int32_t>(chunk.size());
        // The first position whose prediction counts.
        const int32_t first = n < kDefaultContext / 2 ? 0 : n / 2;
        base_rows_.clear();
        if (base_) {
            NIB_TRY(base_->score(chunk, [&](int32_t at, std::span<const float> logits) {
                if (at < first || at + 1 >= n) return;
                normalize(logits, base_rows_.emplace_back());
                totals.base_nll.add(-base_rows_.back()[next(chunk, at)]);
            }));
        }
        return model_.score(chunk, [&](int32_t at, std::span<const float> logits) {
            if (at < first || at + 1 >= n) return;
            normalize(logits, row_);
            totals.nll.add(-row_[next(chunk, at)]);
            if (base_) compare(base_rows_[static_cast<size_t>(at - first)]);
        });
    }

    Totals totals;

  private:
    static size_t next(const Chunk& chunk, int32_t at) {
        return static_cast<size_t>(chunk[static_cast<size_t>(at) + 1]);
    }

    void compare(const std::vector<float>& wanted) {
        double divergence = 0;
        for (size_t i = 0; i < wanted.size(); i++) {
            const double p = wanted[i];
            divergence += std::exp(p) * (p - static_cast<double>(row_[i]));
        }
        totals.divergence.add(divergence);
        totals.same_best.add(best(wanted) == best(row_) ? 1 : 0);
    }

    Engine& model_;
    Engine* base_;
    std::vector<std::vector<float>> base_rows_;
    std::vector<float> row_;
};

std::string decimal(double value, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

std::string text_report(const Totals& t, size_t chunks, bool compared) {
    std::string out = "perplexity: " + decimal(std::exp(t.nll.value()), 4) + " (" +
                      std::to_string(t.nll.n) + " tokens of " + std::to_string(chunks) +
                      " chunks)\n";
    if (!compared) return out;
    return out + "base:       " + decimal(std::exp(t.base_nll.value()), 4) +
           "\ndivergence: " + decimal(t.divergence.value(), 6) + " +- " +
           decimal(t.divergence.standard_error(), 6) +
           "\nsame best:  " + decimal(100 * t.same_best.value(), 2) + " %\n";
}

Json json_report(const Totals& t, size_t chunks, bool compared) {
    Json json = {{"perplexity", std::exp(t.nll.value())},
                 {"nll_mean", t.nll.value()},
                 {"tokens", t.nll.n},
                 {"chunks", chunks}};
    if (!compared) return json;
    json["base_perplexity"] = std::exp(t.base_nll.value());
    json["kl_divergence"] = t.divergence.value();
    json["kl_standard_error"] = t.divergence.standard_error();
    json["same_best"] = t.same_best.value();
    return json;
}

Result<std::unique_ptr<Engine>> open_base(const Options& options, const Engine& model) {
    Options other = options;
    other.model = options.kl_base;
    other.default_model = false;
    other.cache_type_k = other.cache_type_v = Options().cache_type_k;
    NIB_ASSIGN(auto base, open_engine(other));
    if (base->model().n_vocab != model.model().n_vocab) {
        return Error{Status::BadRequest, "--kl-base: expected a vocabulary of " +
                                             std::to_string(model.model().n_vocab) +
                                             " tokens, got " +
                                             std::to_string(base->model().n_vocab)};
    }
    return base;
}

Result<void> perplexity(Options options) {
    NIB_ASSIGN(const std::string text, prompt_text(options));
    if (options.ctx_size == 0) options.ctx_size = kDefaultContext;
    if (options.ctx_size < 2)
        return Error{Status::BadRequest, "--ctx-size: expected 2 or more, got 1"};
    NIB_ASSIGN(const auto model, open_engine(options));
    std::unique_ptr<Engine> base;
    if (!options.kl_base.empty()) {
        NIB_ASSIGN(base, open_base(options, *model));
    }
    const Tokenizer& tokenizer = *model->tokenizer();
    const std::vector<Token> tokens = tokenizer.encode(text, true, false);
    if (tokens.size() < 2) {
        return Error{Status::BadRequest,
                     "the text: expected two tokens or more, got " + std::to_string(tokens.size())};
    }
    std::vector<Chunk> chunks = cut(tokens, static_cast<size_t>(options.ctx_size), tokenizer);
    if (options.chunks > 0)
        chunks.resize(std::min(chunks.size(), static_cast<size_t>(options.chunks)));
    Comparison comparison(*model, base.get());
    for (const Chunk& chunk : chunks)
        NIB_TRY(comparison.add(chunk));
    const Totals& totals = comparison.totals;
    if (options.json)
        return write_stdout(dump_json(json_report(totals, chunks.size(), base != nullptr)) + "\n");
    return write_stdout(text_report(totals, chunks.size(), base != nullptr));
}

int run(const Options& options) {
    return finish(perplexity(options));
}

}  // namespace

extern const CommandDef command_perplexity = {
    .name = "perplexity",
    .aliases = "",
    .summary = "how well a model predicts a text; how far it is from another model",
    .usage = "",
    .args_max = 0,
    .flags = kModelFlags | kEngineFlags | kPromptFlags | kJsonFlags | kPerplexityFlags,
    .run = run,
};

}  // namespace nib
