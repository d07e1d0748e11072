// SPDX-License-Identifier: MIT
// What the packers share. A panel is a transpose of 32-bit words, so packing works on Words: the
// same word of four rows. Bits are regrouped in all four at once, and a store puts them side by
// side into a vector of the panel. Reading back goes lane by lane over plain words.
// Only .cpp files of packers include this.
#pragma once
#include "backends/cpu/panels.h"

#include <cstring>

namespace nib::cpu {

inline constexpr uint32_t kLow4 = 0x0f0f0f0f, kHigh4 = 0xf0f0f0f0, kLow2 = 0x03030303,
                          kBit0 = 0x01010101;

using Words = uint32_t __attribute__((vector_size(16)));

// Blocks of four neighbouring rows.
struct FourRows {
    const uint8_t* row[4];
    int lane;  // of the first
};

inline uint32_t word(const uint8_t* p, int i) {
    uint32_t w;
    std::memcpy(&w, p + 4 * i, 4);
    return w;
}
inline void put_word(uint8_t* p, int i, uint32_t w) {
    std::memcpy(p + 4 * i, &w, 4);
}
inline uint32_t lane_word(const uint8_t* vectors, int i, int lane) {
    return word(vectors + i * kVector, lane);
}
inline void copy_half(uint8_t* dst, const uint8_t* src) {
    std::memcpy(dst, src, 2);
}

// Words 0 .. count-1 (count is a multiple of four) that start at byte `at` of each block.
template <int count>
inline void load_words(const FourRows& rows, int at, Words* words) {
    static_assert(count % 4 == 0);
    for (int i = 0; i < count; i += 4) {
        Words w[4];
        for (int r = 0; r < 4; r++)
            std::memcpy(&w[r], rows.row[r] + at + 4 * i, 16);
        const Words a = __builtin_shufflevector(w[0], w[1], 0, 4, 1, 5);
        const Words b = __builtin_shufflevector(w[2], w[3], 0, 4, 1, 5);
        const Words c = __builtin_shufflevector(w[0], w[1], 2, 6, 3, 7);
        const Words d = __builtin_shufflevector(w[2], w[3], 2, 6, 3, 7);
        words[i] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
        words[i + 1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
        words[i + 2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
        words[i + 3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
    }
}
inline Words load_word(const FourRows& rows, int at) {
    return Words{word(rows.row[0] + at, 0), word(rows.row[1] + at, 0), word(rows.row[2] + at, 0),
                 word(rows.row[3] + at, 0)};
}
inline void store_words(uint8_t* vectors, int i, const FourRows& rows, Words w) {
    std::memcpy(vectors + i * kVector + rows.lane * 4, &w, 16);
}
// The halves at byte `at` of each block to a plane of 16 halves, and the bytes to one of 16 bytes.
inline void store_halves(uint8_t* plane, const FourRows& rows, int at) {
    for (int r = 0; r < 4; r++)
        copy_half(plane + (rows.lane + r) * 2, rows.row[r] + at);
}
inline void store_bytes(uint8_t* plane, const FourRows& rows, int at) {
    for (int r = 0; r < 4; r++)
        plane[rows.lane + r] = rows.row[r][at];
}
// Byte j of each word to plane j.
inline void store_byte_planes(uint8_t* planes, const FourRows& rows, Words w) {
    for (int r = 0; r < 4; r++) {
        for (int j = 0; j < 4; j++)
            planes[j * kPanelRows + rows.lane + r] = static_cast<uint8_t>(w[r] >> 8 * j);
    }
}

// Exchanges the bits of x under mask << shift with the bits of y under mask.
template <int shift, uint32_t mask, class W>
inline void exchange(W& x, W& y) {
    const W moved = ((x >> shift) ^ y) & mask;
    y ^= moved;
    x ^= moved << shift;
}
// In every byte column: two-bit field r of word i becomes field i of word r.
template <class W>
inline void transpose_fields(W* w) {
    for (int i = 0; i < 2; i++)
        exchange<4, 0x0f0f0f0f>(w[i], w[i + 2]);
    for (int i = 0; i < 4; i += 2)
        exchange<2, 0x33333333>(w[i], w[i + 1]);
}
// In every byte column: bit s of word i becomes bit i of word s.
template <class W>
inline void transpose_bits(W* w) {
    for (int i = 0; i < 4; i++)
        exchange<4, 0x0f0f0f0f>(w[i], w[i + 4]);
    for (int i = 0; i < 8; i += i % 4 == 1 ? 3 : 1)
        exchange<2, 0x33333333>(w[i], w[i + 2]);
    for (int i = 0; i < 8; i += 2)
        exchange<1, 0x55555555>(w[i], w[i + 1]);
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
template <int a, int b, class W>
inline W swap_index_bits(W x) {
    static_assert(a > b);
    constexpr int kShift = (1 << a) - (1 << b);
    constexpr uint32_t kMask = index_mask(a, b);
    const W moved = ((x >> kShift) ^ x) & kMask;
    return x ^ moved ^ (moved << kShift);
}
// Bit 4i + j (the fifth bit of k = 4i + j in the file) to bit i of byte j, and back.
template <class W>
inline W spread_bits(W x) {
    x = swap_index_bits<4, 1>(x);
    x = swap_index_bits<3, 0>(x);
    x = swap_index_bits<2, 1>(x);
    return swap_index_bits<1, 0>(x);
}
inline uint32_t gather_bits(uint32_t x) {
    x = swap_index_bits<1, 0>(x);
    x = swap_index_bits<2, 1>(x);
    x = swap_index_bits<3, 0>(x);
    return swap_index_bits<4, 1>(x);
}

// Block `block` of all 16 rows, four at a time.
template <class Format>
void put_rows(const uint8_t* const* rows, int k, int block, uint8_t* panel) {
    for (int lane = 0; lane < kPanelRows; lane += 4) {
        const FourRows four = {{rows[lane], rows[lane + 1], rows[lane + 2], rows[lane + 3]}, lane};
        Format::put(four, k, block, panel);
    }
}

}  // namespace nib::cpu
