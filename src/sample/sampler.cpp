// SPDX-License-Identifier: MIT
// The sampler of one sequence: copies and checks the logits, applies the bias and the chain, draws.
// At temperature 0 only the samplers that shape logits run, and the best candidate is taken in one
// pass.
#include "src/sample/sampler.h"

#include "src/sample/candidates.h"
#include "src/sample/chain.h"
#include "src/sample/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace nib {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();
const SamplerDef* find_sampler(std::string_view name) {
    for (const SamplerDef* def : all_samplers()) {
        if (name == def->name) return def;
    }
    return nullptr;
}

}  // namespace

struct Sampler::Impl {
    SamplingParams params;
    int32_t n_vocab = 0;
    uint64_t sequence = 0;
    std::vector<const SamplerDef*> chain;
    std::vector<Token> history;
    std::optional<TokenCounts> counts;
    DryBreakers breakers;
    bool bans = false;  // a bias is -inf
    CandidateSet set;
    ChainScratch scratch;

    void build_chain();
    void apply_bias();
    Result<void> start(std::span<const float> logits, uint64_t position);
};

void Sampler::Impl::build_chain() {
    // An empty list means temperature alone.
    static const std::vector<std::string> kOnlyTemperature = {"temperature"};
    const bool greedy = params.temperature <= 0;
    for (const std::string& name : params.samplers.empty() ? kOnlyTemperature : params.samplers) {
        const SamplerDef* def = find_sampler(name);
        if (!def->active(params) || (greedy && !def->shapes)) continue;
        chain.push_back(def);
        if (std::string_view(def->name) == "penalties" && !counts) {
            counts.emplace(n_vocab, params.repeat_last_n);
        }
    }
    for (const auto& [token, bias] : params.logit_bias)
        bans = bans || std::isinf(bias);
    for (const std::vector<Token>& breaker : params.dry_breakers) {
        if (breaker.size() == 1) breakers.single.push_back(breaker[0]);
        if (breaker.size() > 1) breakers.longer.push_back(breaker);
    }
    std::sort(breakers.single.begin(), breakers.single.end());
}

void Sampler::Impl::apply_bias() {
    for (const auto& [token, bias] : params.logit_bias) {
        set.update({&token, 1}, [added = bias](size_t, float logit) {
            const float sum = logit + added;
            if (std::isinf(added) || std::isinf(logit)) return sum;
            // Finite bias on a huge logit must not become a ban or an infinity.
            return std::clamp(sum, -kLargest, kLargest);
        });
    }
}

// Fills the set with the logits that can be used, bias added and bans removed.
Result<void> Sampler::Impl::start(std::span<const float> logits, uint64_t position) {
    const bool as_it_is = params.temperature <= 0 && chain.empty() && params.logit_bias.empty();
    const LogitScan found = as_it_is ? scan(logits) : set.assign(logits);
    if (found.bad || found.top < -kLargest) {
        return Error{Status::Internal,
                     std::string("model_output_invalid: ") +
                         (found.bad ? "a logit is NaN or infinite" : "no logit is finite") +
                         " at position " + std::to_string(position)};
    }
    if (as_it_is) {
        set.assign_one(static_cast<Token>(find_first_at_least(logits, found.top)), found.top);
        return {};
    }
    apply_bias();
    if (!found.banned && !bans) return {};
    if (!set.drop_banned()) {
        return Error{Status::BadRequest,
                     "no_token_allowed: logit_bias bans every token at position " +
                         std::to_string(position)};
    }
    return {};
}

Sampler::Sampler() : impl_(std::make_unique<Impl>()) {}
Sampler::~Sampler() = default;

Result<std::unique_ptr<Sampler>> Sampler::create(const SamplingParams& params,
                                                 int32_t n_vocab,
                                                 uint64_t sequence) {
    NIB_TRY(check_params(params, n_vocab));
    std::unique_ptr<Sampler> sampler(new Sampler());
    sampler->impl_->params = params;
    sampler->impl_->n_vocab = n_vocab;
    sampler->impl_->sequence = sequence;
    sampler->impl_->build_chain();
    return sampler;
}

void Sampler::accept(Token token) {
    if (token < 0 || token >= impl_->n_vocab) return;  // padding rows and the like have no penalty
    impl_->history.push_back(token);
    if (impl_->counts) impl_->counts->add(impl_->history);
}

void Sampler::accept(std::span<const Token> tokens) {
    for (const Token token : tokens)
        accept(token);
}

void Sampler::reset() {
    impl_->history.clear();
    if (impl_->counts) impl_->counts->clear();
}

Result<Token> Sampler::sample(std::span<const float> logits, uint64_t position) {
    Impl& s = *impl_;
    NIB_ASSERT(logits.size() == static_cast<size_t>(s.n_vocab));
    NIB_TRY(s.start(logits, position));
    const ChainContext context{.params = s.params,
                               .history = s.history,
                               .counts = s.counts ? &*s.counts : nullptr,
                               .breakers = s.breakers,
                               .scratch = s.scratch,
                               .sequence = s.sequence,
                               .position = position,
                               .min_keep = static_cast<size_t>(s.params.min_keep)};
    for (const SamplerDef* def : s.chain)
        def->apply(s.set, context);
    if (s.params.temperature > 0) {
        return s.set.draw(uniform_random(s.params.seed, s.sequence, position, kDrawStream));
    }
    s.set.keep_top(1);
    return s.set.best_first().front().id;
}

std::span<const Candidate> Sampler::candidates() const {
    return impl_->set.best_first();
}

const SamplingParams& Sampler::params() const {
    return impl_->params;
}

void log_softmax(std::span<const float> logits, std::span<float> out) {
    NIB_ASSERT(out.size() == logits.size());
    if (logits.empty()) return;
    const auto top = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
    double sum = 0;
    for (const float logit : logits)
        sum += std::exp(static_cast<double>(logit) - top);
    const double shift = top + std::log(sum);
    for (size_t i = 0; i < logits.size(); ++i) {
        out[i] = static_cast<float>(static_cast<double>(logits[i]) - shift);
    }
}

}  // namespace nib
