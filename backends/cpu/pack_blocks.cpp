// SPDX-License-Identifier: MIT
// Panels are a transpose of 32-bit words: word i of a row becomes lane `lane` of vector i. Nibbles
// stay as they are in the types of 32; the K types are regrouped so that all types share the same
// vectors (see panels.h).
#include "backends/cpu/pack_blocks.h"

#include "backends/cpu/panels.h"

#include <cstring>

namespace nib::cpu {

namespace {

constexpr uint32_t kLow4 = 0x0f0f0f0f, kHigh4 = 0xf0f0f0f0, kLow2 = 0x03030303, kBit0 = 0x01010101;

uint32_t word(const uint8_t* p, int i) {
    uint32_t w;
    std::memcpy(&w, p + 4 * i, 4);
    return w;
}
void put_word(uint8_t* p, int i, uint32_t w) {
    std::memcpy(p + 4 * i, &w, 4);
}
uint32_t lane_word(const uint8_t* vectors, int i, int lane) {
    return word(vectors + i * 64, lane);
}
void put_lane(uint8_t* vectors, int i, int lane, uint32_t w) {
    put_word(vectors + i * 64, lane, w);
}
void copy_half(uint8_t* dst, const uint8_t* src) {
    std::memcpy(dst, src, 2);
}

// Bits whose index has bit b set and bit a clear.
constexpr uint32_t index_mask(int a, int b) {
    uint32_t mask = 0;
    for (int i = 0; i < 32; i++) {
        if ((i >> b & 1) != 0 && (i >> a & 1) == 0) mask |= 1u << i;
    }
    return mask;
}
// Exchanges the bits whose index has bit a set and bit b clear with those where it is the other
// way.
template <int a, int b>
uint32_t swap_index_bits(uint32_t x) {
    static_assert(a > b);
    constexpr int kShift = (1 << a) - (1 << b);
    constexpr uint32_t kMask = index_mask(a, b);
    const uint32_t moved = ((x >> kShift) ^ x) & kMask;
    return x ^ moved ^ (moved << kShift);
}
// Bit 4i + j (the fifth bit of k = 4i + j in the file) to bit i of byte j, and back.
uint32_t spread_bits(uint32_t x) {
    x = swap_index_bits<4, 1>(x);
    x = swap_index_bits<3, 0>(x);
    x = swap_index_bits<2, 1>(x);
    return swap_index_bits<1, 0>(x);
}
uint32_t gather_bits(uint32_t x) {
    x = swap_index_bits<1, 0>(x);
    x = swap_index_bits<2, 1>(x);
    x = swap_index_bits<3, 0>(x);
    return swap_index_bits<4, 1>(x);
}

// Types of 32 with d only: two blocks share a record that starts with both d. kWords vectors of
// words, and the fifth bits if kBits.
template <int kWords, bool kBits, uint32_t kFlip>
struct Pairs {
    static constexpr size_t kPart = size_t(kWords + (kBits ? 1 : 0)) * kVector;
    static constexpr size_t kRecord = 64 + 2 * kPart;
    static constexpr int kWordsAt = kBits ? 6 : 2;

    static void put(const uint8_t* src, int, int block, int lane, uint8_t* panel) {
        uint8_t* record = panel + size_t(block / 2) * kRecord;
        copy_half(record + block % 2 * 32 + lane * 2, src);
        uint8_t* part = record + 64 + size_t(block % 2) * kPart;
        for (int i = 0; i < kWords; i++)
            put_lane(part, i, lane, word(src + kWordsAt, i) ^ kFlip);
        if constexpr (kBits) put_lane(part, kWords, lane, spread_bits(word(src + 2, 0)));
    }
    static void get(const uint8_t* panel, int, int block, int lane, uint8_t* dst) {
        const uint8_t* record = panel + size_t(block / 2) * kRecord;
        copy_half(dst, record + block % 2 * 32 + lane * 2);
        const uint8_t* part = record + 64 + size_t(block % 2) * kPart;
        for (int i = 0; i < kWords; i++)
            put_word(dst + kWordsAt, i, lane_word(part, i, lane) ^ kFlip);
        if constexpr (kBits) put_word(dst + 2, 0, gather_bits(lane_word(part, kWords, lane)));
    }
};
using PairsQ8_0 = Pairs<8, false, 0x80808080>;
using PairsQ4_0 = Pairs<4, false, 0>;
using PairsQ5_0 = Pairs<4, true, 0>;
static_assert(PairsQ8_0::kRecord == kQ8Record && PairsQ4_0::kRecord == kQ40Record &&
              PairsQ5_0::kRecord == kQ50Record);

// Types of 32 with d and m: every block is a part of its own.
template <bool kBits>
struct Singles {
    static constexpr size_t kPart = 64 + (kBits ? kNibblesBit : kNibbles);
    static constexpr int kWordsAt = kBits ? 8 : 4;

