// SPDX-License-Identifier: MIT
// The 16 virtual lanes of the kernels in plain C++: the meaning of the names that every simd/*.h
// gives.
//   VecF: 16 f32.  VecI: 16 i32.  VecU8: 64 u8, four bytes per lane.
// Every operation is IEEE exact (or exact on integers), so a kernel written over these names gives
// the same bits at every level. max and min return the second operand when one is NaN, as the
// machine's do. Everything has internal linkage and nothing of the standard library is used: see
// isa/.
#pragma once
#include <cstddef>
#include <cstdint>

namespace nib::cpu {
namespace {

#define NIB_INLINE inline __attribute__((always_inline))
#define NIB_UNROLL
#define NIB_LANES for (int i = 0; i < 16; i++)

constexpr int kTokenGroup = 1;       // tokens that advance together in an int8 block
constexpr int kTokenGroup16 = 1;     // and where a block has two integer sums
constexpr uint32_t kOwnWidths = 0;   // bit n: tiles of n tokens have an int8 kernel of their own
constexpr bool kWideSigned = false;  // see dot_tokens_wide
constexpr bool kBiasLast = false;    // the bias of stored bytes is taken out last, not first
constexpr int kFloatTokens = 4;      // sums of a float tile: tokens times panels
constexpr int kAttentionSums = 4;    // sums of attention that stay in registers
constexpr int kAttentionChains = 4;  // heads of rows that share the reads of a page; <= kMostChains

struct VecF {
    float v[16];
};
struct VecI {
    int32_t v[16];
};
struct VecU8 {
    uint8_t v[64];
};

NIB_INLINE uint32_t bits_of_float(float x) {
    uint32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    return bits;
}
NIB_INLINE float float_of_bits(uint32_t bits) {
    float x;
    __builtin_memcpy(&x, &bits, 4);
    return x;
}

// f32 lanes.
NIB_INLINE VecF set1(float x) {
    VecF r;
    NIB_LANES r.v[i] = x;
    return r;
}
NIB_INLINE VecF zero() {
    return set1(0.0f);
}
NIB_INLINE VecF load(const float* p) {
    VecF r;
    NIB_LANES r.v[i] = p[i];
    return r;
}
NIB_INLINE VecF load_n(const float* p, int n) {
    VecF r;
    NIB_LANES r.v[i] = i < n ? p[i] : 0.0f;
    return r;
}
NIB_INLINE void store(float* p, VecF x) {
    NIB_LANES p[i] = x.v[i];
}
NIB_INLINE void store_n(float* p, VecF x, int n) {
    for (int i = 0; i < n && i < 16; i++)
        p[i] = x.v[i];
}
NIB_INLINE VecF first_n(VecF x, int n) {
    NIB_LANES x.v[i] = i < n ? x.v[i] : 0.0f;
    return x;
}
NIB_INLINE VecF add(VecF a, VecF b) {
    NIB_LANES a.v[i] = a.v[i] + b.v[i];
    return a;
}
NIB_INLINE VecF sub(VecF a, VecF b) {
    NIB_LANES a.v[i] = a.v[i] - b.v[i];
    return a;
}
NIB_INLINE VecF mul(VecF a, VecF b) {
    NIB_LANES a.v[i] = a.v[i] * b.v[i];
    return a;
}
NIB_INLINE VecF div(VecF a, VecF b) {
    NIB_LANES a.v[i] = a.v[i] / b.v[i];
    return a;
}
NIB_INLINE VecF fma(VecF a, VecF b, VecF c) {  // a * b + c, rounded once
    NIB_LANES a.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
    return a;
}
NIB_INLINE VecF max(VecF a, VecF b) {
    NIB_LANES a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return a;
}
NIB_INLINE VecF min(VecF a, VecF b) {
    NIB_LANES a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
    return a;
}
// a < b ? x : y, lane by lane.
NIB_INLINE VecF select_less(VecF a, VecF b, VecF x, VecF y) {
    NIB_LANES x.v[i] = a.v[i] < b.v[i] ? x.v[i] : y.v[i];
    return x;
}
NIB_INLINE float first_lane(VecF x) {
    return x.v[0];
}
// The fixed tree: lanes i and i + 8, then i + 4, i + 2, i + 1.
NIB_INLINE float reduce_add(VecF x) {
    for (int half = 8; half > 0; half /= 2) {
        for (int i = 0; i < half; i++)
            x.v[i] = x.v[i] + x.v[i + half];
    }
    return x.v[0];
}
NIB_INLINE float reduce_max(VecF x) {
    for (int half = 8; half > 0; half /= 2) {
        for (int i = 0; i < half; i++)
            x.v[i] = x.v[i] > x.v[i + half] ? x.v[i] : x.v[i + half];
    }
    return x.v[0];
}
// out[i]: the sum (the largest) of the lanes of v[i] by the same tree, for four vectors at once.
NIB_INLINE void sums_of_four(const VecF* v, float* out) {
    for (int i = 0; i < 4; i++)
        out[i] = reduce_add(v[i]);
}
NIB_INLINE void most_of_four(const VecF* v, float* out) {
    for (int i = 0; i < 4; i++)
        out[i] = reduce_max(v[i]);
}

// i32 lanes; arithmetic wraps.
NIB_INLINE VecI set1_i32(int32_t x) {
    VecI r;
    NIB_LANES r.v[i] = x;
    return r;
}
NIB_INLINE VecI zero_i32() {
    return set1_i32(0);
}
NIB_INLINE VecI add_i32(VecI a, VecI b) {
    NIB_LANES a.v[i] = static_cast<int32_t>(uint32_t(a.v[i]) + uint32_t(b.v[i]));
    return a;
}
NIB_INLINE VecI sub_i32(VecI a, VecI b) {
    NIB_LANES a.v[i] = static_cast<int32_t>(uint32_t(a.v[i]) - uint32_t(b.v[i]));
    return a;
}
NIB_INLINE VecI mul_i32(VecI a, VecI b) {
    NIB_LANES a.v[i] = static_cast<int32_t>(uint32_t(a.v[i]) * uint32_t(b.v[i]));
    return a;
}
NIB_INLINE VecI and_i32(VecI a, VecI b) {
    NIB_LANES a.v[i] &= b.v[i];
    return a;
}
NIB_INLINE VecI or_i32(VecI a, VecI b) {
    NIB_LANES a.v[i] |= b.v[i];
    return a;
}
NIB_INLINE VecI max_i32(VecI a, VecI b) {
    NIB_LANES a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return a;
}
template <int kBits>
NIB_INLINE VecI shl_i32(VecI a) {
    NIB_LANES a.v[i] = static_cast<int32_t>(uint32_t(a.v[i]) << kBits);
    return a;
}
template <int kBits>
NIB_INLINE VecI shr_i32(VecI a) {  // copies of the sign come in
    NIB_LANES a.v[i] = a.v[i] >> kBits;
    return a;
}
NIB_INLINE VecI shr_i32_by(VecI a, int bits) {
    NIB_LANES a.v[i] = a.v[i] >> bits;
    return a;
}
NIB_INLINE int32_t reduce_add_i32(VecI x) {
    uint32_t sum = 0;
    NIB_LANES sum += uint32_t(x.v[i]);
    return static_cast<int32_t>(sum);
}
NIB_INLINE int32_t reduce_max_i32(VecI x) {
    int32_t most = x.v[0];
    NIB_LANES most = x.v[i] > most ? x.v[i] : most;
    return most;
}
// out[i]: the sum (the largest) of the lanes of v[i], for four vectors at once.
NIB_INLINE void sums_of_four(const VecI* v, int32_t* out) {
    for (int i = 0; i < 4; i++)
        out[i] = reduce_add_i32(v[i]);
}
NIB_INLINE void most_of_four(const VecI* v, int32_t* out) {
    for (int i = 0; i < 4; i++)
        out[i] = reduce_max_i32(v[i]);
}
NIB_INLINE VecF to_float(VecI x) {
    VecF r;
    NIB_LANES r.v[i] = static_cast<float>(x.v[i]);
    return r;
}
// Round to nearest even; what does not fit becomes INT32_MIN.
NIB_INLINE VecI to_i32(VecF x) {
    VecI r;
    NIB_LANES {
        const bool fits = x.v[i] >= -2147483648.0f && x.v[i] < 2147483648.0f;
        r.v[i] = fits ? static_cast<int32_t>(__builtin_lrintf(x.v[i])) : INT32_MIN;
    }
    return r;
}
NIB_INLINE VecI bits_of(VecF x) {
    VecI r;
    NIB_LANES r.v[i] = static_cast<int32_t>(bits_of_float(x.v[i]));
    return r;
}
NIB_INLINE VecF float_of(VecI x) {
    VecF r;
    NIB_LANES r.v[i] = float_of_bits(uint32_t(x.v[i]));
    return r;
}
// The nearest whole number, even where two are as near; |x| < 2^31.
NIB_INLINE VecF nearest(VecF x) {
    return to_float(to_i32(x));
}
// x * 2^n for whole n in -160 .. 130, rounded once. Two factors, because 2^n alone may not be a
// normal float.
NIB_INLINE VecF times_power(VecF x, VecF n) {
    const VecI all = to_i32(n), half = shr_i32<1>(all), bias = set1_i32(127);
    const VecI first = shl_i32<23>(add_i32(half, bias));
    const VecI second = shl_i32<23>(add_i32(sub_i32(all, half), bias));
    return mul(mul(x, float_of(first)), float_of(second));
}
NIB_INLINE VecI load_i8(const int8_t* p) {
    VecI r;
    NIB_LANES r.v[i] = p[i];
    return r;
}
NIB_INLINE VecI load_u8(const uint8_t* p) {
    VecI r;
    NIB_LANES r.v[i] = p[i];
    return r;
}
NIB_INLINE void store_i8(int8_t* p, VecI x) {  // values in -128..127
    NIB_LANES p[i] = static_cast<int8_t>(x.v[i]);
}

// 16-bit floats in memory. Denormals are kept, NaN stays NaN (quiet).
NIB_INLINE float half_bits_to_float(uint32_t h) {
    const uint32_t sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023;
    if (exponent == 31) {
        return float_of_bits(sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0));
    }
    if (exponent == 0) {
        const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
        return float_of_bits(sign | bits_of_float(magnitude));
    }
    return float_of_bits(sign | ((exponent + 112) << 23) | (mantissa << 13));
}
NIB_INLINE uint16_t float_to_half_bits(float x) {
    const uint32_t bits = bits_of_float(x), sign = (bits >> 16) & 0x8000u,
                   rest = bits & 0x7fffffffu;
    uint32_t h;
    if (rest > 0x7f800000u) {
        h = 0x7e00u | ((rest >> 13) & 1023);
    } else if (rest >= 0x47800000u) {
        h = 0x7c00u;
    } else if (rest < 0x38800000u) {
        // Below the least normal half: adding 0.5 makes the machine round at 2^-24.
        h = bits_of_float(float_of_bits(rest) + 0.5f) - 0x3f000000u;
    } else {
        h = (rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1)) >> 13;
    }
    return static_cast<uint16_t>(sign | h);
}
NIB_INLINE VecF load_half(const uint16_t* p) {
    VecF r;
    NIB_LANES r.v[i] = half_bits_to_float(p[i]);
    return r;
}
NIB_INLINE void store_half(uint16_t* p, VecF x) {
    NIB_LANES p[i] = float_to_half_bits(x.v[i]);
}
NIB_INLINE VecF load_bf16(const uint16_t* p) {
    VecF r;
    NIB_LANES r.v[i] = float_of_bits(uint32_t(p[i]) << 16);
    return r;
}

