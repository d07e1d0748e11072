// SPDX-License-Identifier: MIT
// How each quantized type is read from its panels: one struct per type with the same members.
//   kBytes      bytes of a panel per 32 k (what is fetched ahead)
//   kBiasShift  stored byte = q + (1 << kBiasShift); negative: the byte is q
//   kHasMin     a second float step adds m_row * s_token
//   kScale16    integer scales per 16 k: two integer sums
//   kWide       bytes above 127 occur (dot4_wide)
//   kRun        so many vectors' products can be added in 16 bits: kRun * 2 * largest byte * 127 <
//   32768 unpack      one block of 32 k
#pragma once
#include "backends/cpu/panels.h"

namespace nib::cpu {
namespace {

// One block of 32 k of a panel, ready for dot4.
struct Block {
    VecU8 v[8];     // vector i: q + bias of k = 4i .. 4i+3
    VecF d, m;      // m only if kHasMin
    VecI scale[2];  // only if kScale16
};

NIB_INLINE VecF load_halves(const uint8_t* p) {
    return load_half(reinterpret_cast<const uint16_t*>(p));
}

NIB_INLINE void unpack_nibbles(const uint8_t* p, Block& w) {
    NIB_UNROLL for (int i = 0; i < 4; i++) {
        const VecU8 both = load_bytes(p + 64 * i);
        w.v[i] = and_bytes(both, 15);
        w.v[i + 4] = and_bytes(shift_pairs<-4>(both), 15);
    }
}
NIB_INLINE void unpack_fifth_bits(const uint8_t* p, Block& w) {
    const VecU8 bits = load_bytes(p);
    w.v[0] = or_masked(w.v[0], shift_pairs<4>(bits), 16);
    w.v[1] = or_masked(w.v[1], shift_pairs<3>(bits), 16);
    w.v[2] = or_masked(w.v[2], shift_pairs<2>(bits), 16);
    w.v[3] = or_masked(w.v[3], shift_pairs<1>(bits), 16);
    w.v[4] = or_masked(w.v[4], bits, 16);
    w.v[5] = or_masked(w.v[5], shift_pairs<-1>(bits), 16);
    w.v[6] = or_masked(w.v[6], shift_pairs<-2>(bits), 16);
    w.v[7] = or_masked(w.v[7], shift_pairs<-3>(bits), 16);
}

struct FormatQ8_0 {
    static constexpr int kBytes = kQ8Record / 2, kBiasShift = 7, kRun = 1;
    static constexpr bool kHasMin = false, kScale16 = false, kWide = true;
    static NIB_INLINE void unpack(const uint8_t* panel, int, int b, Block& w) {
        const uint8_t* record = panel + (b >> 1) * kQ8Record;
        w.d = load_halves(record + (b & 1) * 32);
        const uint8_t* block = record + 64 + (b & 1) * 8 * kVector;
        NIB_UNROLL for (int i = 0; i < 8; i++) w.v[i] = load_bytes(block + 64 * i);
    }
};
struct FormatQ4_0 {
    static constexpr int kBytes = kQ40Record / 2, kBiasShift = 3, kRun = 8;
    static constexpr bool kHasMin = false, kScale16 = false, kWide = false;
    static NIB_INLINE void unpack(const uint8_t* panel, int, int b, Block& w) {
        const uint8_t* record = panel + (b >> 1) * kQ40Record;
        w.d = load_halves(record + (b & 1) * 32);
        unpack_nibbles(record + 64 + (b & 1) * kNibbles, w);
    }
};
struct FormatQ5_0 {
    static constexpr int kBytes = kQ50Record / 2, kBiasShift = 4, kRun = 4;
    static constexpr bool kHasMin = false, kScale16 = false, kWide = false;
    static NIB_INLINE void unpack(const uint8_t* panel, int, int b, Block& w) {
        const uint8_t* record = panel + (b >> 1) * kQ50Record;
        w.d = load_halves(record + (b & 1) * 32);
        const uint8_t* block = record + 64 + (b & 1) * kNibblesBit;
        unpack_nibbles(block, w);
        unpack_fifth_bits(block + kNibbles, w);
    }
};
struct FormatQ4_1 {
    static constexpr int kBytes = kQ41Block, kBiasShift = -1, kRun = 8;
    static constexpr bool kHasMin = true, kScale16 = false, kWide = false;
    static NIB_INLINE void unpack(const uint8_t* panel, int, int b, Block& w) {
        const uint8_t* block = panel + b * kQ41Block;
        w.d = load_halves(block);
        w.m = load_halves(block + 32);
        unpack_nibbles(block + 64, w);
    }
};
struct FormatQ5_1 {
    static constexpr int kBytes = kQ51Block, kBiasShift = -1, kRun = 4;
    static constexpr bool kHasMin = true, kScale16 = false, kWide = false;
    static NIB_INLINE void unpack(const uint8_t* panel, int, int b, Block& w) {
        const uint8_t* block = panel + b * kQ51Block;
        w.d = load_halves(block);
        w.m = load_halves(block + 32);
        unpack_nibbles(block + 64, w);
        unpack_fifth_bits(block + 64 + kNibbles, w);
    }
};
// d = d * scale and m = -(dmin * min) of sub-block s; both products are exact.
NIB_INLINE void unpack_scales(const uint8_t* record, int s, Block& w) {
    const VecI low = load_u8(record + kScalesLow + s * 16);
    const VecI high = shr_i32_by(load_u8(record + kScalesHigh + s / 2 * 16), 4 * (s & 1));
    const VecI low_mask = set1_i32(15), high_mask = set1_i32(0x30);
    const VecI scale = or_i32(and_i32(low, low_mask), and_i32(shl_i32<4>(high), high_mask));
    const VecI min = or_i32(shr_i32<4>(low), and_i32(shl_i32<2>(high), high_mask));
    w.d = mul(load_halves(record), to_float(scale));
    w.m = mul(load_halves(record + 32), to_float(sub_i32(zero_i32(), min)));
}
struct FormatQ4_K {
    static constexpr int kBytes = kQ4KRecord / 8, kBiasShift = -1, kRun = 8;
    static constexpr bool kHasMin = true, kScale16 = false, kWide = false;
    static NIB_INLINE void unpack(const uint8_t* panel, int, int b, Block& w) {
        const uint8_t* record = panel + (b >> 3) * kQ4KRecord;
        unpack_scales(record, b & 7, w);
        unpack_nibbles(record + kScalesEnd + (b & 7) * kNibbles, w);
    }
};
struct FormatQ5_K {
    static constexpr int kBytes = kQ5KRecord / 8, kBiasShift = -1, kRun = 4;
    static constexpr bool kHasMin = true, kScale16 = false, kWide = false;
    static NIB_INLINE void unpack(const uint8_t* panel, int, int b, Block& w) {
        const uint8_t* record = panel + (b >> 3) * kQ5KRecord;
        unpack_scales(record, b & 7, w);
        const uint8_t* block = record + kScalesEnd + (b & 7) * kNibblesBit;
        unpack_nibbles(block, w);
        unpack_fifth_bits(block + kNibbles, w);
    }
};
struct FormatQ6_K {
    static constexpr int kBytes = kQ6Record / 8, kBiasShift = 5, kRun = 2;
    static constexpr bool kHasMin = false, kScale16 = true, kWide = false;
    static NIB_INLINE void unpack(const uint8_t* panel, int k, int b, Block& w) {
        const size_t head = (size_t(k / 256) * 32 + 63) & ~size_t(63);
        const uint8_t* record = panel + head + (b >> 3) * kQ6Record;
        const int s = b & 7;
        w.d = load_halves(panel + (b >> 3) * 32);
        for (int h = 0; h < 2; h++) {
            w.scale[h] = load_i8(reinterpret_cast<const int8_t*>(record) + s * 32 + h * 16);
        }
        const uint8_t* block = record + kScalesEnd + s * kQ6Block;
        unpack_nibbles(block, w);
        NIB_UNROLL for (int h = 0; h < 2; h++) {
            const VecU8 bits = load_bytes(block + kNibbles + h * kVector);
            w.v[4 * h] = or_masked(w.v[4 * h], shift_pairs<4>(bits), 0x30);
            w.v[4 * h + 1] = or_masked(w.v[4 * h + 1], shift_pairs<2>(bits), 0x30);
            w.v[4 * h + 2] = or_masked(w.v[4 * h + 2], bits, 0x30);
            w.v[4 * h + 3] = or_masked(w.v[4 * h + 3], shift_pairs<-2>(bits), 0x30);
        }
    }
};

}  // namespace
}  // namespace nib::cpu
