// SPDX-License-Identifier: MIT
// nib doctor: what this machine offers and what to change: CPU level, cores and quota, memory, huge
// pages, the model cache. It changes nothing and loads no model; problems are advice, not errors.
#include "backends/cpu/cpu_info.h"
#include "backends/cpu/kernels.h"
#include "src/cli/output.h"
#include "src/command.h"
#include "src/json/json.h"

#include <cstdio>
#include <filesystem>
#include <vector>

#include <unistd.h>

namespace nib {
namespace {

struct Finding {
    const char* name;
    std::string value;
    std::string advice;  // empty: all is well
};

std::string gib(uint64_t bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
    return text;
}

Finding cores(const cpu::CpuInfo& info) {
    std::string value = std::to_string(info.physical_allowed) + " cores, " +
                        std::to_string(info.allowed) + " of " + std::to_string(info.online) +
                        " CPUs allowed";
    if (info.quota_cpus <= 0) return {"cores", value, ""};
    char quota[32];
    std::snprintf(quota, sizeof quota, ", quota %.2f", info.quota_cpus);
    const bool low = info.quota_cpus < info.physical_allowed;
    return {"cores", value + quota,
            low ? "the CPU quota of the control group is below the number of cores; raise it" : ""};
}

Finding huge_pages(const cpu::CpuInfo& info) {
    const bool off = info.huge_pages == "never";
    return {"huge pages", info.huge_pages,
            off ? "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled makes weights faster"
                : ""};
}

Finding memory(const cpu::CpuInfo& info) {
    std::string value = gib(info.memory_available) + " free of " + gib(info.memory_total);
    if (info.memory_limit > 0) value += ", limit " + gib(info.memory_limit);
    return {"memory", value, ""};
}

Finding default_model() {
    const std::string path = default_model_path();
    const bool there = access(path.c_str(), R_OK) == 0;
    return {"default model", path, there ? "" : "it is missing; run ./scripts/fetch-models"};
}

// The models of the cache folder with their sizes.
std::vector<Finding> cached_models() {
    std::vector<Finding> found;
    std::error_code error;
    const auto folder = std::filesystem::path(default_model_path()).parent_path();
    for (auto it = std::filesystem::directory_iterator(folder, error);
         !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
        std::error_code unreadable;
        if (it->path().extension() != ".gguf") continue;
        const uint64_t bytes = it->file_size(unreadable);
        found.push_back({"cached model",
                         it->path().filename().string() + ", " + gib(unreadable ? 0 : bytes), ""});
    }
    return found;
}

std::vector<Finding> examine() {
    const cpu::CpuInfo info = cpu::read_cpu_info();
    const std::string level = cpu::find_kernels("")->name;
    std::vector<Finding> findings = {
        {"cpu", info.brand, ""},
        {"cpu level", level, level == "scalar" ? "this CPU has no AVX2; nib runs, but slowly" : ""},
        cores(info),
        {"threads", std::to_string(info.default_threads) + " by default", ""},
        memory(info),
        huge_pages(info),
        default_model(),
    };
    for (Finding& model : cached_models())
        findings.push_back(std::move(model));
    return findings;
}

int run(const Options& options) {
    std::string text;
    Json list = Json::array();
    for (const Finding& finding : examine()) {
        list.push_back(
            {{"name", finding.name}, {"value", finding.value}, {"advice", finding.advice}});
        std::string left = finding.name;
        left.resize(std::max<size_t>(left.size() + 1, 16), ' ');
        text += left + finding.value + "\n";
        if (!finding.advice.empty()) text += "                -> " + finding.advice + "\n";
    }
    if (options.json) return finish(write_stdout(dump_json(list, 2) + "\n"));
    return finish(write_stdout(printable(text)));
}

}  // namespace

extern const CommandDef command_doctor = {
    .name = "doctor",
    .aliases = "",
    .summary = "show what this machine offers and what to change",
    .usage = "",
    .args_max = 0,
    .flags = kJsonFlags,
    .run = run,
};

}  // namespace nib
