// SPDX-License-Identifier: MIT
// What this process may really use: CPUs (affinity mask, cores of the topology, quota of its
// control groups), memory (of the machine and of the groups) and the sizes of the caches.
// Everything is read from files below a root folder ("" is the machine, a test gives its own tree);
// a file that is missing or makes no sense leaves its field at "unknown" and never fails.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <pthread.h>

namespace nib::cpu {

struct CpuInfo {
    std::string brand;         // model name, or "unknown"
    int online = 1;            // CPUs of the machine
    int allowed = 1;           // CPUs in the affinity mask
    int physical_allowed = 1;  // cores that have at least one allowed CPU
    double quota_cpus = 0;     // smallest CPU quota of our control groups, in CPUs; 0: none
    int default_threads =
        1;  // physical_allowed, but not above the quota (rounded down); at least 1

    // Bytes; 0: unknown, for memory_limit: none.
    uint64_t memory_total = 0;
    uint64_t memory_available = 0;  // without swapping; not above memory_limit
    uint64_t memory_limit = 0;      // smallest limit of our control groups
    uint64_t l1d_bytes = 0;         // of one core
    uint64_t l2_bytes = 0;          // of one core
    uint64_t l3_bytes = 0;          // of one group of cores

    std::string huge_pages;  // transparent huge pages: "always", "madvise", "never" or "unknown"
};

// allowed_cpus: the affinity mask as CPU numbers.
CpuInfo read_cpu_info(const std::string& root, std::span<const int> allowed_cpus);
// This machine and this process.
CpuInfo read_cpu_info();

// The given CPUs in the order in which threads should take them: one of every core, then the second
// ones.
std::vector<int> cpus_by_core(const std::string& root, std::span<const int> allowed_cpus);

// The CPUs of the process's affinity mask, as found by the first call: later a thread may be bound
// to one of them. Never empty.
const std::vector<int>& process_cpus();

// Affinity of single threads. Binding is a hint: a refusal is ignored.
std::vector<int> this_thread_cpus();
void bind_thread(pthread_t thread, std::span<const int> cpus);

}  // namespace nib::cpu
