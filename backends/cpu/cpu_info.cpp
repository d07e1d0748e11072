// SPDX-License-Identifier: MIT
// Reads /proc and /sys. Control groups come in two versions: with version 2 one line of
// /proc/self/cgroup starts with "0::", with version 1 every controller has its own line and its own
// mount. A limit of any group between ours and the mount point holds for us, so the smallest one
// counts.
#include "backends/cpu/cpu_info.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>

#include <sched.h>

namespace nib::cpu {
namespace {

constexpr size_t kMostFileBytes = size_t(1) << 20;
constexpr int kMostCpus = 1 << 16;
constexpr int kMostGroups = 64;  // depth of nested control groups that we follow
// Version 1 says "no limit" with a number near 2^63.
constexpr uint64_t kNoLimitBytes = uint64_t(1) << 60;

// The file's bytes, cut after kMostFileBytes; empty if it cannot be read.
std::string read_text(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::string text;
    char buffer[4096];
    while (in && text.size() < kMostFileBytes) {
        in.read(buffer, sizeof buffer);
        text.append(buffer, size_t(in.gcount()));
    }
    return text;
}

std::string_view trimmed(std::string_view s) {
    const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
    while (!s.empty() && blank(s.front()))
        s.remove_prefix(1);
    while (!s.empty() && blank(s.back()))
        s.remove_suffix(1);
    return s;
}

// Cuts the part before `separator` off the front of `rest`.
std::string_view take(std::string_view& rest, char separator) {
    const size_t at = rest.find(separator);
    const std::string_view part = rest.substr(0, at);
    rest = at == std::string_view::npos ? std::string_view{} : rest.substr(at + 1);
    return part;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (!text.empty())
        parts.push_back(take(text, separator));
    return parts;
}

// A whole number that the text starts with.
std::optional<int64_t> number(std::string_view text) {
    text = trimmed(text);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end == text.data()) return std::nullopt;
    return value;
}

// The CPUs of a list like "0-3,8".
std::vector<int> cpu_list(std::string_view text) {
    std::vector<int> cpus;
    for (std::string_view part : split(trimmed(text), ',')) {
        const auto first = number(take(part, '-'));
        const auto last = part.empty() ? first : number(part);
        if (!first || !last || *first < 0 || *last >= kMostCpus) continue;
        for (int64_t cpu = *first; cpu <= *last; cpu++) {
            if (cpus.size() >= size_t(kMostCpus)) return cpus;
            cpus.push_back(int(cpu));
        }
    }
    return cpus;
}

// Bytes of a size like "512K" or "32M".
uint64_t size_bytes(std::string_view text) {
    text = trimmed(text);
    const int64_t value = number(text).value_or(0);
    if (value <= 0 || value > (int64_t(1) << 30)) return 0;
    const char unit = text.back();
    const int shift = unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0;
    return uint64_t(value) << shift;
}

std::string cpu_folder(const std::string& root, int cpu) {
    return root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
}

// What all CPUs of one core have in common; the CPU itself if the system does not say.
std::string core_name(const std::string& root, int cpu) {
    const std::string folder = cpu_folder(root, cpu) + "/topology/";
    for (const char* file : {"core_cpus_list", "thread_siblings_list"}) {
        const std::string text = read_text(folder + file);
        if (!trimmed(text).empty()) return std::string(trimmed(text));
    }
    return std::to_string(cpu);
}

void read_caches(const std::string& root, int cpu, CpuInfo& info) {
    for (int i = 0; i < 8; i++) {
        const std::string folder = cpu_folder(root, cpu) + "/cache/index" + std::to_string(i);
        const int64_t level = number(read_text(folder + "/level")).value_or(0);
        const std::string type = read_text(folder + "/type");
        const uint64_t bytes = size_bytes(read_text(folder + "/size"));
        if (trimmed(type) == "Instruction") continue;
        if (level == 1) info.l1d_bytes = bytes;
        if (level == 2) info.l2_bytes = bytes;
        if (level == 3) info.l3_bytes = bytes;
    }
}

void read_memory(const std::string& root, CpuInfo& info) {
    const std::string text = read_text(root + "/proc/meminfo");
    for (std::string_view line : split(text, '\n')) {
        const std::string_view key = take(line, ':');
        const auto kib = number(line);
        if (!kib || *kib < 0 || *kib > (int64_t(1) << 50)) continue;
        if (key == "MemTotal") info.memory_total = uint64_t(*kib) << 10;
        if (key == "MemAvailable") info.memory_available = uint64_t(*kib) << 10;
    }
}

// The word in brackets of "always [madvise] never".
std::string huge_page_mode(const std::string& root) {
    const std::string text = read_text(root + "/sys/kernel/mm/transparent_hugepage/enabled");
    const size_t open = text.find('[');
    const size_t close = text.find(']');
    if (open == std::string::npos || close == std::string::npos || close < open) return "unknown";
    return text.substr(open + 1, close - open - 1);
}

bool has_word(std::string_view list, std::string_view word) {
    for (std::string_view part : split(list, ',')) {
        if (part == word) return true;
    }
    return false;
}

// Our group's path of a version 1 controller, or of version 2 if `controller` is empty.
std::optional<std::string> group_path(const std::string& root, std::string_view controller) {
    const std::string text = read_text(root + "/proc/self/cgroup");
    for (std::string_view line : split(text, '\n')) {
        const std::string_view id = take(line, ':');
        const std::string_view controllers = take(line, ':');
        const bool found = controller.empty() ? id == "0" && controllers.empty()
                                              : has_word(controllers, controller);
        if (found) return std::string(line);
    }
    return std::nullopt;
}

// Where a hierarchy is mounted: the folder, and which group that folder shows.
struct Mount {
    std::string folder, group;
};

std::optional<Mount> find_mount(const std::string& root, std::string_view controller) {
    const std::string text = read_text(root + "/proc/self/mountinfo");
    for (std::string_view line : split(text, '\n')) {
        // id parent major:minor group folder options [more] - type source super_options
        const size_t dash = line.find(" - ");
        if (dash == std::string_view::npos) continue;
        const auto before = split(line.substr(0, dash), ' ');
        const auto after = split(line.substr(dash + 3), ' ');
        if (before.size() < 5 || after.size() < 3) continue;
        const bool found = controller.empty()
                               ? after[0] == "cgroup2"
                               : after[0] == "cgroup" && has_word(after[2], controller);
        if (found) return Mount{std::string(before[4]), std::string(before[3])};
    }
    return std::nullopt;
}

// The folders of our groups in one hierarchy, from ours up to the mount point.
std::vector<std::string> group_folders(const std::string& root, std::string_view controller) {
    const auto path = group_path(root, controller);
    const auto mount = find_mount(root, controller);
    if (!path || !mount) return {};
    // In a container the path may be told as the host sees it, with the mounted group in front.
    std::string below = *path;
    if (mount->group != "/" && below.starts_with(mount->group)) below.erase(0, mount->group.size());
    // A path that leads out of what is mounted says nothing about folders that we can see.
    if (below.find("..") != std::string::npos) below.clear();
    std::vector<std::string> folders;
    while (!below.empty() && below != "/" && folders.size() < size_t(kMostGroups)) {
        folders.push_back(root + mount->folder + below);
        below.erase(below.rfind('/') == std::string::npos ? 0 : below.rfind('/'));
    }
    folders.push_back(root + mount->folder);
    return folders;
}

void keep_smaller(double& least, double value) {
    if (value > 0 && (least == 0 || value < least)) least = value;
}

double cpu_quota(const std::string& root) {
    double least = 0;
    for (const std::string& folder : group_folders(root, "")) {
        const std::string text = read_text(folder + "/cpu.max");
        std::string_view rest = text;
        const auto quota = number(take(rest, ' '));
        const auto period = number(rest);
        if (quota && period && *period > 0) keep_smaller(least, double(*quota) / double(*period));
    }
    for (const std::string& folder : group_folders(root, "cpu")) {
        const auto quota = number(read_text(folder + "/cpu.cfs_quota_us"));
        const auto period = number(read_text(folder + "/cpu.cfs_period_us"));
        if (quota && period && *period > 0) keep_smaller(least, double(*quota) / double(*period));
    }
    return least;
}

uint64_t group_memory_limit(const std::string& root) {
    uint64_t least = 0;
    const auto look = [&](std::string_view controller, const char* file) {
        for (const std::string& folder : group_folders(root, controller)) {
            const int64_t bytes = number(read_text(folder + file)).value_or(0);
            if (bytes <= 0 || uint64_t(bytes) >= kNoLimitBytes) continue;
            least = least == 0 ? uint64_t(bytes) : std::min(least, uint64_t(bytes));
        }
    };
    look("", "/memory.max");
    look("memory", "/memory.limit_in_bytes");
    return least;
}

std::string brand(const std::string& root) {
    const std::string text = read_text(root + "/proc/cpuinfo");
    for (std::string_view line : split(text, '\n')) {
        const std::string_view key = trimmed(take(line, ':'));
        if (key == "model name" && !trimmed(line).empty()) return std::string(trimmed(line));
    }
    return "unknown";
}

}  // namespace

