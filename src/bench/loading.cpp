// SPDX-License-Identifier: MIT
#include "src/bench/loading.h"

namespace nib::bench {

Result<LoadReport> measure_loading(const ModelRequest& request,
                                   int32_t prompt,
                                   int32_t repetitions,
                                   double startup_ms) {
    LoadReport report;
    std::vector<double> open, model, tokenizer, weights, first_token;
    for (int32_t r = 0; r < repetitions; r++) {
        NIB_ASSIGN(const LoadedModel loaded, load_model(request));
        const LoadTimes& t = loaded.times;
        const auto start = Clock::now();
        const int32_t sequence = loaded.runner->kv().open_sequence();
        NIB_TRY(feed(*loaded.runner, sequence, prompt));
        const double first = seconds_since(start);
        report.backend = loaded.runner->backend().description();
        open.push_back(t.open * 1e3);
        model.push_back(t.model * 1e3);
        tokenizer.push_back(t.tokenizer * 1e3);
        weights.push_back(t.weights * 1e3);
        first_token.push_back(first * 1e3);
        report.total_ms.push_back(startup_ms + (t.total() + first) * 1e3);
    }
    report.phases_ms = {
        {"startup", spread_of({startup_ms})}, {"open", spread_of(open)},
        {"model", spread_of(model)},          {"tokenizer", spread_of(tokenizer)},
        {"weights", spread_of(weights)},      {"first_token", spread_of(first_token)},
        {"total", spread_of(report.total_ms)}};
    return report;
}

}  // namespace nib::bench
