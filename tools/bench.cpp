// SPDX-License-Identifier: MIT
// nib bench: how fast a model reads a prompt (pp), writes (tg) and writes for several sequences at
// once (tg@b), what loading takes and how much memory. Medians with the smallest and largest of all
// repetitions.
#include "src/bench/report.h"
#include "src/cli/model.h"
#include "src/cli/output.h"
#include "src/command.h"
#include "src/json/json.h"
#include "src/option_values.h"
#include "src/runner.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <sys/resource.h>

namespace nib {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Spread {
    double median, min, max;
};

Spread spread_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return {values[values.size() / 2], values.front(), values.back()};
}

struct Measurement {
    std::string test;
    Spread tokens_per_s;
};

Result<std::vector<int32_t>> read_list(const char* flag, const std::string& text, int32_t high) {
    std::vector<int32_t> list;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(',', at), text.size());
        const auto n = read_integer(std::string_view(text).substr(at, end - at), 0, high);
        if (!n) return Error{Status::BadRequest, std::string(flag) + ": " + n.error().message};
        if (*n > 0) list.push_back(static_cast<int32_t>(*n));
        at = end + 1;
    }
    return list;
}

class Bench {
  public:
    static constexpr int32_t kBatchTokens = 64;  // of each sequence in a batch test

    Bench(Runner& runner, int32_t repetitions) : runner_(runner), repetitions_(repetitions) {}

    Result<Measurement> prompt(int32_t n) {
        std::vector<double> speeds;
        for (int32_t r = 0; r <= repetitions_; r++) {
            const int32_t sequence = runner_.kv().open_sequence();
            const auto start = Clock::now();
            NIB_TRY(feed(sequence, n));
            if (r > 0) speeds.push_back(n / seconds_since(start));  // the first one warms up
            runner_.kv().close_sequence(sequence);
        }
        return Measurement{"pp" + std::to_string(n), spread_of(speeds)};
    }

    Result<Measurement> generate(int32_t n, int32_t batch, const std::string& name) {
        std::vector<double> speeds;
        for (int32_t r = 0; r <= repetitions_; r++) {
            std::vector<StepPart> parts(static_cast<size_t>(batch));
            for (StepPart& p : parts) {
                p = {.sequence = runner_.kv().open_sequence(), .tokens = {&token_, 1}};
            }
            const auto start = Clock::now();
            for (int32_t i = 0; i < n; i++)
                NIB_TRY(runner_.step(parts, ignore_));
            if (r > 0) speeds.push_back(double(n) * batch / seconds_since(start));
            for (const StepPart& p : parts)
                runner_.kv().close_sequence(p.sequence);
        }
        return Measurement{name, spread_of(speeds)};
    }

  private:
    Result<void> feed(int32_t sequence, int32_t n) {
        tokens_.clear();
        for (int32_t i = 0; i < n; i++) {
            tokens_.push_back((i * 7919 + 13) % runner_.model().config.n_vocab);
        }
        for (int32_t at = 0; at < n; at += runner_.max_rows()) {
            const int32_t rows = std::min(runner_.max_rows(), n - at);
            const StepPart part{.sequence = sequence,
                                .tokens = std::span(tokens_).subspan(static_cast<size_t>(at),
                                                                     static_cast<size_t>(rows)),
                                .want_logits = at + rows == n};
            NIB_TRY(runner_.step({&part, 1}, ignore_));
        }
        return {};
    }

    Runner& runner_;
    int32_t repetitions_;
    std::vector<int32_t> tokens_;
    const int32_t token_ = 1;
    const Runner::OnLogits ignore_ = [](size_t, int32_t, std::span<const float>) {};
};

// Weights that a decoded token reads: all of them, a tied table once.
uint64_t bytes_per_token(const Runner& runner) {
    uint64_t bytes = 0;
    const Model& m = runner.model();
    for (const Weight& w : m.weights) {
        if (&w != m.fields.token_embd || m.fields.head() == m.fields.token_embd) bytes += w.bytes();
    }
    return bytes;
}

uint64_t peak_memory() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

struct Report {
    std::string model, backend;
    double load_ms = 0;
    uint64_t bytes = 0;
    std::vector<Measurement> rows;
};

Json to_json(const Report& report) {
    Json list = Json::array();
    for (const Measurement& m : report.rows) {
        list.push_back({{"test", m.test},
                        {"tokens_per_s",
                         {{"median", m.tokens_per_s.median},
                          {"min", m.tokens_per_s.min},
                          {"max", m.tokens_per_s.max}}},
                        {"bytes_per_token", report.bytes},
                        {"backend", report.backend},
                        {"load_ms", report.load_ms},
                        {"peak_memory_bytes", peak_memory()}});
    }
    return list;
}

std::string to_table(const Report& report) {
    char line[256];
    std::snprintf(line, sizeof line, "%s on %s: loaded in %.0f ms, peak memory %.0f MiB\n",
                  report.model.c_str(), report.backend.c_str(), report.load_ms,
                  double(peak_memory()) / (1 << 20));
    std::string text = line;
    std::snprintf(line, sizeof line, "%-12s %12s %12s %12s\n", "test", "tokens/s", "min", "max");
    text += line;
    for (const Measurement& m : report.rows) {
        std::snprintf(line, sizeof line, "%-12s %12.1f %12.1f %12.1f\n", m.test.c_str(),
                      m.tokens_per_s.median, m.tokens_per_s.min, m.tokens_per_s.max);
        text += line;
    }
    return text;
}