CpuInfo read_cpu_info(const std::string& root, std::span<const int> allowed_cpus) {
    CpuInfo info;
    info.brand = brand(root);
    info.allowed = std::max(1, int(allowed_cpus.size()));
    const auto online = cpu_list(read_text(root + "/sys/devices/system/cpu/online"));
    info.online = online.empty() ? info.allowed : int(online.size());
    std::set<std::string> cores;
    for (const int cpu : allowed_cpus)
        cores.insert(core_name(root, cpu));
    info.physical_allowed = std::max(1, int(cores.size()));
    info.quota_cpus = cpu_quota(root);
    info.default_threads = info.physical_allowed;
    if (info.quota_cpus > 0 && info.quota_cpus < info.physical_allowed) {
        info.default_threads = std::max(1, int(std::floor(info.quota_cpus)));
    }
    read_memory(root, info);
    info.memory_limit = group_memory_limit(root);
    if (info.memory_limit != 0) {
        info.memory_available = std::min(info.memory_available, info.memory_limit);
    }
    read_caches(root, allowed_cpus.empty() ? 0 : allowed_cpus[0], info);
    info.huge_pages = huge_page_mode(root);
    return info;
}

CpuInfo read_cpu_info() {
    return read_cpu_info("", process_cpus());
}

std::vector<int> cpus_by_core(const std::string& root, std::span<const int> allowed_cpus) {
    std::set<std::string> cores;
    std::vector<int> order;
    std::vector<int> siblings;
    for (const int cpu : allowed_cpus) {
        const bool first = cores.insert(core_name(root, cpu)).second;
        (first ? order : siblings).push_back(cpu);
    }
    order.insert(order.end(), siblings.begin(), siblings.end());
    return order;
}

