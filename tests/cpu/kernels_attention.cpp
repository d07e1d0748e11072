// SPDX-License-Identifier: MIT
// Attention over pages: the same bits at all levels and for any content of slots that are not seen,
// close to double precision, and independent of the heads it is grouped with; for every type of
// keys and values.
#include "tests/cpu/kernels_support.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ostream>

#include <gtest/gtest.h>

namespace nib::cpu::test {
namespace {

struct Kind {
    bool k_bytes, v_bytes;
};
constexpr Kind kKinds[] = {{false, false}, {true, false}, {false, true}, {true, true}};

std::ostream& operator<<(std::ostream& out, const Kind& kind) {
    return out << (kind.k_bytes ? "k q8_0 " : "k f16 ") << (kind.v_bytes ? "v q8_0" : "v f16");
}

// What a page gives back of the values of a head.
void add_rounded(const std::vector<float>& x, bool bytes, std::vector<float>& out) {
    if (!bytes) {
        for (const float v : x)
            out.push_back(half_to_float(float_to_half(v)));
        return;
    }
    for (size_t i = 0; i < x.size(); i += 32) {
        float values[32] = {};
        uint8_t block[34];
        std::copy(x.begin() + long(i), x.begin() + long(std::min(i + 32, x.size())), values);
        info(Type::Q8_0).encode(values, block, 32);
        info(Type::Q8_0).decode(block, values, 32);
        out.insert(out.end(), values, values + std::min<size_t>(32, x.size() - i));
    }
}

// Keys and values of one KV head, in pages and plainly (as the pages hold them).
struct Cache {
    Cache(const Kernels& level, int dim, int length, Random& random, Kind kind = {})
        : shape(page_shape(dim, kind.k_bytes, kind.v_bytes)), memory(0) {
        const size_t n_pages = size_t(length + kPageTokens - 1) / kPageTokens;
        memory = Lines(n_pages * shape.bytes);
        // Slots that are never written are NaN halves and wild bytes.
        std::memset(memory.get(), 0x7e, n_pages * shape.bytes);
        for (size_t p = 0; p < n_pages; p++)
            pages.push_back(memory.get() + p * shape.bytes);
        for (int t = 0; t < length; t++) {
            const std::vector<float> k = random_floats(size_t(dim), 1.0f, random);
            const std::vector<float> v = random_floats(size_t(dim), 1.0f, random);
            level.kv_store(k.data(), v.data(), shape, t % kPageTokens, page(t));
            add_rounded(k, kind.k_bytes, keys);
            add_rounded(v, kind.v_bytes, values);
        }
    }
    uint8_t* page(int token) { return memory.get() + size_t(token / kPageTokens) * shape.bytes; }
    void put_half(int token, size_t at, uint16_t half) {
        std::memcpy(page(token) + at, &half, sizeof(half));
    }
    // Whatever a token's place may hold: NaN and infinite halves, any bytes with scales like that.
    void poison(int token) {
        const size_t slot = size_t(token % kPageTokens), dim = size_t(shape.head_dim);
        for (size_t i = 0; i < dim; i++) {
            const size_t k = slot / 16 * dim * 16;
            if (shape.k_bytes) {
                page(token)[k + i / 4 * 64 + slot % 16 * 4 + i % 4] = uint8_t(i * 37);
            } else {
                put_half(token, 2 * (k + i * 16 + slot % 16), i % 2 == 0 ? 0x7e00 : 0x7c00);
            }
            if (shape.v_bytes) {
                page(token)[shape.v + slot * dim + i] = uint8_t(i * 37);
            } else {
                put_half(token, shape.v + 2 * (slot * dim + i), 0xfe00);
            }
        }
        for (size_t b = 0; b < (dim + 31) / 32; b++) {
            const size_t at = 2 * (b * kPageTokens + slot);
            if (shape.k_bytes) put_half(token, shape.k_scales + at, b % 2 == 0 ? 0x7e00 : 0x7c00);
            if (shape.v_bytes) put_half(token, shape.v_scales + at, 0xfe00);
        }
    }
    PageShape shape;
    Lines memory;
    std::vector<const uint8_t*> pages;
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
    const int dim = cache.shape.head_dim;
    std::vector<float> out(size_t(seen.group * dim), 9.0f);
    const Lines scratch(attention_scratch(seen.group, dim));
    std::memset(scratch.get(), 0xff, attention_scratch(seen.group, dim));
    std::vector<const uint8_t*> pages = cache.pages;
    for (int64_t p = 0; p < seen.begin / kPageTokens; p++)
        pages[size_t(p)] = nullptr;
    level.attention({.row = {{q.data(), out.data(), pages.data(), seen.end - 1}},
                     .rows = 1,
                     .group = seen.group,
                     .shape = cache.shape,
                     .window = static_cast<int>(seen.end - seen.begin),
                     .scale = 1.0f / std::sqrt(static_cast<float>(dim)),
                     .softcap = seen.softcap},
                    scratch.get());
    return out;
}

// Keys of bytes meet int8 queries, so those are what is exact.
std::vector<float> query_for(const Cache& cache, const std::vector<float>& q) {
    if (!cache.shape.k_bytes) return q;
    const auto dim = size_t(cache.shape.head_dim);
    std::vector<float> out;
    for (size_t at = 0; at < q.size(); at += dim) {
        const PlainToken plain =
            plain_token(&q[at], int(dim), round_up(cache.shape.head_dim, kBlock));
        for (size_t i = 0; i < dim; i++)
            out.push_back(plain.d[i / 32] * static_cast<float>(plain.q[i]));
    }
    return out;
}

std::vector<double> attend_double(const Cache& cache, const std::vector<float>& given, Seen seen) {
    const size_t dim = size_t(cache.shape.head_dim);
    const std::vector<float> q = query_for(cache, given);
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

class AttentionKinds : public testing::TestWithParam<Kind> {};

TEST_P(AttentionKinds, LevelsAreEqualAndClose) {
    Random random(11);
    for (const int dim : {16, 48, 64, 128, 256}) {
        const Cache cache(*find_kernels("scalar"), dim, 1100, random, GetParam());
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

TEST_P(AttentionKinds, UnseenSlotsMayHoldAnything) {
    Random random(12);
    for (const Kernels* level : all_levels()) {
        for (const Seen seen : kSeen) {
            Cache cache(*level, 48, 1100, random, GetParam());
            const std::vector<float> q = random_floats(size_t(seen.group) * 48, 4.0f, random);
            const std::vector<float> want = attend(*level, cache, q, seen);
            for (int t = 0; t < 1100; t++) {
                if (t < seen.begin || t >= seen.end) cache.poison(t);
            }
            ASSERT_EQ(first_difference(attend(*level, cache, q, seen), want), "")
                << level->name << " " << seen.begin << ".." << seen.end;
        }
    }
}

// Rows share reads, not sums: each gives what it gives alone, and in parts, as if the chunks were
// given to several threads. rows: without q and out.
void expect_rows_as_alone(const Kernels& level, AttentionRows rows, Random& random) {
    const size_t width = size_t(rows.group) * size_t(rows.shape.head_dim), n = size_t(rows.rows);
    const auto q = random_floats(width * n, 3.0f, random);
    std::vector<float> together(width * n), alone = together, merged = together;
    const Lines scratch(attention_scratch(rows.group, rows.shape.head_dim));
    const auto write_to = [&](std::vector<float>& out) {
        for (size_t r = 0; r < n; r++) {
            rows.row[r].q = q.data() + r * width;
            rows.row[r].out = out.data() + r * width;
        }
    };
    write_to(alone);
    for (size_t r = 0; r < n; r++) {
        AttentionRows one = rows;
        one.row[0] = rows.row[r];
        one.rows = 1;
        level.attention(one, scratch.get());
    }
    write_to(together);
    level.attention(rows, scratch.get());
    ASSERT_EQ(first_difference(together, alone), "");

    write_to(merged);
    const int64_t chunk = rows.first() / kChunkTokens;
    const auto parts = int((rows.last() - 1) / kChunkTokens - chunk) + 1;
    const size_t size = attention_part_floats(rows.rows, rows.group, rows.shape.head_dim);
    std::vector<float> memory(size * size_t(parts), NAN);
    for (int i = parts - 1; i >= 0; i--)
        level.attention_chunk(rows, chunk + i, &memory[size_t(i) * size], scratch.get());
    level.attention_merge(rows, memory.data(), parts, scratch.get());
    ASSERT_EQ(first_difference(merged, alone), "");
}

// Whatever the rows do not see may hold anything.
TEST_P(AttentionKinds, RowsDoNotKnowTheirNeighbours) {
    Random random(17);
    for (const Kernels* level : all_levels()) {
        for (const int dim : {16, 80}) {
            for (const int group : {1, 3, 6}) {
                for (const int64_t position : {0, 61, 124, 509, 600}) {
                    for (const int window : {0, 1, 3, 70, 512}) {
                        SCOPED_TRACE(testing::Message()
                                     << level->name << " dim " << dim << " group " << group
                                     << " position " << position << " window " << window);
                        Cache cache(*level, dim, 700, random, GetParam());
                        AttentionRows all{.row = {},
                                          .rows = position % 2 ? kAttentionRows : 3 + window % 2,
                                          .group = group,
                                          .shape = cache.shape,
                                          .window = window,
                                          .scale = 0.2f,
                                          .softcap = 0};
                        for (int r = 0; r < all.rows; r++)
                            all.row[r] = {nullptr, nullptr, cache.pages.data(), position + r};
                        for (int t = 0; t < 700; t++) {
                            if (t < all.first() || t >= all.last()) cache.poison(t);
                        }
                        expect_rows_as_alone(*level, all, random);
                        if (HasFatalFailure()) return;
                    }
                }
            }
        }
    }
}

// Sequences that continue one prefix, each with pages of its own behind it, of any length.
TEST_P(AttentionKinds, SequencesMaySharePages) {
    Random random(18);
    struct Row {
        int64_t position;
        int shared;  // pages
    };
    const std::vector<std::vector<Row>> sets = {
        {{640, 10}, {650, 10}, {700, 10}, {641, 10}}, {{70, 1}, {640, 10}, {641, 10}, {3, 0}},
        {{512, 8}, {511, 8}, {64, 1}, {65, 1}},       {{700, 4}, {701, 0}, {702, 4}, {703, 4}},
        {{127, 2}, {600, 2}},                         {{639, 9}, {640, 9}, {641, 9}}};
    for (const Kernels* level : all_levels()) {
        for (const int group : {1, 2, 3, 4, 7}) {
            Cache common(*level, 48, 704, random, GetParam());
            std::vector<Cache> own;
            for (int i = 0; i < kAttentionRows; i++)
                own.emplace_back(*level, 48, 704, random, GetParam());
            for (const auto& set : sets) {
                for (const int window : {0, 100, 600}) {
                    SCOPED_TRACE(testing::Message() << level->name << " group " << group << " set "
                                                    << &set - sets.data() << " window " << window);
                    std::vector<std::vector<const uint8_t*>> pages;
                    AttentionRows all{.row = {},
                                      .rows = int(set.size()),
                                      .group = group,
                                      .shape = common.shape,
                                      .window = window,
                                      .scale = 0.2f,
                                      .softcap = 0};
                    for (size_t r = 0; r < set.size(); r++) {
                        pages.push_back(own[r].pages);
                        std::copy_n(common.pages.begin(), set[r].shared, pages[r].begin());
                        all.row[r] = {nullptr, nullptr, pages[r].data(), set[r].position};
                        const auto place = int(r);
                        for (int64_t p = 0; p < all.begin(place) / kPageTokens; p++)
                            pages[r][size_t(p)] = nullptr;
                        pages[r].resize(size_t((all.end(place) - 1) / kPageTokens + 1));
                    }
                    expect_rows_as_alone(*level, all, random);
                    if (HasFatalFailure()) return;
                }
            }
        }
    }
}

TEST_P(AttentionKinds, HeadsDoNotKnowTheirGroup) {
    Random random(13);
    constexpr int kDim = 64, kGroup = 8;
    const Cache cache(*find_kernels(""), kDim, 600, random, GetParam());
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

TEST_P(AttentionKinds, LargeScoresStayFinite) {
    Random random(14);
    constexpr int kDim = 32;
    const Cache cache(*find_kernels(""), kDim, 300, random, GetParam());
    for (const float size : {1e3f, 1e6f, 1e30f}) {
        const std::vector<float> q = random_floats(2 * kDim, size, random);
        const std::vector<float> want = attend(*find_kernels("scalar"), cache, q, {2, 0, 300, 0});
        for (const float v : want)
            ASSERT_LE(std::fabs(v), 1.001f);  // a scale may have been rounded up
        for (const Kernels* level : all_levels()) {
            ASSERT_EQ(first_difference(attend(*level, cache, q, {2, 0, 300, 0}), want), "");
        }
    }
}

TEST_P(AttentionKinds, NotANumberComesThrough) {
    Random random(15);
    constexpr int kDim = 16;
    for (const Kernels* level : all_levels()) {
        Cache cache(*level, kDim, 100, random, GetParam());
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
            const PageShape shape = page_shape(kDim, false, false);
            std::vector<uint16_t> page(shape.bytes / 2, 0x1234);
            level->kv_store(k.data(), v.data(), shape, slot,
                            reinterpret_cast<uint8_t*>(page.data()));
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

// The block that the encoder of Q8_0 writes for these values, at most 32.
std::vector<uint8_t> q8_0_block(const std::vector<float>& x, size_t first) {
    float values[32] = {};
    std::copy(x.begin() + long(first), x.begin() + long(std::min(first + 32, x.size())), values);
    std::vector<uint8_t> block(34);
    info(Type::Q8_0).encode(values, block.data(), 32);
    return block;
}

TEST(Attention, StoredBytesAreThoseOfQ8_0) {
    Random random(18);
    constexpr size_t kDim = 112;
    std::vector<float> k = random_floats(kDim, 1.0f, random), v = random_floats(kDim, 9.0f, random);
    // Exact halves between two bytes, zeros, values below what a half scale can hold, very large
    // ones; the last block has 16 values.
    for (size_t i = 0; i < 32; i++)
        k[i] = i == 0 ? 127.0f : static_cast<float>(int(i) - 16) + 0.5f;
    for (size_t i = 32; i < 64; i++)
        k[i] = i == 40 ? -0.0f : 0.0f, v[i] = static_cast<float>(i) * 1e-9f;
    for (size_t i = 64; i < 96; i++)
        k[i] *= 1e-42f, v[i] *= 1e5f;
    const PageShape shape = page_shape(kDim, true, true);
    for (const Kernels* level : all_levels()) {
        for (const size_t slot : {0u, 15u, 16u, 63u}) {
            std::vector<uint8_t> page(shape.bytes, 0x5a);
            level->kv_store(k.data(), v.data(), shape, int(slot), page.data());
            for (size_t i = 0; i < kDim; i++) {
                const auto want_k = q8_0_block(k, i / 32 * 32), want_v = q8_0_block(v, i / 32 * 32);
                const size_t tile = slot / 16 * kDim * 16, lane = slot % 16 * 4;
                ASSERT_EQ(page[tile + i / 4 * 64 + lane + i % 4], want_k[2 + i % 32] ^ 0x80)
                    << level->name << " " << i;
                ASSERT_EQ(page[shape.v + slot * kDim + i], want_v[2 + i % 32]) << level->name;
                const size_t scale = 2 * (i / 32 * kPageTokens + slot);
                ASSERT_EQ(std::memcmp(&page[shape.k_scales + scale], want_k.data(), 2), 0);
                ASSERT_EQ(std::memcmp(&page[shape.v_scales + scale], want_v.data(), 2), 0);
            }
            const auto untouched = std::count(page.begin(), page.end(), 0x5a);
            EXPECT_GE(untouched, long(shape.bytes - 2 * kDim - 16)) << level->name;
        }
    }
}

TEST_P(AttentionKinds, StoredFaultsAreSeen) {
    Random random(19);
    for (const Kernels* level : all_levels()) {
        for (const float fault : {NAN, INFINITY, -INFINITY}) {
            for (const bool in_k : {true, false}) {
                Cache cache(*level, 48, 20, random, GetParam());
                std::vector<float> good = random_floats(48, 1.0f, random), bad = good;
                bad[33] = fault;
                level->kv_store((in_k ? bad : good).data(), (in_k ? good : bad).data(), cache.shape,
                                7, cache.page(7));
                const auto out =
                    attend(*level, cache, random_floats(48, 1.0f, random), {1, 0, 20, 0});
                const bool finite =
                    std::all_of(out.begin(), out.end(), [](float x) { return std::isfinite(x); });
                // A key of minus infinity may only take a position out.
                if (!in_k || GetParam().k_bytes) {
                    ASSERT_FALSE(finite) << level->name << fault;
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionKinds, testing::ValuesIn(kKinds), [](const auto& i) {
    return std::string(i.param.k_bytes ? "KQ8" : "KF16") + (i.param.v_bytes ? "VQ8" : "VF16");
});

}  // namespace
}  // namespace nib::cpu::test