// Bytes. Shifts move 16-bit pairs as one number.
NIB_INLINE VecU8 load_bytes(const uint8_t* p) {  // p is 64-byte aligned
    VecU8 r;
    for (int i = 0; i < 64; i++)
        r.v[i] = p[i];
    return r;
}
NIB_INLINE VecU8 and_bytes(VecU8 a, uint8_t b) {
    for (int i = 0; i < 64; i++)
        a.v[i] &= b;
    return a;
}
NIB_INLINE VecU8 or_masked(VecU8 a, VecU8 b, uint8_t mask) {  // a | (b & mask)
    for (int i = 0; i < 64; i++)
        a.v[i] |= b.v[i] & mask;
    return a;
}
template <int kBits>
NIB_INLINE VecU8 shift_pairs(VecU8 a) {  // left; a negative count shifts right
    for (int i = 0; i < 64; i += 2) {
        const uint32_t pair = a.v[i] | uint32_t(a.v[i + 1]) << 8;
        const uint32_t moved =
            kBits >= 0 ? pair << (kBits >= 0 ? kBits : 0) : pair >> (kBits < 0 ? -kBits : 0);
        a.v[i] = static_cast<uint8_t>(moved);
        a.v[i + 1] = static_cast<uint8_t>(moved >> 8);
    }
    return a;
}

