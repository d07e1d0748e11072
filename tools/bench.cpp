// SPDX-License-Identifier: MIT
// nib bench: how fast a model reads a prompt (pp), writes (tg), writes for several sequences at
// once (tg@b), with much in the cache (@d), what several rows of a sequence cost (verify). Each
// beside what the machine allows, which is measured in the same run. Other forms: `roofline`
// measures the machine only, `ops` tells where a step spends its time, `load` what happens before
// the first token, `serve` what clients of a running server see.
#include "src/bench/report.h"
#include "src/bench/serve_load.h"
#include "src/bench/synthetic.h"
#include "src/cli/model.h"
#include "src/cli/output.h"
#include "src/command.h"
#include "src/option_values.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include <unistd.h>

namespace nib {
namespace {

constexpr int32_t kTokensMax = 1 << 20;
constexpr int32_t kSequencesMax = 256;
constexpr int32_t kOpsRows = 512;  // of the longest prompt that `ops` takes apart
constexpr size_t kListMax = 64;    // numbers of a list

// Numbers separated by commas; zeros are left out unless they mean something.
Result<std::vector<int32_t>> read_list(const char* flag,
                                       const std::string& text,
                                       int32_t high,
                                       bool keep_zero = false) {
    std::vector<int32_t> list;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(',', at), text.size());
        const auto n = read_integer(std::string_view(text).substr(at, end - at), 0, high);
        if (!n) return Error{Status::BadRequest, std::string(flag) + ": " + n.error().message};
        if (*n > 0 || keep_zero) list.push_back(static_cast<int32_t>(*n));
        at = end + 1;
    }
    if (list.size() > kListMax) {
        return Error{Status::BadRequest, std::string(flag) + ": expected at most " +
                                             std::to_string(kListMax) + " numbers, got " +
                                             std::to_string(list.size())};
    }
    return list;
}

const std::string& given_or(const std::string& text, const std::string& fallback) {
    return text.empty() ? fallback : text;
}

// The file of the model. A synthetic one is written to a temporary file that is gone once it is
// open.
Result<bench::ModelRequest> model_request(const Options& options) {
    bench::ModelRequest request{.path = options.model,
                                .threads = options.threads,
                                .cpu_level = options.cpu_level,
                                .context = options.ctx_size,
                                .max_rows = options.ubatch_size,
                                .cache_type_k = options.cache_type_k,
                                .cache_type_v = options.cache_type_v,
                                .check_tensors = options.check_tensors,
                                .allow_unknown_pre = options.allow_unknown_pre};
    if (options.synthetic.empty()) {
        NIB_TRY(check_model_exists(options));
        return request;
    }
    NIB_ASSIGN(const auto* model, bench::find_synthetic(options.synthetic));
    const char* folder = std::getenv("TMPDIR");
    request.path = std::string(folder && folder[0] ? folder : "/tmp") + "/nib-bench-" +
                   std::to_string(getpid()) + ".gguf";
    request.remove_file = true;
    NIB_TRY(bench::write_synthetic(*model, options.synthetic_type, request.path));
    return request;
}

std::string model_name(const Options& options) {
    return options.synthetic.empty()
               ? options.model
               : options.synthetic + " " + options.synthetic_type + " with random weights";
}

template <class Report>
Result<void> print(const Options& options, const Report& report) {
    return write_stdout(options.json ? dump_json(bench::to_json(report), 2) + "\n"
                                     : bench::to_table(report));
}

Result<void> write_model(const Options& options) {
    if (options.synthetic.empty()) {
        return Error{Status::BadRequest, "--write: expected --synthetic NAME beside it"};
    }
    NIB_ASSIGN(const auto* model, bench::find_synthetic(options.synthetic));
    return bench::write_synthetic(*model, options.synthetic_type, options.write_path);
}

Result<void> speed(const Options& options) {
    bench::SpeedRequest tests{.batch_prompt = options.batch_prompt,
                              .repetitions = options.repetitions};
    NIB_ASSIGN(tests.prompts,
               read_list("--n-prompt", given_or(options.bench_prompt, "512"), kTokensMax));
    NIB_ASSIGN(tests.generates,
               read_list("--n-gen", given_or(options.bench_generate, "128"), kTokensMax));
    NIB_ASSIGN(tests.batches, read_list("--batch", options.bench_batch, kSequencesMax));
    NIB_ASSIGN(tests.verifies, read_list("--verify", options.bench_verify, kSequencesMax));
    NIB_ASSIGN(tests.depths,
               read_list("--n-depth", given_or(options.bench_depth, "0"), kTokensMax, true));

    NIB_ASSIGN(bench::ModelRequest request, model_request(options));
    request.context = std::max(tests.context(), options.ctx_size);
    request.least_rows = tests.rows();
    request.max_sequences = tests.sequences();
    NIB_ASSIGN(const auto loaded, bench::load_model(request));
    bench::SpeedReport report{.model = model_name(options),
                              .backend = loaded.runner->backend().description(),
                              .load_ms = loaded.times.total() * 1e3};
    NIB_ASSIGN(report.rows, bench::measure_speed(*loaded.runner, tests));
    report.peak_memory_bytes = bench::peak_memory();  // before the limits take memory of their own
    if (options.measure_limits) {
        NIB_ASSIGN(report.limits, loaded.runner->backend().measure_limits());
    }
    return print(options, report);
}

