// SPDX-License-Identifier: MIT
// The 16 virtual lanes as one 512-bit register (AVX-512 F, BW, DQ, VL and VNNI). The names and
// their meaning are those of simd/scalar.h.
#pragma once
#include <cstddef>
#include <cstdint>

#include <immintrin.h>

namespace nib::cpu {
namespace {

#define NIB_INLINE inline __attribute__((always_inline))
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    // Checked code grows so much that unrolling it takes minutes to compile. The bits are the same.
    #define NIB_UNROLL
constexpr uint32_t kOwnWidths = 0;
#else
    #define NIB_UNROLL _Pragma("GCC unroll 32")
constexpr uint32_t kOwnWidths = 0x1fffe;  // 1..16
#endif

// Four chains of vpdpbusd fill the two units without filling the schedulers with waiting
// instructions.
constexpr int kTokenGroup = 4;
constexpr int kTokenGroup16 = 4;
constexpr bool kWideSigned = false;
constexpr bool kBiasLast = false;
constexpr int kFloatTokens = 8;
constexpr int kAttentionSums = 24;
constexpr int kAttentionChains = 6;

using VecF = __m512;
using VecI = __m512i;
using VecU8 = __m512i;
using AliasedInt = int32_t __attribute__((may_alias));

NIB_INLINE __mmask16 lanes_below(int n) {
    return static_cast<__mmask16>(n >= 16 ? 0xffffu : (1u << n) - 1u);
}

NIB_INLINE VecF set1(float x) {
    return _mm512_set1_ps(x);
}
NIB_INLINE VecF zero() {
    return _mm512_setzero_ps();
}
NIB_INLINE VecF load(const float* p) {
    return _mm512_loadu_ps(p);
}
NIB_INLINE VecF load_n(const float* p, int n) {
    return _mm512_maskz_loadu_ps(lanes_below(n), p);
}
NIB_INLINE void store(float* p, VecF x) {
    _mm512_storeu_ps(p, x);
}
NIB_INLINE void store_n(float* p, VecF x, int n) {
    _mm512_mask_storeu_ps(p, lanes_below(n), x);
}
NIB_INLINE VecF first_n(VecF x, int n) {
    return _mm512_maskz_mov_ps(lanes_below(n), x);
}
NIB_INLINE VecF add(VecF a, VecF b) {
    return _mm512_add_ps(a, b);
}
NIB_INLINE VecF sub(VecF a, VecF b) {
    return _mm512_sub_ps(a, b);
}
NIB_INLINE VecF mul(VecF a, VecF b) {
    return _mm512_mul_ps(a, b);
}
NIB_INLINE VecF div(VecF a, VecF b) {
    return _mm512_div_ps(a, b);
}
NIB_INLINE VecF fma(VecF a, VecF b, VecF c) {
    return _mm512_fmadd_ps(a, b, c);
}
NIB_INLINE VecF max(VecF a, VecF b) {
    return _mm512_max_ps(a, b);
}
NIB_INLINE VecF min(VecF a, VecF b) {
    return _mm512_min_ps(a, b);
}
NIB_INLINE VecF select_less(VecF a, VecF b, VecF x, VecF y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
NIB_INLINE float first_lane(VecF x) {
    return _mm512_cvtss_f32(x);
}
NIB_INLINE float reduce_add(VecF x) {
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
// The tree of four vectors in one: after two steps, the four numbers of each are a quarter.
template <class Join>
NIB_INLINE void reduce_four(const VecF* v, float* out, Join join) {
    const auto halves = [&](VecF a, VecF b) {
        return join(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    };
    const VecF a = halves(v[0], v[1]), b = halves(v[2], v[3]);
    VecF x = join(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    x = join(x, _mm512_permute_ps(x, 0x0e));
    x = join(x, _mm512_permute_ps(x, 0x01));
    const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(first, x)));
}
NIB_INLINE void sums_of_four(const VecF* v, float* out) {
    reduce_four(v, out, [](VecF a, VecF b) { return add(a, b); });
}
NIB_INLINE void most_of_four(const VecF* v, float* out) {
    reduce_four(v, out, [](VecF a, VecF b) { return max(a, b); });
}

NIB_INLINE VecI set1_i32(int32_t x) {
    return _mm512_set1_epi32(x);
}
NIB_INLINE VecI zero_i32() {
    return _mm512_setzero_si512();
}
NIB_INLINE VecI add_i32(VecI a, VecI b) {
    return _mm512_add_epi32(a, b);
}
NIB_INLINE VecI sub_i32(VecI a, VecI b) {
    return _mm512_sub_epi32(a, b);
}
NIB_INLINE VecI mul_i32(VecI a, VecI b) {
    return _mm512_mullo_epi32(a, b);
}
NIB_INLINE VecI and_i32(VecI a, VecI b) {
    return _mm512_and_si512(a, b);
}
NIB_INLINE VecI or_i32(VecI a, VecI b) {
    return _mm512_or_si512(a, b);
}
NIB_INLINE VecI max_i32(VecI a, VecI b) {
    return _mm512_max_epi32(a, b);
}
template <int kBits>
NIB_INLINE VecI shl_i32(VecI a) {
    return _mm512_slli_epi32(a, kBits);
}
template <int kBits>
NIB_INLINE VecI shr_i32(VecI a) {
    return _mm512_srai_epi32(a, kBits);
}
NIB_INLINE VecI shr_i32_by(VecI a, int bits) {
    return _mm512_sra_epi32(a, _mm_cvtsi32_si128(bits));
}
NIB_INLINE int32_t reduce_add_i32(VecI x) {
    return _mm512_reduce_add_epi32(x);
}
NIB_INLINE int32_t reduce_max_i32(VecI x) {
    return _mm512_reduce_max_epi32(x);
}
// out[i]: the sum (the largest) of the lanes of v[i], for four vectors at once.
NIB_INLINE void sums_of_four(const VecI* v, int32_t* out) {
    const __m512i a =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const __m512i b =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    const __m256i half =
        _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(out),
        _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
}
NIB_INLINE void most_of_four(const VecI* v, int32_t* out) {
    const __m512i a =
        _mm512_max_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const __m512i b =
        _mm512_max_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    const __m512i all = _mm512_max_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    const __m256i half =
        _mm256_max_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(out),
        _mm_max_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
}
NIB_INLINE VecF to_float(VecI x) {
    return _mm512_cvtepi32_ps(x);
}
NIB_INLINE VecI to_i32(VecF x) {
    return _mm512_cvtps_epi32(x);
}
NIB_INLINE VecI bits_of(VecF x) {
    return _mm512_castps_si512(x);
}
NIB_INLINE VecF float_of(VecI x) {
    return _mm512_castsi512_ps(x);
}
NIB_INLINE VecF nearest(VecF x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT);
}
NIB_INLINE VecF times_power(VecF x, VecF n) {
    return _mm512_scalef_ps(x, n);
}
NIB_INLINE VecI load_i8(const int8_t* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
NIB_INLINE VecI load_u8(const uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
NIB_INLINE void store_i8(int8_t* p, VecI x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x));
}

NIB_INLINE VecF load_half(const uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
NIB_INLINE void store_half(uint16_t* p, VecF x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
NIB_INLINE VecF load_bf16(const uint16_t* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

NIB_INLINE VecU8 load_bytes(const uint8_t* p) {
    return _mm512_load_si512(p);
}
NIB_INLINE VecU8 and_bytes(VecU8 a, uint8_t b) {
    return _mm512_and_si512(a, _mm512_set1_epi8(static_cast<char>(b)));
}
NIB_INLINE VecU8 or_masked(VecU8 a, VecU8 b, uint8_t mask) {
    return _mm512_ternarylogic_epi32(a, b, _mm512_set1_epi8(static_cast<char>(mask)), 0xf8);
}
template <int kBits>
NIB_INLINE VecU8 shift_pairs(VecU8 a) {
    if constexpr (kBits >= 0) {
        return _mm512_slli_epi16(a, kBits);
    } else {
        return _mm512_srli_epi16(a, -kBits);
    }
}

// Inline assembly because gcc 12 does not fold the broadcast of the load into vpdpbusd.
NIB_INLINE VecI dot4(VecI sum, VecU8 w, const int8_t* x) {
    asm("vpdpbusd %2%{1to16%}, %1, %0"
        : "+v"(sum)
        : "v"(w), "m"(*reinterpret_cast<const AliasedInt*>(x)));
    return sum;
}
template <int kRun, int kCount, int T>
NIB_INLINE void dot_tokens(VecI* sum, const VecU8* w, const int8_t* x) {
    NIB_UNROLL for (int i = 0; i < kCount; i++) {
        NIB_UNROLL for (int t = 0; t < T; t++) sum[t] = dot4(sum[t], w[i], x + 32 * t + 4 * i);
    }
}
template <int kCount, int T>
NIB_INLINE void dot_tokens_wide(VecI* sum, const VecU8* w, const int8_t* x) {
    dot_tokens<1, kCount, T>(sum, w, x);
}

NIB_INLINE VecU8 load_table(const uint8_t* p) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
NIB_INLINE VecU8 lookup(VecU8 table, VecU8 numbers) {
    return _mm512_shuffle_epi8(table, numbers);
}

NIB_INLINE VecI add_product16(VecI sum, VecI a, VecI b) {
    return _mm512_dpwssd_epi32(sum, a, b);
}

}  // namespace
}  // namespace nib::cpu
