// SPDX-License-Identifier: MIT
// What the process may use, read from made-up /proc and /sys trees; and the huge-page buffer.
#include "backends/cpu/cpu_info.h"
#include "backends/cpu/memory.h"
#include "tests/support/support.h"

#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace nib::cpu {
namespace {

// A machine made of files.
class FakeMachine {
  public:
    void file(const std::string& path, const std::string& text) {
        std::filesystem::create_directories(
            std::filesystem::path(folder_.path() + path).parent_path());
        test::write_file(folder_.path() + path, text);
    }
    // `cpus` logical CPUs, two of each core side by side: core c has CPUs c and c + cpus / 2.
    void hyper_threads(int cpus) {
        file("/sys/devices/system/cpu/online", "0-" + std::to_string(cpus - 1) + "\n");
        for (int cpu = 0; cpu < cpus; cpu++) {
            const int core = cpu % (cpus / 2);
            file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/core_cpus_list",
                 std::to_string(core) + "," + std::to_string(core + cpus / 2) + "\n");
        }
    }
    void version2(const std::string& group) {
        file("/proc/self/cgroup", "0::" + group + "\n");
        file("/proc/self/mountinfo",
             "22 1 0:21 / /proc rw - proc proc rw\n"
             "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
    }
    CpuInfo info(int cpus) const {
        std::vector<int> allowed(static_cast<size_t>(cpus));
        std::iota(allowed.begin(), allowed.end(), 0);
        return read_cpu_info(folder_.path(), allowed);
    }
    const std::string& root() const { return folder_.path(); }

  private:
    test::TempDir folder_;
};

TEST(CpuInfo, AnEmptyTreeGivesUnknowns) {
    const FakeMachine machine;
    const CpuInfo info = machine.info(4);
    EXPECT_EQ(info.brand, "unknown");
    EXPECT_EQ(info.online, 4);
    EXPECT_EQ(info.physical_allowed, 4);
    EXPECT_EQ(info.default_threads, 4);
    EXPECT_EQ(info.quota_cpus, 0);
    EXPECT_EQ(info.memory_total, 0U);
    EXPECT_EQ(info.memory_limit, 0U);
    EXPECT_EQ(info.huge_pages, "unknown");
    EXPECT_EQ(read_cpu_info(machine.root(), {}).default_threads, 1);
}

TEST(CpuInfo, CountsCoresNotHyperThreads) {
    FakeMachine machine;
    machine.hyper_threads(64);
    EXPECT_EQ(machine.info(64).online, 64);
    EXPECT_EQ(machine.info(64).default_threads, 32);
    // An affinity mask of two CPUs of one core, and of two cores.
    const std::vector<int> siblings = {3, 35};
    EXPECT_EQ(read_cpu_info(machine.root(), siblings).default_threads, 1);
    EXPECT_EQ(read_cpu_info(machine.root(), siblings).allowed, 2);
    const std::vector<int> cores = {3, 4};
    EXPECT_EQ(read_cpu_info(machine.root(), cores).default_threads, 2);
}

TEST(CpuInfo, OldTopologyNamesWork) {
    FakeMachine machine;
    for (int cpu = 0; cpu < 4; cpu++) {
        machine.file(
            "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
            cpu < 2 ? "0-1\n" : "2-3\n");
    }
    EXPECT_EQ(machine.info(4).physical_allowed, 2);
    const std::vector<int> all = {0, 1, 2, 3};
    EXPECT_EQ(cpus_by_core(machine.root(), all), (std::vector<int>{0, 2, 1, 3}));
}

TEST(CpuInfo, QuotaOfVersion2) {
    FakeMachine machine;
    machine.hyper_threads(64);
    machine.version2("/system.slice/nib.service");
    machine.file("/sys/fs/cgroup/system.slice/nib.service/cpu.max", "200000 100000\n");
    EXPECT_DOUBLE_EQ(machine.info(64).quota_cpus, 2);
    EXPECT_EQ(machine.info(64).default_threads, 2);
    // A group above ours is smaller.
    machine.file("/sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n");
    EXPECT_DOUBLE_EQ(machine.info(64).quota_cpus, 1.5);
    EXPECT_EQ(machine.info(64).default_threads, 1);
    // No limit at all, and one below a whole CPU.
    machine.file("/sys/fs/cgroup/system.slice/cpu.max", "max 100000\n");
    machine.file("/sys/fs/cgroup/system.slice/nib.service/cpu.max", "max 100000\n");
    EXPECT_EQ(machine.info(64).default_threads, 32);
    machine.file("/sys/fs/cgroup/system.slice/nib.service/cpu.max", "20000 100000\n");
    EXPECT_EQ(machine.info(64).default_threads, 1);
}

TEST(CpuInfo, QuotaAboveTheMaskChangesNothing) {
    FakeMachine machine;
    machine.version2("/");
    machine.file("/sys/fs/cgroup/cpu.max", "800000 100000\n");
    EXPECT_EQ(machine.info(2).default_threads, 2);
}

TEST(CpuInfo, QuotaOfVersion1InAContainer) {
    FakeMachine machine;
    machine.file("/proc/self/cgroup",
                 "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/docker/abc\n");
    machine.file("/proc/self/mountinfo",
                 "40 30 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro shared:9 - cgroup cgroup "
                 "rw,cpu,cpuacct\n"
                 "41 30 0:31 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    machine.file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
    machine.file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    machine.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
    machine.file("/proc/meminfo",
                 "MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 4194304 kB\n");
    const CpuInfo info = machine.info(8);
    EXPECT_DOUBLE_EQ(info.quota_cpus, 3);
    EXPECT_EQ(info.default_threads, 3);
    EXPECT_EQ(info.memory_total, uint64_t(8) << 30);
    EXPECT_EQ(info.memory_limit, uint64_t(1) << 30);
    EXPECT_EQ(info.memory_available, uint64_t(1) << 30);
}

TEST(CpuInfo, NoLimitOfVersion1) {
    FakeMachine machine;
    machine.file("/proc/self/cgroup", "5:cpu:/\n4:memory:/\n");
    machine.file("/proc/self/mountinfo",
                 "40 30 0:30 / /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"
                 "41 30 0:31 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    machine.file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    machine.file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    machine.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    EXPECT_EQ(machine.info(8).quota_cpus, 0);
    EXPECT_EQ(machine.info(8).default_threads, 8);
    EXPECT_EQ(machine.info(8).memory_limit, 0U);
}

TEST(CpuInfo, OddFilesDoNoHarm) {
    FakeMachine machine;
    machine.version2("/../../outside");
    machine.file("/sys/fs/cgroup/cpu.max", "-1 0\n");
    machine.file("/sys/fs/cgroup/memory.max", "99999999999999999999999999\n");
    machine.file("/sys/devices/system/cpu/online", "0-99999999999,x,-3,7-2,,5\n");
    machine.file("/proc/meminfo", ":::\nMemTotal\nMemAvailable: -5 kB\n");
    machine.file("/proc/cpuinfo", std::string(3 << 20, 'm'));
    machine.file("/sys/kernel/mm/transparent_hugepage/enabled", "]always[");
    machine.file("/sys/devices/system/cpu/cpu0/cache/index0/size", "\n");
    const CpuInfo info = machine.info(3);
    EXPECT_EQ(info.online, 1);
    EXPECT_EQ(info.default_threads, 3);
    EXPECT_EQ(info.quota_cpus, 0);
    EXPECT_EQ(info.memory_limit, 0U);
    EXPECT_EQ(info.memory_total, 0U);
    EXPECT_EQ(info.huge_pages, "unknown");
}

TEST(CpuInfo, BrandCachesAndHugePages) {
    FakeMachine machine;
    machine.file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast CPU 9000\nflags : a b\n");
    machine.file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    const char* const rows[][3] = {{"1", "Data", "32K"},
                                   {"1", "Instruction", "64K"},
                                   {"2", "Unified", "1024K"},
                                   {"3", "Unified", "32M"}};
    for (int i = 0; i < 4; i++) {
        const std::string folder =
            "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/";
        machine.file(folder + "level", std::string(rows[i][0]) + "\n");
        machine.file(folder + "type", std::string(rows[i][1]) + "\n");
        machine.file(folder + "size", std::string(rows[i][2]) + "\n");
    }
    const CpuInfo info = machine.info(1);
    EXPECT_EQ(info.brand, "Fast CPU 9000");
    EXPECT_EQ(info.l1d_bytes, 32U << 10);
    EXPECT_EQ(info.l2_bytes, 1U << 20);
    EXPECT_EQ(info.l3_bytes, 32U << 20);
    EXPECT_EQ(info.huge_pages, "madvise");
}

TEST(CpuInfo, ThisMachineMakesSense) {
    const CpuInfo info = read_cpu_info();
    EXPECT_EQ(info.allowed, int(process_cpus().size()));
    EXPECT_GE(info.online, info.allowed);
    EXPECT_GE(info.allowed, info.physical_allowed);
    EXPECT_GE(info.physical_allowed, info.default_threads);
    EXPECT_GE(info.default_threads, 1);
    EXPECT_GT(info.memory_total, uint64_t(64) << 20);
    EXPECT_GE(info.memory_total, info.memory_available);
}

bool all_zero(const uint8_t* data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] != 0) return false;
    }
    return true;
}

