// SPDX-License-Identifier: MIT
// Attention over pages: the same bits at all levels and for any content of slots that are not seen,
// close to double precision, and independent of the heads it is grouped with.
#include "tests/cpu/kernels_support.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

namespace nib::cpu::test {
namespace {

// Keys and values of one KV head, in pages and plainly (as the halves hold them).
struct Cache {
    Cache(const Kernels& level, int dim, int length, Random& random) : head_dim(dim) {
        const size_t n_pages = size_t(length + kPageTokens - 1) / kPageTokens;
        // Slots that are never written are NaN halves.
        memory.assign(n_pages * page_halves(dim), 0x7e00);
        for (size_t p = 0; p < n_pages; p++)
            pages.push_back(&memory[p * page_halves(dim)]);
        for (int t = 0; t < length; t++) {
            const std::vector<float> k = random_floats(size_t(dim), 1.0f, random);
            const std::vector<float> v = random_floats(size_t(dim), 1.0f, random);
            level.kv_store(k.data(), v.data(), dim, t % kPageTokens,
                           &memory[size_t(t / kPageTokens) * page_halves(dim)]);
            for (const float x : k)
                keys.push_back(half_to_float(float_to_half(x)));
            for (const float x : v)
                values.push_back(half_to_float(float_to_half(x)));
        }
    }
    void poison(int token) {
        uint16_t* page = &memory[size_t(token / kPageTokens) * page_halves(head_dim)];
        const size_t slot = size_t(token % kPageTokens), dim = size_t(head_dim);
        for (size_t i = 0; i < dim; i++) {
            page[(slot / 16 * dim + i) * 16 + slot % 16] = i % 2 == 0 ? 0x7e00 : 0x7c00;
            page[kPageTokens * dim + slot * dim + i] = 0xfe00;
        }
    }
    int head_dim;
    std::vector<uint16_t> memory;
    std::vector<const uint16_t*> pages;
    std::vector<float> keys, values;  // [token][head_dim]
};

struct Seen {
    int group;
    int64_t begin, end;
    float softcap;
};

std::vector<float> attend(const Kernels& level,
                          const Cache& cache,
                          const std::vector<float>& q,
                          Seen seen) {
    std::vector<float> out(size_t(seen.group * cache.head_dim), 9.0f);
    const Lines scratch(attention_scratch(seen.group, cache.head_dim));
    std::memset(scratch.get(), 0xff, attention_scratch(seen.group, cache.head_dim));
    std::vector<const uint16_t*> pages = cache.pages;
    for (int64_t p = 0; p < seen.begin / kPageTokens; p++)
        pages[size_t(p)] = nullptr;
    const auto head_dim = size_t(cache.head_dim);
    level.attention({.q = q.data(),
                     .ldq = size_t(seen.group) * head_dim,
                     .rows = 1,
                     .group = seen.group,
                     .head_dim = cache.head_dim,
                     .pages = pages.data(),
                     .position = seen.end - 1,
                     .window = static_cast<int>(seen.end - seen.begin),
                     .scale = 1.0f / std::sqrt(static_cast<float>(cache.head_dim)),
                     .softcap = seen.softcap,
                     .out = out.data(),
                     .ldout = size_t(seen.group) * head_dim},
                    scratch.get());
    return out;
}

std::vector<double> attend_double(const Cache& cache, const std::vector<float>& q, Seen seen) {
    const size_t dim = size_t(cache.head_dim);
    std::vector<double> out(size_t(seen.group) * dim);
    for (size_t g = 0; g < size_t(seen.group); g++) {
        double sum = 0;
        for (size_t t = size_t(seen.begin); t < size_t(seen.end); t++) {
            double s = 0;
            for (size_t i = 0; i < dim; i++)
                s += double(q[g * dim + i]) * double(cache.keys[t * dim + i]);
            s /= std::sqrt(double(dim));
            if (seen.softcap > 0) s = double(seen.softcap) * std::tanh(s / double(seen.softcap));
            const double p = std::exp(s);
            sum += p;
            for (size_t i = 0; i < dim; i++)
                out[g * dim + i] += p * double(cache.values[t * dim + i]);
        }
        for (size_t i = 0; i < dim; i++)
            out[g * dim + i] /= sum;
    }
    return out;
}

constexpr Seen kSeen[] = {
    {3, 0, 1, 0},    {3, 0, 15, 0},    {1, 0, 64, 0},      {2, 0, 65, 0},    {4, 0, 100, 5.0f},
    {5, 37, 100, 0}, {8, 63, 64, 0},   {7, 64, 65, 0},     {6, 0, 511, 0},   {3, 0, 512, 0},
    {3, 0, 513, 0},  {3, 511, 513, 0}, {3, 1, 700, 30.0f}, {9, 600, 640, 0}, {3, 200, 1100, 0},
};

TEST(Attention, LevelsAreEqualAndClose) {
    Random random(11);
    for (const int dim : {16, 48, 64, 128, 256}) {
        const Cache cache(*find_kernels("scalar"), dim, 1100, random);
        for (const Seen seen : kSeen) {
            const std::vector<float> q = random_floats(size_t(seen.group * dim), 4.0f, random);
            const std::vector<float> want = attend(*find_kernels("scalar"), cache, q, seen);
            const std::vector<double> exact = attend_double(cache, q, seen);
            for (size_t i = 0; i < want.size(); i++)
                ASSERT_NEAR(want[i], exact[i], 3e-6) << dim << " " << i;
            for (const Kernels* level : all_levels()) {
                ASSERT_EQ(first_difference(attend(*level, cache, q, seen), want), "")
                    << level->name << " dim " << dim << " " << seen.begin << ".." << seen.end;
            }
        }
    }
}

TEST(Attention, UnseenSlotsMayHoldAnything) {
    Random random(12);
    for (const Kernels* level : all_levels()) {
        for (const Seen seen : kSeen) {
            Cache cache(*level, 64, 1100, random);
            const std::vector<float> q = random_floats(size_t(seen.group) * 64, 4.0f, random);
            const std::vector<float> want = attend(*level, cache, q, seen);
            for (int t = 0; t < 1100; t++) {
                if (t < seen.begin || t >= seen.end) cache.poison(t);
            }
            ASSERT_EQ(first_difference(attend(*level, cache, q, seen), want), "")
                << level->name << " " << seen.begin << ".." << seen.end;
        }
    }
}

// Rows that follow each other share reads, not sums. Whatever they do not see may hold anything.
TEST(Attention, RowsDoNotKnowTheirNeighbours) {
    Random random(17);
    for (const Kernels* level : all_levels()) {
        for (const int dim : {16, 80}) {
            for (const int group : {1, 3, 6}) {
                for (const int64_t position : {0, 61, 124, 509, 600}) {
                    for (const int window : {0, 1, 3, 70, 512}) {
                        const int rows = position % 2 ? kAttentionRows : 3 + window % 2;
                        Cache cache(*level, dim, 700, random);
                        AttentionRows all{.ldq = size_t(group * dim) + 5,
                                          .rows = rows,
                                          .group = group,
                                          .head_dim = dim,
                                          .pages = cache.pages.data(),
                                          .position = position,
                                          .window = window,
                                          .scale = 0.2f,
                                          .softcap = 0,
                                          .ldout = size_t(group * dim) + 3};
                        for (int t = 0; t < 700; t++) {
                            if (t < all.begin(0) || t >= all.end(rows - 1)) cache.poison(t);
                        }
                        const auto q = random_floats(all.ldq * size_t(rows), 3.0f, random);
                        std::vector<float> together(all.ldout * size_t(rows)), one = together;
                        const Lines scratch(attention_scratch(group, dim));
                        all.q = q.data();
                        all.out = together.data();
                        level->attention(all, scratch.get());
                        for (int r = 0; r < rows; r++) {
                            AttentionRows alone = all;
                            alone.q += size_t(r) * all.ldq;
                            alone.out = one.data() + size_t(r) * all.ldout;
                            alone.rows = 1;
                            alone.position += r;
                            level->attention(alone, scratch.get());
                        }
                        // In parts, as if chunks were given to several threads.
                        std::vector<float> merged(together.size());
                        all.out = merged.data();
                        const int64_t chunk = all.begin(0) / kChunkTokens;
                        const auto parts = int((all.end(rows - 1) - 1) / kChunkTokens - chunk) + 1;
                        const size_t size = attention_part_floats(rows, group, dim);
                        std::vector<float> memory(size * size_t(parts), NAN);
                        for (int i = parts - 1; i >= 0; i--) {
                            level->attention_chunk(all, chunk + i, &memory[size_t(i) * size],
                                                   scratch.get());
                        }
                        level->attention_merge(all, memory.data(), parts, scratch.get());
                        ASSERT_EQ(first_difference(together, merged), "") << position;
                        ASSERT_EQ(first_difference(together, one), "")
                            << level->name << " dim " << dim << " group " << group << " position "
                            << position << " window " << window << " rows " << rows;
                    }
                }
            }
        }
    }
}

TEST(Attention, HeadsDoNotKnowTheirGroup) {
    Random random(13);
    constexpr int kDim = 64, kGroup = 8;
    const Cache cache(*find_kernels(""), kDim, 600, random);
    const std::vector<float> q = random_floats(kGroup * kDim, 4.0f, random);
    for (const Kernels* level : all_levels()) {
        const std::vector<float> together = attend(*level, cache, q, {kGroup, 10, 600, 0});
        for (int g = 0; g < kGroup; g++) {
            const std::vector<float> one(q.begin() + g * kDim, q.begin() + (g + 1) * kDim);
            const std::vector<float> want(together.begin() + g * kDim,
                                          together.begin() + (g + 1) * kDim);
            ASSERT_EQ(first_difference(attend(*level, cache, one, {1, 10, 600, 0}), want), "") << g;
        }
    }
}

TEST(Attention, LargeScoresStayFinite) {
    Random random(14);
    constexpr int kDim = 32;
    const Cache cache(*find_kernels(""), kDim, 300, random);
    for (const float size : {1e3f, 1e6f, 1e30f}) {
        const std::vector<float> q = random_floats(2 * kDim, size, random);
        const std::vector<float> want = attend(*find_kernels("scalar"), cache, q, {2, 0, 300, 0});
        for (const float v : want)
            ASSERT_LE(std::fabs(v), 1.0f);
        for (const Kernels* level : all_levels()) {
            ASSERT_EQ(first_difference(attend(*level, cache, q, {2, 0, 300, 0}), want), "");
        }
    }
}

TEST(Attention, NotANumberComesThrough) {
    Random random(15);
    constexpr int kDim = 16;
    for (const Kernels* level : all_levels()) {
        Cache cache(*level, kDim, 100, random);
        std::vector<float> q = random_floats(2 * kDim, 1.0f, random);
        q[kDim + 3] = NAN;
        const std::vector<float> out = attend(*level, cache, q, {2, 0, 100, 0});
        for (size_t i = 0; i < out.size(); i++)
            ASSERT_EQ(std::isnan(out[i]), i >= kDim) << level->name;
        q[kDim + 3] = 0;
        cache.poison(50);
        for (const float v : attend(*level, cache, q, {2, 0, 100, 0}))
            ASSERT_TRUE(std::isnan(v));
    }
}

TEST(Attention, StoredHalvesAreTheNearest) {
    Random random(16);
    constexpr int kDim = 48;
    std::vector<float> k = random_floats(kDim, 1.0f, random),
                       v = random_floats(kDim, 100.0f, random);
    const float edges[] = {0.0f,     -0.0f,   65504.0f, 65519.9f, 65520.0f, -1e10f,
                           INFINITY, 6e-8f,   2.9e-8f,  3e-8f,    1e-45f,   6.1e-5f,
                           6.09e-5f, 2049.0f, 2051.0f,  -4.1e-6f};
    std::copy(std::begin(edges), std::end(edges), v.begin());
    for (const Kernels* level : all_levels()) {
        for (const int slot : {0, 15, 16, 63}) {
            std::vector<uint16_t> page(page_halves(kDim), 0x1234);
            level->kv_store(k.data(), v.data(), kDim, slot, page.data());
            size_t changed = 0;
            for (const uint16_t h : page)
                changed += h != 0x1234 ? 1 : 0;
            EXPECT_LE(changed, 2u * kDim);
            for (size_t i = 0; i < kDim; i++) {
                const size_t tile = size_t(slot) / 16, lane = size_t(slot) % 16;
                ASSERT_EQ(page[(tile * kDim + i) * 16 + lane], float_to_half(k[i])) << level->name;
                ASSERT_EQ(page[(64 + size_t(slot)) * kDim + i], float_to_half(v[i]))
                    << level->name << " " << v[i];
            }
        }
    }
}

}  // namespace
}  // namespace nib::cpu::test
