// SPDX-License-Identifier: MIT
// Which levels this machine and its system can run, and the tables of those.
#include "backends/cpu/kernels.h"

#include <cstring>

#include <cpuid.h>

namespace nib::cpu {

extern const Kernels kernels_scalar;
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;

namespace {

struct Features {
    bool avx2 = false, avx512 = false;
};

bool has(uint32_t word, int bit) {
    return (word >> bit & 1) != 0;
}

// The register sets that the system saves and restores (XCR0).
uint32_t saved_state() {
    uint32_t low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

Features detect() {
    Features f;
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return f;
    const bool fma = has(c, 12), osxsave = has(c, 27), avx = has(c, 28), f16c = has(c, 29);
    if (!osxsave || !avx || !fma || !f16c) return f;
    const uint32_t state = saved_state();
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
    const bool avx2 = has(b, 5), bmi2 = has(b, 8);
    f.avx2 = avx2 && bmi2 && (state & 0x6) == 0x6;
    const bool foundation = has(b, 16) && has(b, 17) && has(b, 30) && has(b, 31);  // F DQ BW VL
    f.avx512 = f.avx2 && foundation && has(c, 11) && (state & 0xe6) == 0xe6;       // VNNI
    return f;
}

struct Usable {
    const Kernels* list[3];
    int count = 0;
};

Usable find_usable() {
    const Features f = detect();
    Usable u;
    if (f.avx512) u.list[u.count++] = &kernels_avx512;
    if (f.avx2) u.list[u.count++] = &kernels_avx2;
    u.list[u.count++] = &kernels_scalar;
    return u;
}

}  // namespace

const Kernels* const* usable_kernels(int* count) {
    static const Usable usable = find_usable();
    *count = usable.count;
    return usable.list;
}

const Kernels* find_kernels(const char* name) {
    int count = 0;
    const Kernels* const* list = usable_kernels(&count);
    if (name[0] == '\0') return list[0];
    for (int i = 0; i < count; i++) {
        if (std::strcmp(list[i]->name, name) == 0) return list[i];
    }
    return nullptr;
}

}  // namespace nib::cpu
