// SPDX-License-Identifier: MIT
#include "src/bench/model.h"

#include "src/tokenizer/tokenizer.h"

#include <algorithm>

#include <sys/resource.h>
#include <unistd.h>

namespace nib::bench {

Spread spread_of(std::vector<double> values) {
    if (values.empty()) return {};
    std::sort(values.begin(), values.end());
    return {values[values.size() / 2], values.front(), values.back()};
}

uint64_t peak_memory() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

Result<LoadedModel> load_model(const ModelRequest& request) {
    LoadedModel loaded;
    auto start = Clock::now();
    const auto phase = [&](double& seconds) {
        seconds = seconds_since(start);
        start = Clock::now();
    };
    auto opened = GgufFile::open(request.path);
    if (request.remove_file) unlink(request.path.c_str());
    NIB_ASSIGN(const auto file, std::move(opened));
    phase(loaded.times.open);
    NIB_ASSIGN(auto model, read_model(*file, {.context = request.context,
                                              .check_tensors = request.check_tensors}));
    phase(loaded.times.model);
    if (request.tokenizer) {
        NIB_ASSIGN(const auto tokenizer,
                   Tokenizer::create(*file, static_cast<uint64_t>(model->config.n_vocab),
                                     {.allow_unknown_pre = request.allow_unknown_pre}));
        phase(loaded.times.tokenizer);
    }
    NIB_ASSIGN(loaded.runner, Runner::create(*file, std::move(model),
                                             {.backend = request.backend,
                                              .backend_options = {.threads = request.threads,
                                                                  .cpu_level = request.cpu_level},
                                              .context = request.context,
                                              .max_rows = request.max_rows,
                                              .least_rows = request.least_rows,
                                              .max_sequences = request.max_sequences,
                                              .cache_type_k = request.cache_type_k,
                                              .cache_type_v = request.cache_type_v}));
    phase(loaded.times.weights);
    return loaded;
}

Result<void> feed(Runner& runner, int32_t sequence, int32_t n) {
    const int32_t n_vocab = runner.model().config.n_vocab;
    std::vector<int32_t> tokens;
    for (int32_t at = 0; at < n;) {
        const int32_t rows = std::min(runner.max_rows(), n - at);
        tokens.clear();
        for (int32_t i = at; i < at + rows; i++)
            tokens.push_back(static_cast<int32_t>((int64_t{i} * 7919 + 13) % n_vocab));
        at += rows;
        const StepPart part{.sequence = sequence, .tokens = tokens, .want_logits = at == n};
        NIB_TRY(runner.step({&part, 1}, [](size_t, int32_t, std::span<const float>) {}));
    }
    return {};
}

Result<void> set_length(Runner& runner, int32_t sequence, int32_t n) {
    const int64_t kept = runner.kv().keep_prefix(sequence, n);
    return feed(runner, sequence, n - static_cast<int32_t>(kept));
}

}  // namespace nib::bench
