// SPDX-License-Identifier: MIT
// How each quantized type is read from its panels: one struct per type with the same members.
//   kBytes      bytes of a panel per 32 k (what is fetched ahead)
//   kBiasShift  stored byte = q + (1 << kBiasShift); negative: the byte is q
//   kMin        Per32: a second float step adds m_row * s_token;
//               Per16: integer minimums per 16 k, which join the scaled sum before d_token
//   kScale      Per16: integer scales per 16 k and two integer sums; Per16Small: both sums fit in
//               16 bits
//   kWide       bytes above 127 occur (dot_tokens_wide)
//   kRun        so many vectors' products can be added in 16 bits: kRun * 2 * largest byte * 127
//               is below 32768
//   unpack      one block of 32 k
#pragma once
#include "backends/cpu/panels.h"

namespace nib::cpu {
namespace {

// One block of 32 k of a panel, ready for dot4.
struct Block {
    VecU8 v[8];     // vector i: q + bias of k = 4i .. 4i+3
    VecF d, m;      // m only if there is a minimum
    VecI scale[2];  // only if kScale is per 16
    VecI min[2];    // only if kMin is per 16
};
enum class Min { None, Per32, Per16 };
enum class Scale { Float, Per16, Per16Small };

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
    static constexpr bool kWide = true;
    static constexpr Min kMin = Min::None;
    static constexpr Scale kScale = Scale::Float;
    static NIB_INLINE void unpack(const uint8_t* panel, int, int b, Block& w) {
        const uint8_t* record = panel + (b >> 1) * kQ8Record;
        w.d = load_halves(record + (b & 1) * 32);
        const uint8_t* block = record + 64 + (b & 1) * 8 * kVector;
        NIB_UNROLL for (int i = 0; i < 8; i++) w.v[i] = load_bytes(block + 64 * i);
    }
};
struct FormatQ4_0 {
    static constexpr int kBytes = kQ40Record / 2, kBiasShift = 3, kRun = 8;
    static constexpr bool kWide = false;
    static constexpr Min kMin = Min::None;
    static constexpr Scale kScale = Scale::Float;
    static NIB_INLINE void unpack(const uint8_t* panel, int, int b, Block& w) {
        const uint8_t* record = panel + (b >> 1) * kQ40Record;
        w.d = load_halves(record + (b & 1) * 32);
        unpack_nibbles(record + 64 + (b & 1) * kNibbles, w);
    }
};
struct FormatQ5_0 {
    static constexpr int kBytes = kQ50Record / 2, kBiasShift = 4, kRun = 4;
    static constexpr bool kWide = false;
    static constexpr Min kMin = Min::None;
    static constexpr Scale kScale = Scale::Float;
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
    static constexpr bool kWide = false;
    static constexpr Min kMin = Min::Per32;
    static constexpr Scale kScale = Scale::Float;
    static NIB_INLINE void unpack(const uint8_t* panel, int, int b, Block& w) {
        const uint8_t* block = panel + b * kQ41Block;
        w.d = load_halves(block);
        w.m = load_halves(block + 32);
        unpack_nibbles(block + 64, w);
    }
};
struct FormatQ5_1 {
    static constexpr int kBytes = kQ51Block, kBiasShift = -1, kRun = 4;
    static constexpr bool kWide = false;
    static constexpr Min kMin = Min::Per32;
    static constexpr Scale kScale = Scale::Float;
    static NIB_INLINE void unpack(const uint8_t* panel, int, int b, Block& w) {
        const uint8_t* block = panel + b * kQ51Block;
        w.d = load_halves(block);
        w.m = load_halves(block + 32);
        unpack_nibbles(block + 64, w);
        unpack_fifth_bits(block + 64 + kNibbles, w);
    }
};
// Two six-bit numbers of sub-block s: see panels.h.
NIB_INLINE void unpack_six_bits(
    const uint8_t* low_bits, const uint8_t* high_bits, int s, VecI& first, VecI& second) {
    const VecI low = load_u8(low_bits + s * 16);
    const VecI high = shr_i32_by(load_u8(high_bits + s / 2 * 16), 4 * (s & 1));
    const VecI low_mask = set1_i32(15), high_mask = set1_i32(0x30);
    first = or_i32(and_i32(low, low_mask), and_i32(shl_i32<4>(high), high_mask));
    second = or_i32(shr_i32<4>(low), and_i32(shl_i32<2>(high), high_mask));
}
// d = d * scale and m = -(dmin * min) of sub-block s; both products are exact.
NIB_INLINE void unpack_scales(const uint8_t* record, int s, Block& w) {
    VecI scale, min;
    unpack_six_bits(record + kScalesLow, record + kScalesHigh, s, scale, min);
    w.d = mul(load_halves(record), to_float(scale));
    w.m = mul(load_halves(record + 32), to_float(sub_i32(zero_i32(), min)));
}
struct FormatQ4_K {
    static constexpr int kBytes = kQ4KRecord / 8, kBiasShift = -1, kRun = 8;
    static constexpr bool kWide = false;
    static constexpr Min kMin = Min::Per32;
    static constexpr Scale kScale = Scale::Float;
    static NIB_INLINE void unpack(const uint8_t* panel, int, int b, Block& w) {
        const uint8_t* record = panel + (b >> 3) * kQ4KRecord;
        unpack_scales(record, b & 7, w);
        unpack_nibbles(record + kScalesEnd + (b & 7) * kNibbles, w);
    }
};
struct FormatQ5_K {
    static constexpr int kBytes = kQ5KRecord / 8, kBiasShift = -1, kRun = 4;
    static constexpr bool kWide = false;
    static constexpr Min kMin = Min::Per32;
    static constexpr Scale kScale = Scale::Float;
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
    static constexpr bool kWide = false;
    static constexpr Min kMin = Min::None;
    static constexpr Scale kScale = Scale::Per16;
    static NIB_INLINE void unpack(const uint8_t* panel, int k, int b, Block& w) {
        const uint8_t* record = panel + head_bytes(k, 256, kSuperHead) + (b >> 3) * kQ6Record;
        const int s = b & 7;
        w.d = load_halves(panel + (b >> 3) * kSuperHead);
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

// Two-bit numbers of 32 k.
NIB_INLINE void unpack_two_bits(const uint8_t* p, Block& w) {
    NIB_UNROLL for (int h = 0; h < 2; h++) {
        const VecU8 bits = load_bytes(p + h * kVector);
        w.v[4 * h] = and_bytes(bits, 3);
        w.v[4 * h + 1] = and_bytes(shift_pairs<-2>(bits), 3);
        w.v[4 * h + 2] = and_bytes(shift_pairs<-4>(bits), 3);
        w.v[4 * h + 3] = and_bytes(shift_pairs<-6>(bits), 3);
    }
}
// Making the products of scale and number here by a table lookup saves an integer sum per token,
// but is a fifth slower for one token.
struct FormatQ2_K {
    static constexpr int kBytes = kQ2Record / 8, kBiasShift = -1, kRun = 4;
    static constexpr bool kWide = false;
    static constexpr Min kMin = Min::Per16;
    static constexpr Scale kScale = Scale::Per16Small;
    static NIB_INLINE void unpack(const uint8_t* panel, int, int b, Block& w) {
        const uint8_t* record = panel + (b >> 3) * kQ2Record;
        w.d = load_halves(record);
        w.m = load_halves(record + 32);
        for (int h = 0; h < 2; h++) {
            const VecI both = load_u8(record + kQ2Scales + (b & 7) * 32 + h * 16);
            w.scale[h] = and_i32(both, set1_i32(15));
            w.min[h] = shr_i32<4>(both);
        }
        unpack_two_bits(record + kQ2Parts + (b & 7) * kQ2Block, w);
    }
};
struct FormatQ3_K {
    static constexpr int kBytes = kQ3Record / 8, kBiasShift = 2, kRun = 4;
    static constexpr bool kWide = false;
    static constexpr Min kMin = Min::None;
    static constexpr Scale kScale = Scale::Per16Small;
    static NIB_INLINE void unpack(const uint8_t* panel, int k, int b, Block& w) {
        const uint8_t* record = panel + head_bytes(k, 256, kSuperHead) + (b >> 3) * kQ3Record;
        w.d = load_halves(panel + (b >> 3) * kSuperHead);
        unpack_six_bits(record, record + kQ3ScalesHigh, b & 7, w.scale[0], w.scale[1]);
        for (int h = 0; h < 2; h++) {  // less 32, in the low half of a lane
            w.scale[h] = and_i32(sub_i32(w.scale[h], set1_i32(32)), set1_i32(0xffff));
        }
        const uint8_t* block = record + kQ3Parts + (b & 7) * kQ3Block;
        unpack_two_bits(block, w);
        const VecU8 bits = load_bytes(block + kQ2Block);
        w.v[0] = or_masked(w.v[0], shift_pairs<2>(bits), 4);
        w.v[1] = or_masked(w.v[1], shift_pairs<1>(bits), 4);
        w.v[2] = or_masked(w.v[2], bits, 4);
        w.v[3] = or_masked(w.v[3], shift_pairs<-1>(bits), 4);
        w.v[4] = or_masked(w.v[4], shift_pairs<-2>(bits), 4);
        w.v[5] = or_masked(w.v[5], shift_pairs<-3>(bits), 4);
        w.v[6] = or_masked(w.v[6], shift_pairs<-4>(bits), 4);
        w.v[7] = or_masked(w.v[7], shift_pairs<-5>(bits), 4);
    }
};

// The tables of quants/tables.h, with 128 and 16 added to make them unsigned.
alignas(16) constexpr uint8_t kIq4Bytes[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                               129, 141, 153, 166, 181, 197, 217, 241};
alignas(16) constexpr uint8_t kFp4Bytes[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                               16, 15, 14, 13, 12, 10, 8,  4};
NIB_INLINE void unpack_numbers(const uint8_t* p, const uint8_t* table, Block& w) {
    unpack_nibbles(p, w);
    const VecU8 bytes = load_table(table);
    NIB_UNROLL for (int i = 0; i < 8; i++) w.v[i] = lookup(bytes, w.v[i]);
}
struct FormatIQ4_NL {
    static constexpr int kBytes = kQ40Record / 2, kBiasShift = 7, kRun = 1;
    static constexpr bool kWide = true;
    static constexpr Min kMin = Min::None;
    static constexpr Scale kScale = Scale::Float;
    static NIB_INLINE void unpack(const uint8_t* panel, int, int b, Block& w) {
        const uint8_t* record = panel + (b >> 1) * kQ40Record;
        w.d = load_halves(record + (b & 1) * 32);
        unpack_numbers(record + 64 + (b & 1) * kNibbles, kIq4Bytes, w);
    }
};
struct FormatIQ4_XS {
    static constexpr int kBytes = kIq4XsRecord / 8, kBiasShift = 7, kRun = 1;
    static constexpr bool kWide = true;
    static constexpr Min kMin = Min::None;
    static constexpr Scale kScale = Scale::Float;
    static NIB_INLINE void unpack(const uint8_t* panel, int, int b, Block& w) {
        const uint8_t* record = panel + (b >> 3) * kIq4XsRecord;
        const int s = b & 7;
        const VecI low = shr_i32_by(load_u8(record + kIq4ScalesLow + s / 2 * 16), 4 * (s & 1));
        const VecI high = shr_i32_by(load_u8(record + kIq4ScalesHigh + s / 4 * 16), 2 * (s & 3));
        const VecI scale =
            or_i32(and_i32(low, set1_i32(15)), and_i32(shl_i32<4>(high), set1_i32(0x30)));
        w.d = mul(load_halves(record), to_float(sub_i32(scale, set1_i32(32))));  // exact
        unpack_numbers(record + kIq4Parts + s * kNibbles, kIq4Bytes, w);
    }
};
struct FormatMXFP4 {
    static constexpr int kBytes = kNibbles + kMxfp4Head, kBiasShift = 4, kRun = 4;
    static constexpr bool kWide = false;
    static constexpr Min kMin = Min::None;
    static constexpr Scale kScale = Scale::Float;
    static NIB_INLINE void unpack(const uint8_t* panel, int k, int b, Block& w) {
        // 2^(e - 128) by its bits: (e - 1) << 23, and (e + 1) << 21 for the denormals of 0 and 1,
        // which is smaller for all others.
        const VecI e = load_u8(panel + b * kMxfp4Head);
        w.d = float_of(
            max_i32(shl_i32<23>(sub_i32(e, set1_i32(1))), shl_i32<21>(add_i32(e, set1_i32(1)))));
        unpack_numbers(panel + head_bytes(k, 32, kMxfp4Head) + b * kNibbles, kFp4Bytes, w);
    }
};

}  // namespace
}  // namespace nib::cpu
