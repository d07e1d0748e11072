// SPDX-License-Identifier: MIT
// nib quantize: writes a GGUF model with other tensor types. The plan comes from the recipe's name,
// the work is src/quantize; here are the checks of the two paths, the progress line, what Ctrl-C
// does, and the summary.
#include "src/quantize/quantize.h"

#include "backends/cpu/cpu_info.h"
#include "src/cli/output.h"
#include "src/command.h"
#include "src/json/json.h"
#include "src/option_values.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>

#include <unistd.h>

namespace nib {
namespace {

constexpr int kInterruptedCode = 130;

std::atomic<bool> interrupted = false;

void on_signal(int) {
    interrupted = true;
}

// While it lives, Ctrl-C and SIGTERM end the work between two pieces, so that the hidden file is
// removed.
class SignalGuard {
  public:
    SignalGuard() {
        struct sigaction action {};
        action.sa_handler = on_signal;
        sigaction(SIGINT, &action, &before_int_);
        sigaction(SIGTERM, &action, &before_term_);
    }
    ~SignalGuard() {
        sigaction(SIGINT, &before_int_, nullptr);
        sigaction(SIGTERM, &before_term_, nullptr);
    }
    SignalGuard(const SignalGuard&) = delete;
    SignalGuard& operator=(const SignalGuard&) = delete;

  private:
    struct sigaction before_int_ {
    }, before_term_{};
};

// One line that is redrawn when its percentage changes and erased in the end; only on a terminal.
class ProgressLine {
  public:
    ~ProgressLine() {
        if (shown_ >= 0) write_stderr("\r\033[K");
    }
    void show(double share) {
        const int percent = static_cast<int>(std::clamp(share, 0.0, 1.0) * 100);
        if (!visible_ || percent == shown_) return;
        shown_ = percent;
        write_stderr("\rquantizing " + std::to_string(percent) + "%");
    }

