// SPDX-License-Identifier: MIT
// Measuring the machine: every number is there and positive; the probes of all levels really read
// and really multiply.
#include "backends/cpu/kernels.h"
#include "ggml-like/backend.h"

#include <cmath>
#include <cstring>
#include <vector>

#include <gmock/gmock.h>

namespace nib {
namespace {

TEST(Roofline, CpuHasAllLimits) {
    const auto backend = find_backend("cpu")->create({.threads = 2});
    ASSERT_TRUE(backend.ok());
    const auto limits = (*backend)->measure_limits();
    ASSERT_TRUE(limits.ok()) << limits.error().message;
    EXPECT_GT(limits->read_bytes_per_s, 0);
    EXPECT_GT(limits->int8_macs_per_s, 0);
    EXPECT_GT(limits->float_macs_per_s, 0);
    EXPECT_GT(limits->sync_ns, 0);
    EXPECT_FALSE(limits->rows.empty());
    for (const Roofline::Row& r : limits->rows) {
        EXPECT_FALSE(r.name.empty());
        EXPECT_THAT(r.unit, testing::AnyOf("GB/s", "GMAC/s", "ns"));
        EXPECT_GT(r.best, 0) << r.name;
        EXPECT_GT(r.median, 0) << r.name;
        EXPECT_TRUE(std::isfinite(r.best)) << r.name;
        if (r.unit == "ns") {
            EXPECT_LE(r.best, r.median) << r.name;
        } else {
            EXPECT_GE(r.best, r.median) << r.name;
        }
    }
}

TEST(Roofline, ABackendMayHaveNone) {
    const auto backend = find_backend("reference")->create({});
    ASSERT_TRUE(backend.ok());
    const auto limits = (*backend)->measure_limits();
    ASSERT_FALSE(limits.ok());
    EXPECT_EQ(limits.error().status, Status::Unsupported);
    EXPECT_THAT(limits.error().message, testing::HasSubstr("reference"));
}

struct alignas(64) Line {
    uint8_t bytes[64] = {};
};

TEST(Probes, ReadEveryLine) {
    int count = 0;
    const cpu::Kernels* const* levels = cpu::usable_kernels(&count);
    for (int l = 0; l < count; l++) {
        std::vector<Line> lines(64);
        const auto read = [&](size_t ahead) {
            return levels[l]->probe_read(lines[0].bytes, lines.size() * sizeof(Line), ahead);
        };
        EXPECT_EQ(read(0), 0) << levels[l]->name;
        for (Line& line : lines) {
            line.bytes[5] = 3;
            EXPECT_NE(read(0), 0) << levels[l]->name;
            EXPECT_NE(read(4096), 0) << levels[l]->name;
            line.bytes[5] = 0;
        }
    }
}

TEST(Probes, MultiplyMoreInMoreRounds) {
    int count = 0;
    const cpu::Kernels* const* levels = cpu::usable_kernels(&count);
    for (int l = 0; l < count; l++) {
        EXPECT_NE(levels[l]->probe_int8(8), levels[l]->probe_int8(16)) << levels[l]->name;
        EXPECT_NE(levels[l]->probe_float(1), levels[l]->probe_float(100)) << levels[l]->name;
        EXPECT_TRUE(std::isfinite(levels[l]->probe_float(10000))) << levels[l]->name;
    }
}

}  // namespace
}  // namespace nib
