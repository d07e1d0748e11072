// SPDX-License-Identifier: MIT
// The 16 virtual lanes as two 256-bit registers (AVX2, FMA, F16C). The names and their meaning are
// those of simd/scalar.h.
#pragma once
#include <cstddef>
#include <cstdint>

#include <immintrin.h>

namespace nib::cpu {
namespace {

#define NIB_INLINE inline __attribute__((always_inline))
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    #define NIB_UNROLL  // see avx512.h
constexpr uint32_t kOwnWidths = 0;
#else
    #define NIB_UNROLL _Pragma("GCC unroll 32")
// 15-30 % faster than a loop; these are the widths of decoding, of short drafts and of prompts.
constexpr uint32_t kOwnWidths = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 8 | 1 << 16;
#endif

constexpr int kTokenGroup = 4;  // eight sums; 16 registers hold no more
constexpr int kTokenGroup16 = 2;
constexpr bool kWideSigned = true;  // see dot_tokens_wide
constexpr bool kBiasLast = true;
constexpr int kFloatTokens = 4;
constexpr int kAttentionSums = 6;
constexpr int kAttentionChains = 4;

struct VecF {
    __m256 lo, hi;
};
struct VecI {
    __m256i lo, hi;
};
using VecU8 = VecI;

// Lanes 0..n-1 of eight, all bits set.
NIB_INLINE __m256i lanes_below(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

NIB_INLINE VecF set1(float x) {
    return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
NIB_INLINE VecF zero() {
    return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
NIB_INLINE VecF load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
NIB_INLINE VecF load_n(const float* p, int n) {
    return {_mm256_maskload_ps(p, lanes_below(n)), _mm256_maskload_ps(p + 8, lanes_below(n - 8))};
}
NIB_INLINE void store(float* p, VecF x) {
    _mm256_storeu_ps(p, x.lo);
    _mm256_storeu_ps(p + 8, x.hi);
}
NIB_INLINE void store_n(float* p, VecF x, int n) {
    _mm256_maskstore_ps(p, lanes_below(n), x.lo);
    _mm256_maskstore_ps(p + 8, lanes_below(n - 8), x.hi);
}
NIB_INLINE VecF first_n(VecF x, int n) {
    return {_mm256_and_ps(x.lo, _mm256_castsi256_ps(lanes_below(n))),
            _mm256_and_ps(x.hi, _mm256_castsi256_ps(lanes_below(n - 8)))};
}
NIB_INLINE VecF add(VecF a, VecF b) {
    return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
NIB_INLINE VecF sub(VecF a, VecF b) {
    return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
NIB_INLINE VecF mul(VecF a, VecF b) {
    return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
NIB_INLINE VecF div(VecF a, VecF b) {
    return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
NIB_INLINE VecF fma(VecF a, VecF b, VecF c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
NIB_INLINE VecF max(VecF a, VecF b) {
    return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
NIB_INLINE VecF min(VecF a, VecF b) {
    return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
NIB_INLINE VecF select_less(VecF a, VecF b, VecF x, VecF y) {
    return {_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
            _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}
NIB_INLINE float first_lane(VecF x) {
    return _mm256_cvtss_f32(x.lo);
}
NIB_INLINE float reduce_add(VecF x) {
    const __m256 half = _mm256_add_ps(x.lo, x.hi);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
// The tree of four vectors in one: after two steps, the four numbers of each are a quarter.
template <class Join>
NIB_INLINE void reduce_four(const VecF* v, float* out, Join join) {
    const auto quarter = [&](const VecF& a, const VecF& b) {
        const __m256 x = join(a.lo, a.hi), y = join(b.lo, b.hi);
        return join(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
    };
    const __m256 a = quarter(v[0], v[1]), b = quarter(v[2], v[3]);
    // Lanes i and i + 2 of each, then those two.
    const __m256 two = join(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
    const __m256 one = join(_mm256_shuffle_ps(two, two, 0x08), _mm256_shuffle_ps(two, two, 0x0d));
    // Now 0 and 2 below, 1 and 3 above.
    _mm_storeu_ps(out, _mm_unpacklo_ps(_mm256_castps256_ps128(one), _mm256_extractf128_ps(one, 1)));
}
NIB_INLINE void sums_of_four(const VecF* v, float* out) {
    reduce_four(v, out, [](__m256 a, __m256 b) { return _mm256_add_ps(a, b); });
}
NIB_INLINE void most_of_four(const VecF* v, float* out) {
    reduce_four(v, out, [](__m256 a, __m256 b) { return _mm256_max_ps(a, b); });
}

NIB_INLINE VecI set1_i32(int32_t x) {
    return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
NIB_INLINE VecI zero_i32() {
    return {_mm256_setzero_si256(), _mm256_setzero_si256()};
}
NIB_INLINE VecI add_i32(VecI a, VecI b) {
    return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
NIB_INLINE VecI sub_i32(VecI a, VecI b) {
    return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
NIB_INLINE VecI mul_i32(VecI a, VecI b) {
    return {_mm256_mullo_epi32(a.lo, b.lo), _mm256_mullo_epi32(a.hi, b.hi)};
}
NIB_INLINE VecI and_i32(VecI a, VecI b) {
    return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
NIB_INLINE VecI or_i32(VecI a, VecI b) {
    return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
NIB_INLINE VecI max_i32(VecI a, VecI b) {
    return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)};
}
template <int kBits>
NIB_INLINE VecI shl_i32(VecI a) {
    return {_mm256_slli_epi32(a.lo, kBits), _mm256_slli_epi32(a.hi, kBits)};
}
template <int kBits>
NIB_INLINE VecI shr_i32(VecI a) {
    return {_mm256_srai_epi32(a.lo, kBits), _mm256_srai_epi32(a.hi, kBits)};
}
NIB_INLINE VecI shr_i32_by(VecI a, int bits) {
    const __m128i count = _mm_cvtsi32_si128(bits);
    return {_mm256_sra_epi32(a.lo, count), _mm256_sra_epi32(a.hi, count)};
}
NIB_INLINE int32_t reduce_add_i32(VecI x) {
    const __m256i half = _mm256_add_epi32(x.lo, x.hi);
    const __m128i four =
        _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
NIB_INLINE int32_t reduce_max_i32(VecI x) {
    const __m256i half = _mm256_max_epi32(x.lo, x.hi);
    const __m128i four =
        _mm_max_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
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
    return {_mm256_cvtepi32_ps(x.lo), _mm256_cvtepi32_ps(x.hi)};
}
NIB_INLINE VecI to_i32(VecF x) {
    return {_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi)};
}
NIB_INLINE VecI bits_of(VecF x) {
    return {_mm256_castps_si256(x.lo), _mm256_castps_si256(x.hi)};
}
NIB_INLINE VecF float_of(VecI x) {
    return {_mm256_castsi256_ps(x.lo), _mm256_castsi256_ps(x.hi)};
}
NIB_INLINE VecF nearest(VecF x) {
    constexpr int kEven = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.lo, kEven), _mm256_round_ps(x.hi, kEven)};
}
NIB_INLINE VecF times_power(VecF x, VecF n) {  // two factors: see scalar.h
    const VecI all = to_i32(n), half = shr_i32<1>(all), bias = set1_i32(127);
    const VecI first = shl_i32<23>(add_i32(half, bias));
    const VecI second = shl_i32<23>(add_i32(sub_i32(all, half), bias));
    return mul(mul(x, float_of(first)), float_of(second));
}
NIB_INLINE VecI load_i8(const int8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}
NIB_INLINE VecI load_u8(const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}
NIB_INLINE void store_i8(int8_t* p, VecI x) {
    const __m256i pairs = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.lo, x.hi), 0xd8);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(p),
        _mm_packs_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1)));
}

NIB_INLINE VecF load_half(const uint16_t* p) {
    const __m128i* h = reinterpret_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
}
NIB_INLINE void store_half(uint16_t* p, VecF x) {
    __m128i* h = reinterpret_cast<__m128i*>(p);
    _mm_storeu_si128(h, _mm256_cvtps_ph(x.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(h + 1, _mm256_cvtps_ph(x.hi, _MM_FROUND_TO_NEAREST_INT));
}
NIB_INLINE __m256 bf16_lanes(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
NIB_INLINE VecF load_bf16(const uint16_t* p) {
    const __m128i* h = reinterpret_cast<const __m128i*>(p);
    return {bf16_lanes(_mm_loadu_si128(h)), bf16_lanes(_mm_loadu_si128(h + 1))};
}

NIB_INLINE VecU8 load_bytes(const uint8_t* p) {
    const __m256i* v = reinterpret_cast<const __m256i*>(p);
    return {_mm256_load_si256(v), _mm256_load_si256(v + 1)};
}
NIB_INLINE VecU8 and_bytes(VecU8 a, uint8_t b) {
    const __m256i mask = _mm256_set1_epi8(static_cast<char>(b));
    return {_mm256_and_si256(a.lo, mask), _mm256_and_si256(a.hi, mask)};
}
NIB_INLINE VecU8 or_masked(VecU8 a, VecU8 b, uint8_t mask) {
    return or_i32(a, and_bytes(b, mask));
}
template <int kBits>
NIB_INLINE VecU8 shift_pairs(VecU8 a) {
    if constexpr (kBits >= 0) {
        return {_mm256_slli_epi16(a.lo, kBits), _mm256_slli_epi16(a.hi, kBits)};
    } else {
        return {_mm256_srli_epi16(a.lo, -kBits), _mm256_srli_epi16(a.hi, -kBits)};
    }
}

NIB_INLINE __m256i spread4(const int8_t* x) {
    int32_t four;
    __builtin_memcpy(&four, x, 4);
    return _mm256_set1_epi32(four);
}
NIB_INLINE __m256i add_pairs(__m256i sum, __m256i pairs) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
// Without it gcc rearranges sums into trees that need more registers than there are.
NIB_INLINE void keep_order(__m256i& x) {
    asm("" : "+x"(x));
}
// w <= 127: two products of at most 127 * 127 fit 16 bits, so maddubs never saturates, nor do the
// sums of kRun vectors.
template <int kRun, int kCount, int T>
NIB_INLINE void dot_tokens(VecI* sum, const VecU8* w, const int8_t* x) {
    NIB_UNROLL for (int first = 0; first < kCount; first += kRun) {
        __m256i lo[T], hi[T];
        NIB_UNROLL for (int i = first; i < first + kRun; i++) {
            NIB_UNROLL for (int t = 0; t < T; t++) {
                const __m256i four = spread4(x + 32 * t + 4 * i);
                const __m256i a = _mm256_maddubs_epi16(w[i].lo, four);
                const __m256i b = _mm256_maddubs_epi16(w[i].hi, four);
                lo[t] = i == first ? a : _mm256_add_epi16(lo[t], a);
                hi[t] = i == first ? b : _mm256_add_epi16(hi[t], b);
                keep_order(lo[t]);
                keep_order(hi[t]);
            }
        }
        NIB_UNROLL for (int t = 0; t < T; t++) {
            sum[t] = {add_pairs(sum[t].lo, lo[t]), add_pairs(sum[t].hi, hi[t])};
        }
    }
}
// Any w: bytes up to 255 would saturate, so w - 128 is multiplied here, as |w - 128| times x with
// the sign of w - 128 (at most 2 * 128 * 127). The caller leaves out the -128 * sum(x) that others
// start with.
template <int kCount, int T>
NIB_INLINE void dot_tokens_wide(VecI* sum, const VecU8* w, const int8_t* x) {
    const __m256i flip = _mm256_set1_epi8(static_cast<char>(0x80));
    NIB_UNROLL for (int i = 0; i < kCount; i++) {
        const __m256i lo = _mm256_xor_si256(w[i].lo, flip), hi = _mm256_xor_si256(w[i].hi, flip);
        const __m256i size_lo = _mm256_abs_epi8(lo), size_hi = _mm256_abs_epi8(hi);
        NIB_UNROLL for (int t = 0; t < T; t++) {
            const __m256i four = spread4(x + 32 * t + 4 * i);
            const __m256i a = _mm256_maddubs_epi16(size_lo, _mm256_sign_epi8(four, lo));
            const __m256i b = _mm256_maddubs_epi16(size_hi, _mm256_sign_epi8(four, hi));
            sum[t] = {add_pairs(sum[t].lo, a), add_pairs(sum[t].hi, b)};
            keep_order(sum[t].lo);
            keep_order(sum[t].hi);
        }
    }
}

NIB_INLINE VecU8 load_table(const uint8_t* p) {
    const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_broadcastsi128_si256(table), _mm256_broadcastsi128_si256(table)};
}
NIB_INLINE VecU8 lookup(VecU8 table, VecU8 numbers) {
    return {_mm256_shuffle_epi8(table.lo, numbers.lo), _mm256_shuffle_epi8(table.hi, numbers.hi)};
}

NIB_INLINE VecI add_product16(VecI sum, VecI a, VecI b) {
    return {_mm256_add_epi32(sum.lo, _mm256_madd_epi16(a.lo, b.lo)),
            _mm256_add_epi32(sum.hi, _mm256_madd_epi16(a.hi, b.hi))};
}

}  // namespace
}  // namespace nib::cpu