    static void put(const uint8_t* src, int, int block, int lane, uint8_t* panel) {
        uint8_t* part = panel + size_t(block) * kPart;
        copy_half(part + lane * 2, src);
        copy_half(part + 32 + lane * 2, src + 2);
        for (int i = 0; i < 4; i++)
            put_lane(part + 64, i, lane, word(src + kWordsAt, i));
        if constexpr (kBits) put_lane(part + 64, 4, lane, spread_bits(word(src + 4, 0)));
    }
    static void get(const uint8_t* panel, int, int block, int lane, uint8_t* dst) {
        const uint8_t* part = panel + size_t(block) * kPart;
        copy_half(dst, part + lane * 2);
        copy_half(dst + 2, part + 32 + lane * 2);
        for (int i = 0; i < 4; i++)
            put_word(dst + kWordsAt, i, lane_word(part + 64, i, lane));
        if constexpr (kBits) put_word(dst + 4, 0, gather_bits(lane_word(part + 64, 4, lane)));
    }
};
static_assert(Singles<false>::kPart == kQ41Block && Singles<true>::kPart == kQ51Block);

// Six-bit scale and minimum of sub-block s of a Q4_K or Q5_K block (12 bytes).
struct ScaleMin {
    int scale, min;
};
ScaleMin read_scale(const uint8_t* p, int s) {
    if (s < 4) return {p[s] & 63, p[s + 4] & 63};
    return {(p[s + 4] & 15) | (p[s - 4] >> 6) << 4, p[s + 4] >> 4 | (p[s] >> 6) << 4};
}
void write_scale(uint8_t* p, int s, ScaleMin v) {  // p starts as zeros
    if (s < 4) {
        p[s] = static_cast<uint8_t>(p[s] | v.scale);
        p[s + 4] = static_cast<uint8_t>(p[s + 4] | v.min);
    } else {
        p[s + 4] = static_cast<uint8_t>((v.scale & 15) | (v.min & 15) << 4);
        p[s - 4] = static_cast<uint8_t>(p[s - 4] | (v.scale >> 4) << 6);
        p[s] = static_cast<uint8_t>(p[s] | (v.min >> 4) << 6);
    }
}
void put_scales(const uint8_t* src, int lane, uint8_t* record) {
    for (int s = 0; s < 8; s++) {
        const ScaleMin v = read_scale(src, s);
        record[kScalesLow + size_t(s * 16 + lane)] =
            static_cast<uint8_t>((v.scale & 15) | (v.min & 15) << 4);
        uint8_t& high = record[kScalesHigh + size_t(s / 2 * 16 + lane)];
        const int bits = (v.scale >> 4 | (v.min >> 4) << 2) << (s % 2 * 4);
        high = static_cast<uint8_t>(s % 2 == 0 ? bits : high | bits);
    }
}
void get_scales(const uint8_t* record, int lane, uint8_t* dst) {
    std::memset(dst, 0, 12);
    for (int s = 0; s < 8; s++) {
        const int low = record[kScalesLow + size_t(s * 16 + lane)];
        const int high = record[kScalesHigh + size_t(s / 2 * 16 + lane)] >> (s % 2 * 4);
        write_scale(dst, s, {(low & 15) | (high & 3) << 4, low >> 4 | (high >> 2 & 3) << 4});
    }
}

// Q4_K and Q5_K. In the file the nibbles of sub-blocks 2c and 2c + 1 share 32 bytes; in the panel
// every sub-block has vectors of its own.
template <bool kBits>
struct SuperBlocks {
    static constexpr size_t kPart = kBits ? kNibblesBit : kNibbles;
    static constexpr size_t kRecord = kScalesEnd + 8 * kPart;
    static constexpr int kNibblesAt = kBits ? 48 : 16;