Result<void> roofline(const Options& options) {
    NIB_ASSIGN(const auto device, find_backend("cpu")->create({.threads = options.threads,
                                                               .cpu_level = options.cpu_level}));
    NIB_ASSIGN(const Roofline limits, device->measure_limits());
    return print(options, bench::RooflineReport{device->description(), limits});
}

int32_t rows_of_ops(const Options& options) {
    return options.ubatch_size ? options.ubatch_size : kOpsRows;
}

// Decode with several numbers of sequences, then prompts of one step.
Result<std::vector<bench::PhaseRequest>> phases_of(const Options& options) {
    NIB_ASSIGN(const auto prompts, read_list("--n-prompt", given_or(options.bench_prompt, "512"),
                                             rows_of_ops(options)));
    NIB_ASSIGN(const auto batches,
               read_list("--batch", given_or(options.bench_batch, "1,8,32"), kSequencesMax));
    NIB_ASSIGN(const auto steps,
               read_list("--n-gen", given_or(options.bench_generate, "16"), kTokensMax));
    const std::string depth = std::to_string(options.batch_prompt);
    NIB_ASSIGN(const auto depths,
               read_list("--n-depth", given_or(options.bench_depth, depth), kTokensMax, true));
    const int32_t n = steps.empty() ? 1 : steps[0];
    std::vector<bench::PhaseRequest> phases;
    for (const int32_t d : depths) {
        for (const int32_t b : batches) {
            phases.push_back(
                {.name = "decode, rows: " + std::to_string(b) + ", depth: " + std::to_string(d),
                 .sequences = b,
                 .depth = d,
                 .steps = n});
        }
    }
    for (const int32_t p : prompts) {
        phases.push_back({.name = "prompt, rows: " + std::to_string(p),
                          .rows = p,
                          .steps = options.repetitions});
    }
    return phases;
}

Result<void> ops(const Options& options) {
    NIB_ASSIGN(const auto phases, phases_of(options));
    NIB_ASSIGN(bench::ModelRequest request, model_request(options));
    request.context = 1;
    for (const bench::PhaseRequest& p : phases) {
        request.context = std::max(request.context, p.depth + p.rows);
        request.max_sequences = std::max(request.max_sequences, p.sequences);
    }
    request.max_rows = rows_of_ops(options);
    request.context = std::max(request.context, request.max_sequences);
    NIB_ASSIGN(const auto loaded, bench::load_model(request));
    bench::ProfileReport report;
    NIB_ASSIGN(report.limits, loaded.runner->backend().measure_limits());
    for (const bench::PhaseRequest& phase : phases) {
        NIB_ASSIGN(auto profile, bench::profile_phase(*loaded.runner, phase, report.limits));
        report.profiles.push_back(std::move(profile));
    }
    return print(options, report);
}

Result<void> load(const Options& options) {
    const double startup_ms = double(clock()) / CLOCKS_PER_SEC * 1e3;
    if (!options.synthetic.empty()) {
        return Error{Status::BadRequest, "nib bench load: expected a file, got --synthetic"};
    }
    NIB_ASSIGN(const auto prompts,
               read_list("--n-prompt", given_or(options.bench_prompt, "64"), kTokensMax));
    const int32_t prompt = prompts.empty() ? 1 : prompts[0];
    NIB_ASSIGN(bench::ModelRequest request, model_request(options));
    request.context = std::max(prompt, options.ctx_size);
    request.tokenizer = true;
    NIB_ASSIGN(const auto report,
               bench::measure_loading(request, prompt, options.repetitions, startup_ms));
    return print(options, report);
}

Result<void> serve(const Options& options) {
    NIB_ASSIGN(const auto tokens,
               read_list("--n-gen", given_or(options.bench_generate, "64"), kTokensMax));
    const char* key = std::getenv("NIB_API_KEY");
    NIB_ASSIGN(const auto report,
               bench::measure_serving({.url = options.serve_url,
                                       .key = key ? key : "",
                                       .clients = options.serve_clients,
                                       .requests = options.serve_requests,
                                       .tokens = tokens.empty() ? 1 : tokens[0],
                                       .prompt_chars = options.prompt_chars,
                                       .shared_prefix_chars = options.shared_prefix_chars,
                                       .warm = options.serve_warm,
                                       .long_prompt_chars = options.long_prompt_chars,
                                       .seed = static_cast<uint64_t>(options.prompt_seed)}));
    NIB_TRY(print(options, report));
    if (report.done == 0) return Error{Status::Io, "no request was answered"};
    return {};
}

Result<void> bench_of(const Options& options) {
    if (!options.synthetic.empty() && !options.default_model) {
        return Error{Status::BadRequest, "--synthetic: stands instead of --model, got both"};
    }
    const std::string form = options.args.empty() ? "" : options.args[0];
    if (!options.write_path.empty()) return write_model(options);
    if (form.empty()) return speed(options);
    if (form == "roofline") return roofline(options);
    if (form == "ops") return ops(options);
    if (form == "load") return load(options);
    if (form == "serve") return serve(options);
    return Error{Status::BadRequest, "expected serve, roofline, ops or load, got " + shown(form)};
}

int run(const Options& options) {
    return finish(bench_of(options));
}

}  // namespace

extern const CommandDef command_bench = {
    .name = "bench",
    .aliases = "",
    .summary = "measure how fast a model reads and writes, and what the machine allows",
    .usage = "[roofline|ops|load|serve]",
    .args_max = 1,
    .flags = kModelFlags | kEngineFlags | kBenchFlags | kJsonFlags,
    .run = run,
};

}  // namespace nib
