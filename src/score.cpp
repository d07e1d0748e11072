// SPDX-License-Identifier: MIT
// The greedy continuation is generated first; then prompt and continuation are scored together in
// chunks. Both must choose the same tokens, since the logits of a token do not depend on how it was
// computed.
#include "src/score.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace nib {
namespace {

// log(sum(exp(logits))).
double log_sum(std::span<const float> logits) {
    const double most = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (float l : logits)
        sum += std::exp(l - most);
    return most + std::log(sum);
}

std::vector<std::pair<Token, double>> best(std::span<const float> logits, double norm, int32_t n) {
    std::vector<Token> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    const size_t keep = std::min(static_cast<size_t>(n), ids.size());
    const auto before = [&](Token a, Token b) {
        const float la = logits[static_cast<size_t>(a)], lb = logits[static_cast<size_t>(b)];
        return la != lb ? la > lb : a < b;
    };
    std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(keep), ids.end(), before);
    std::vector<std::pair<Token, double>> top;
    for (size_t i = 0; i < keep; i++)
        top.emplace_back(ids[i], logits[static_cast<size_t>(ids[i])] - norm);
    return top;
}

bool reported(int32_t pos, int32_t n) {
    const int32_t stride = n <= 24 ? 1 : (n + 15) / 16;
    return pos % stride == 0 || pos == n - 1;
}

class Scorer {
  public:
    Scorer(const ScoreOptions& options, Score& out) : options_(options), out_(out) {
        all_ = out.tokens;
        all_.insert(all_.end(), out.greedy.begin(), out.greedy.end());
        out.greedy_min_margin = std::numeric_limits<double>::infinity();
    }

    const std::vector<Token>& all() const { return all_; }

    // False if the greedy token is not the best one.
    bool at(int32_t pos, std::span<const float> logits) {
        const auto n = static_cast<int32_t>(out_.tokens.size());
        const double norm = log_sum(logits);
        if (pos + 1 < n) {
            out_.nll_sum -= logits[static_cast<size_t>(all_[static_cast<size_t>(pos) + 1])] - norm;
            out_.scored++;
        }
        if (pos < n && reported(pos, n))
            out_.positions.push_back({pos, best(logits, norm, options_.top)});
        if (pos + 1 < n || static_cast<size_t>(pos) + 1 >= all_.size()) return true;
        const auto two = best(logits, norm, 2);
        out_.greedy_min_margin = std::min(out_.greedy_min_margin, two[0].second - two[1].second);
        return two[0].first == all_[static_cast<size_t>(pos) + 1];
    }

  private:
    const ScoreOptions& options_;
    Score& out_;
    std::vector<Token> all_;
};

}  // namespace

Result<Score> score_text(Engine& engine, std::string_view text, const ScoreOptions& options) {
    Score out;
    out.tokens = engine.tokenizer()->encode(text, options.special, options.special);
    if (out.tokens.empty()) return Error{Status::BadRequest, "the text has no tokens"};
    if (options.greedy > 0) {
        Request request{.prompt = out.tokens, .max_tokens = options.greedy};
        request.sampling.temperature = 0;
        request.sampling.samplers = {"temperature"};
        NIB_ASSIGN(const Completion completion, engine.generate(request));
        out.greedy = completion.tokens;
        // Marks that the model writes are part of what it said.
        out.greedy_text = engine.tokenizer()->decode(out.greedy, true);
    }
    Scorer scorer(options, out);
    bool same = true;
    NIB_TRY(engine.score(scorer.all(), [&](int32_t pos, std::span<const float> logits) {
        same = scorer.at(pos, logits) && same;
    }));
    if (!same)
        return Error{Status::Internal, "one token at a time and all at once chose other tokens"};
    if (!std::isfinite(out.greedy_min_margin)) out.greedy_min_margin = 0;
    return out;
}

}  // namespace nib