TEST(HugeBuffer, IsAlignedZeroAndWritable) {
    for (const size_t bytes : {size_t(1), size_t(4097), kHugePageBytes, 3 * kHugePageBytes + 5}) {
        auto made = HugeBuffer::create(bytes);
        ASSERT_TRUE(made.ok()) << made.error().message;
        HugeBuffer buffer = std::move(made).value();
        EXPECT_EQ(buffer.bytes(), bytes);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kHugePageBytes, 0U);
        EXPECT_TRUE(all_zero(buffer.data(), bytes));
        buffer.data()[0] = 1;
        buffer.data()[bytes - 1] = 2;
        HugeBuffer moved = std::move(buffer);
        EXPECT_EQ(moved.data()[bytes - 1], 2);
        HugeBuffer target;
        target = std::move(moved);
        EXPECT_EQ(target.bytes(), bytes);
    }
}

TEST(HugeBuffer, NothingIsABufferToo) {
    auto made = HugeBuffer::create(0);
    ASSERT_TRUE(made.ok());
    EXPECT_TRUE(made->empty());
}

TEST(HugeBuffer, RefusalNamesTheBytes) {
    for (const size_t bytes : {SIZE_MAX, SIZE_MAX / 2, size_t(1) << 60}) {
        const auto made = HugeBuffer::create(bytes);
        ASSERT_FALSE(made.ok());
        EXPECT_EQ(made.error().status, Status::OutOfMemory);
        EXPECT_NE(made.error().message.find(std::to_string(bytes)), std::string::npos);
    }
}

}  // namespace
}  // namespace nib::cpu