  private:
    bool visible_ = isatty(STDERR_FILENO) == 1;
    int shown_ = -1;
};

std::string decimal(double value, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

std::string mib(uint64_t bytes) {
    return decimal(static_cast<double>(bytes) / (1 << 20), 1) + " MiB";
}

struct Job {
    std::string in, out, type;
};

Result<Job> read_job(const Options& options) {
    const auto& args = options.args;
    if (args.size() == 2 && options.dry_run) return Job{args[0], "", args[1]};
    if (args.size() == 3) return Job{args[0], args[1], args[2]};
    return Error{Status::BadRequest, "quantize: expected IN OUT TYPE, got " +
                                         std::to_string(args.size()) + " of these arguments"};
}

// The files of a split model lie beside each other; writing over any of them would destroy the
// model.
bool is_input(const GgufFile& file, const std::string& out) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    if (fs::equivalent(file.path(), out, ignored)) return true;
    const size_t mark = file.path().rfind("-of-");
    if (mark == std::string::npos || mark < 5 || !file.find("split.count")) return false;
    const std::string folder = fs::path(file.path()).parent_path().string();
    const auto ending = [](const std::string& path, size_t from) { return path.substr(from); };
    for (fs::directory_iterator at(folder.empty() ? "." : folder, ignored), end; at != end;
         at.increment(ignored)) {
        const std::string name = at->path().string();
        if (name.ends_with(ending(file.path(), mark)) && fs::equivalent(name, out, ignored))
            return true;
    }
    return false;
}

Result<void> check_output(const GgufFile& file, const Job& job, bool force) {
    std::error_code ignored;
    if (is_input(file, job.out)) {
        return Error{Status::BadRequest,
                     job.out + ": is the input file; expected another name for the output"};
    }
    const auto kind = std::filesystem::symlink_status(job.out, ignored).type();
    const bool there =
        kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::none;
    if (there && !force) {
        return Error{Status::BadRequest, job.out + ": is there already; replace it with --force"};
    }
    return {};
}

std::string shape(const GgufTensor& tensor) {
    std::string text = "[";
    for (uint32_t i = 0; i < tensor.n_dims; i++)
        text += (i > 0 ? ", " : "") + std::to_string(tensor.ne[i]);
    return text + "]";
}

void warn(const QuantPlan& plan) {
    std::map<std::string, int> requantized;
    std::map<std::string, int> fallbacks;
    for (const TensorPlan& tensor : plan.tensors) {
        const QuantDef& from = *tensor.source->def;
        if (!tensor.copied() && from.block_elems > 1) requantized[from.name]++;
        if (tensor.def != tensor.wish)
            fallbacks[std::string(tensor.def->name) + " instead of " + tensor.wish->name]++;
    }
    for (const auto& [name, n] : requantized)
        write_stderr("warning: requantizing from " + name + " loses accuracy (" +
                     std::to_string(n) + " tensors)\n");
    for (const auto& [what, n] : fallbacks)
        write_stderr("note: " + what + " for " + std::to_string(n) +
                     " tensors whose rows do not fit the blocks\n");
}

Json report(const QuantPlan& plan, const Job& job, double seconds) {
    Json tensors = Json::array();
    for (const TensorPlan& tensor : plan.tensors) {
        tensors.push_back({{"name", std::string(tensor.source->name)},
                           {"from", tensor.source->def->name},
                           {"to", tensor.def->name},
                           {"wanted", tensor.wish->name},
                           {"bytes", tensor.bytes}});
    }
    return {{"in", job.in},
            {"out", job.out},
            {"type", plan.recipe->name},
            {"bytes_in", plan.bytes_in},
            {"bytes_out", plan.bytes_out},
            {"parameters", plan.parameters},
            {"bits_per_weight", plan.bits_per_weight()},
            {"seconds", seconds},
            {"tensors", std::move(tensors)}};
}

std::string sizes(const QuantPlan& plan) {
    return std::string(plan.recipe->name) + ": tensors " + mib(plan.bytes_in) + " -> " +
           mib(plan.bytes_out) + ", " + decimal(plan.bits_per_weight(), 2) + " bits per weight";
}

Result<void> print_plan(const QuantPlan& plan, const Job& job, bool json) {
    if (json) return write_stdout(dump_json(report(plan, job, 0), 2) + "\n");
    std::string out;
    for (const TensorPlan& tensor : plan.tensors) {
        out += std::string(tensor.source->name) + " " + shape(*tensor.source) + " " +
               tensor.source->def->name + " -> " + tensor.def->name + " " + mib(tensor.bytes) +
               "\n";
    }
    return write_stdout(printable(out + sizes(plan) + "\n"));
}

Result<void> write_output(const GgufFile& file,
                          const QuantPlan& plan,
                          const Job& job,
                          const Options& options) {
    NIB_TRY(check_output(file, job, options.force));
    const auto start = std::chrono::steady_clock::now();
    const int threads =
        options.threads > 0 ? options.threads : cpu::read_cpu_info().default_threads;
    {
        const SignalGuard guard;
        ProgressLine line;
        NIB_TRY(write_quantized(file, plan, job.out,
                                {.threads = threads, .progress = [&](double share) {
                                     line.show(share);
                                     return !interrupted;
                                 }}));
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    write_stderr(sizes(plan) + ", " + decimal(seconds, 2) + " s\n");
    if (!options.json) return {};
    return write_stdout(dump_json(report(plan, job, seconds), 2) + "\n");
}

Result<PlanOptions> plan_options(const Options& options) {
    PlanOptions plan{.pure = options.pure};
    for (const std::string& text : options.tensor_types) {
        const size_t equals = text.rfind('=');
        const std::string type = text.substr(equals + 1);
        const QuantDef* def = find_type(std::string_view(type));
        if (!def || !find_recipe(type) || find_recipe(type)->base != def->type) {
            return Error{Status::BadRequest,
                         "--tensor-type: expected a type like q6_k, got " + shown(type)};
        }
        plan.choices.push_back({text.substr(0, equals), def->type});
    }
    return plan;
}

Result<void> quantize(const Options& options) {
    NIB_ASSIGN(const Job job, read_job(options));
    const Recipe* recipe = find_recipe(job.type);
    if (!recipe) {
        return Error{Status::BadRequest,
                     "TYPE: expected one of " + recipe_names() + ", got " + shown(job.type)};
    }
    NIB_ASSIGN(const PlanOptions choices, plan_options(options));
    NIB_ASSIGN(const auto file, GgufFile::open(job.in));
    const QuantPlan plan = plan_quantization(*file, *recipe, choices);
    warn(plan);
    if (options.dry_run) return print_plan(plan, job, options.json);
    return write_output(*file, plan, job, options);
}

int run(const Options& options) {
    const auto result = quantize(options);
    if (result || !interrupted) return finish(result);
    write_stderr("error: interrupted, nothing was written\n");
    return kInterruptedCode;
}

}  // namespace

extern const CommandDef command_quantize = {
    .name = "quantize",
    .aliases = "",
    .summary = "write a model with other tensor types",
    .usage = "IN OUT TYPE",
    .args_max = 3,
    .flags = kQuantizeFlags | kJsonFlags,
    .run = run,
};

}  // namespace nib