const std::vector<int>& process_cpus() {
    static const std::vector<int> cpus = this_thread_cpus();
    return cpus;
}

std::vector<int> this_thread_cpus() {
    std::vector<int> cpus;
    // The kernel refuses a mask that is too small for its own; then a larger one is tried.
    for (int most = CPU_SETSIZE; most <= kMostCpus && cpus.empty(); most *= 4) {
        const size_t bytes = CPU_ALLOC_SIZE(most);
        std::vector<unsigned long> mask(bytes / sizeof(unsigned long));
        auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
        if (sched_getaffinity(0, bytes, set) != 0) continue;
        for (int cpu = 0; cpu < most; cpu++) {
            if (CPU_ISSET_S(size_t(cpu), bytes, set)) cpus.push_back(cpu);
        }
    }
    if (cpus.empty()) cpus.push_back(0);
    return cpus;
}

void bind_thread(pthread_t thread, std::span<const int> cpus) {
    const int most = kMostCpus;
    const size_t bytes = CPU_ALLOC_SIZE(most);
    std::vector<unsigned long> mask(bytes / sizeof(unsigned long));
    auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
    for (const int cpu : cpus) {
        if (cpu >= 0 && cpu < most) CPU_SET_S(size_t(cpu), bytes, set);
    }
    pthread_setaffinity_np(thread, bytes, set);
}

}  // namespace nib::cpu