// sum + w * x: each lane's four u8 with the same four s8 at x, |x| <= 127.
NIB_INLINE VecI dot4(VecI sum, VecU8 w, const int8_t* x) {
    NIB_LANES {
        sum.v[i] += w.v[4 * i] * x[0] + w.v[4 * i + 1] * x[1] + w.v[4 * i + 2] * x[2] +
                    w.v[4 * i + 3] * x[3];
    }
    return sum;
}
// The same for T tokens, whose bytes are 32 apart, and kCount vectors, which take 4 bytes each.
// kRun is how many products of a lane's vectors can be added in 16 bits, so w <= 127.
template <int kRun, int kCount, int T>
NIB_INLINE void dot_tokens(VecI* sum, const VecU8* w, const int8_t* x) {
    for (int i = 0; i < kCount; i++) {
        for (int t = 0; t < T; t++)
            sum[t] = dot4(sum[t], w[i], x + 32 * t + 4 * i);
    }
}
// The same for any w; where kWideSigned is true the products are those of w - 128.
template <int kCount, int T>
NIB_INLINE void dot_tokens_wide(VecI* sum, const VecU8* w, const int8_t* x) {
    dot_tokens<1, kCount, T>(sum, w, x);
}

// A table of 16 bytes, and its bytes by number (0..15).
NIB_INLINE VecU8 load_table(const uint8_t* p) {
    VecU8 r;
    for (int i = 0; i < 64; i++)
        r.v[i] = p[i % 16];
    return r;
}
NIB_INLINE VecU8 lookup(VecU8 table, VecU8 numbers) {
    for (int i = 0; i < 64; i++)
        numbers.v[i] = table.v[numbers.v[i]];
    return numbers;
}

// sum + a * b where a is a signed 16-bit number and b's low half is one; b's high half is zero.
NIB_INLINE VecI add_product16(VecI sum, VecI a, VecI b) {
    NIB_LANES sum.v[i] += static_cast<int16_t>(a.v[i]) * static_cast<int16_t>(b.v[i]);
    return sum;
}

}  // namespace
}  // namespace nib::cpu