    static void put(const uint8_t* src, int, int block, int lane, uint8_t* panel) {
        uint8_t* record = panel + size_t(block) * kRecord;
        copy_half(record + lane * 2, src);
        copy_half(record + 32 + lane * 2, src + 2);
        put_scales(src + 4, lane, record);
        for (int s = 0; s < 8; s++) {
            uint8_t* part = record + kScalesEnd + size_t(s) * kPart;
            const uint8_t* nibbles = src + kNibblesAt + s / 2 * 32;
            const int shift = s % 2 * 4;
            for (int i = 0; i < 4; i++) {
                const uint32_t a = word(nibbles, i) >> shift & kLow4;
                const uint32_t b = word(nibbles, i + 4) >> shift & kLow4;
                put_lane(part, i, lane, a | b << 4);
            }
            if constexpr (kBits) {
                uint32_t bits = 0;
                for (int i = 0; i < 8; i++)
                    bits |= (word(src + 16, i) >> s & kBit0) << i;
                put_lane(part, 4, lane, bits);
            }
        }
    }
    static void get(const uint8_t* panel, int, int block, int lane, uint8_t* dst) {
        const uint8_t* record = panel + size_t(block) * kRecord;
        std::memset(dst, 0, size_t(kNibblesAt) + 128);
        copy_half(dst, record + lane * 2);
        copy_half(dst + 2, record + 32 + lane * 2);
        get_scales(record, lane, dst + 4);
        for (int s = 0; s < 8; s++) {
            const uint8_t* part = record + kScalesEnd + size_t(s) * kPart;
            uint8_t* nibbles = dst + kNibblesAt + s / 2 * 32;
            const int shift = s % 2 * 4;
            for (int i = 0; i < 4; i++) {
                const uint32_t w = lane_word(part, i, lane);
                put_word(nibbles, i, word(nibbles, i) | (w & kLow4) << shift);
                put_word(nibbles, i + 4, word(nibbles, i + 4) | (w >> 4 & kLow4) << shift);
            }
            if constexpr (kBits) {
                const uint32_t bits = lane_word(part, 4, lane);
                for (int i = 0; i < 8; i++) {
                    put_word(dst + 16, i, word(dst + 16, i) | (bits >> i & kBit0) << s);
                }
            }
        }
    }
};
static_assert(SuperBlocks<false>::kRecord == kQ4KRecord &&
              SuperBlocks<true>::kRecord == kQ5KRecord);

// Q6_K. In the file sub-block s = 4n + r has its low nibbles at 64n + 32(r & 1), low or high by r
// >> 1, and its two high bits at bits 2r of 32 bytes per n.
struct Q6K {
    static void put(const uint8_t* src, int k, int block, int lane, uint8_t* panel) {
        copy_half(panel + block * 32 + lane * 2, src + 208);
        uint8_t* record = panel + q6_head_bytes(k) + size_t(block) * kQ6Record;
        for (int s = 0; s < 16; s++)
            record[s * 16 + lane] = src[192 + s];
        for (int s = 0; s < 8; s++) {
            const int n = s / 4, r = s % 4, shift = r / 2 * 4;
            const uint8_t *low = src + 64 * n + 32 * (r & 1), *high = src + 128 + 32 * n;
            uint8_t* part = record + kScalesEnd + size_t(s) * kQ6Block;
            uint32_t bits[2] = {0, 0};
            for (int i = 0; i < 4; i++) {
                const uint32_t a = word(low, i) >> shift & kLow4;
                const uint32_t b = word(low, i + 4) >> shift & kLow4;
                put_lane(part, i, lane, a | b << 4);
                for (int h = 0; h < 2; h++) {
                    bits[h] |= (word(high, i + 4 * h) >> 2 * r & kLow2) << 2 * i;
                }
            }
            for (int h = 0; h < 2; h++)
                put_lane(part, 4 + h, lane, bits[h]);
        }
    }
    static void get(const uint8_t* panel, int k, int block, int lane, uint8_t* dst) {
        std::memset(dst, 0, 192);
        copy_half(dst + 208, panel + block * 32 + lane * 2);
        const uint8_t* record = panel + q6_head_bytes(k) + size_t(block) * kQ6Record;
        for (int s = 0; s < 16; s++)
            dst[192 + s] = record[s * 16 + lane];
        for (int s = 0; s < 8; s++) {
            const int n = s / 4, r = s % 4, shift = r / 2 * 4;
            uint8_t *low = dst + 64 * n + 32 * (r & 1), *high = dst + 128 + 32 * n;
            const uint8_t* part = record + kScalesEnd + size_t(s) * kQ6Block;
            for (int i = 0; i < 4; i++) {
                const uint32_t w = lane_word(part, i, lane);
                put_word(low, i, word(low, i) | (w & kLow4) << shift);
                put_word(low, i + 4, word(low, i + 4) | (w & kHigh4) >> 4 << shift);
                for (int h = 0; h < 2; h++) {
                    const uint32_t bits = lane_word(part, 4 + h, lane) >> 2 * i & kLow2;
                    put_word(high, i + 4 * h, word(high, i + 4 * h) | bits << 2 * r);
                }
            }
        }
    }
};

constexpr PanelType kPanelTypes[] = {
    {Type::Q8_0, 64, kQ8Record, false, PairsQ8_0::put, PairsQ8_0::get},
    {Type::Q4_0, 64, kQ40Record, false, PairsQ4_0::put, PairsQ4_0::get},
    {Type::Q5_0, 64, kQ50Record, false, PairsQ5_0::put, PairsQ5_0::get},
    {Type::Q4_1, 64, 2 * kQ41Block, false, Singles<false>::put, Singles<false>::get},
    {Type::Q5_1, 64, 2 * kQ51Block, false, Singles<true>::put, Singles<true>::get},
    {Type::Q4_K, 256, kQ4KRecord, false, SuperBlocks<false>::put, SuperBlocks<false>::get},
    {Type::Q5_K, 256, kQ5KRecord, false, SuperBlocks<true>::put, SuperBlocks<true>::get},
    {Type::Q6_K, 256, kQ6Record, true, Q6K::put, Q6K::get},
};

}  // namespace

const PanelType* find_panel_type(Type type) {
    for (const PanelType& t : kPanelTypes) {
        if (t.type == type) return &t;
    }
    return nullptr;
}

size_t q6_head_bytes(int k) {
    return (size_t(k / 256) * 32 + 63) & ~size_t(63);
}

}  // namespace nib::cpu