Result<std::unique_ptr<Runner>> load(const Options& options, int32_t context, int32_t sequences) {
    NIB_TRY(check_model_exists(options));
    NIB_ASSIGN(const auto file, GgufFile::open(options.model));
    NIB_ASSIGN(auto model, read_model(*file, {.context = context}));
    return Runner::create(
        *file, std::move(model),
        {.backend_options = {.threads = options.threads, .cpu_level = options.cpu_level},
         .context = context,
         .max_rows = options.ubatch_size,
         .max_sequences = sequences});
}

Result<void> bench(const Options& options) {
    constexpr int32_t kTokensMax = 1 << 20;
    NIB_ASSIGN(const auto prompts, read_list("--n-prompt", options.bench_prompt, kTokensMax));
    NIB_ASSIGN(const auto generated, read_list("--n-gen", options.bench_generate, kTokensMax));
    NIB_ASSIGN(const auto batches, read_list("--batch", options.bench_batch, 256));
    int32_t context = Bench::kBatchTokens, sequences = 1;
    for (int32_t n : prompts)
        context = std::max(context, n);
    for (int32_t n : generated)
        context = std::max(context, n);
    for (int32_t n : batches)
        sequences = std::max(sequences, n);

    Report report{.model = options.model};
    const auto start = Clock::now();
    NIB_ASSIGN(const auto runner, load(options, std::max(context, options.ctx_size), sequences));
    report.load_ms = seconds_since(start) * 1e3;
    report.backend = runner->backend().description();
    report.bytes = bytes_per_token(*runner);
    Bench run(*runner, options.repetitions);
    for (int32_t n : prompts) {
        NIB_ASSIGN(auto m, run.prompt(n));
        report.rows.push_back(std::move(m));
    }
    for (int32_t n : generated) {
        NIB_ASSIGN(auto m, run.generate(n, 1, "tg" + std::to_string(n)));
        report.rows.push_back(std::move(m));
    }
    for (int32_t b : batches) {
        const std::string name =
            "tg" + std::to_string(Bench::kBatchTokens) + "@b" + std::to_string(b);
        NIB_ASSIGN(auto m, run.generate(Bench::kBatchTokens, b, name));
        report.rows.push_back(std::move(m));
    }
    return write_stdout(options.json ? dump_json(to_json(report), 2) + "\n" : to_table(report));
}

Result<Roofline> limits_of(const Options& options, std::string& backend) {
    NIB_ASSIGN(const auto device, find_backend("cpu")->create({.threads = options.threads,
                                                               .cpu_level = options.cpu_level}));
    backend = device->description();
    return device->measure_limits();
}

Result<void> roofline(const Options& options) {
    std::string backend;
    NIB_ASSIGN(const Roofline limits, limits_of(options, backend));
    return write_stdout(options.json ? dump_json(bench::to_json(limits, backend), 2) + "\n"
                                     : bench::to_table(limits, backend));
}

Result<void> ops(const Options& options) {
    NIB_ASSIGN(const auto prompts, read_list("--n-prompt", options.bench_prompt, 1 << 20));
    NIB_ASSIGN(
        const auto batches,
        read_list("--batch", options.bench_batch.empty() ? "1,8,32" : options.bench_batch, 256));
    constexpr int32_t kDepth = 128, kSteps = 16;
    std::vector<bench::PhaseRequest> phases;
    int32_t sequences = 1, context = kDepth + 1;
    for (int32_t b : batches) {
        phases.push_back({.name = "decode, " + std::to_string(b) + " sequences",
                          .sequences = b,
                          .depth = kDepth,
                          .steps = kSteps});
        sequences = std::max(sequences, b);
    }
    for (int32_t n : prompts) {
        n = std::min(n, options.ubatch_size);
        phases.push_back({.name = "prompt, " + std::to_string(n) + " rows", .rows = n, .steps = 5});
        context = std::max(context, n);
    }
    NIB_TRY(check_model_exists(options));
    NIB_ASSIGN(
        const auto loaded,
        bench::load_model({.path = options.model,
                           .backend = {.threads = options.threads, .cpu_level = options.cpu_level},
                           .context = context,
                           .max_rows = std::max(options.ubatch_size, sequences),
                           .max_sequences = sequences}));
    NIB_ASSIGN(const Roofline limits, loaded.runner->backend().measure_limits());
    std::vector<bench::Profile> profiles;
    for (const bench::PhaseRequest& phase : phases) {
        NIB_ASSIGN(auto profile, bench::profile_phase(*loaded.runner, phase, limits));
        profiles.push_back(std::move(profile));
    }
    return write_stdout(options.json ? dump_json(bench::to_json(profiles, limits), 2) + "\n"
                                     : bench::to_table(profiles, limits));
}

int run(const Options& options) {
    if (options.args.empty()) return finish(bench(options));
    if (options.args[0] == "roofline") return finish(roofline(options));
    if (options.args[0] == "ops") return finish(ops(options));
    return fail({Status::BadRequest, "expected roofline or ops, got " + shown(options.args[0])});
}

}  // namespace

extern const CommandDef command_bench = {
    .name = "bench",
    .aliases = "",
    .summary = "measure how fast a model reads and writes",
    .usage = "[roofline|ops]",
    .args_max = 1,
    .flags = kModelFlags | kEngineFlags | kBenchFlags | kJsonFlags,
    .run = run,
};

}  // namespace nib
