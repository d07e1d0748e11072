// SPDX-License-Identifier: MIT
// Kernels that treat every value alone. y may be one of the inputs.
#pragma once
#include "backends/cpu/kernels/math.inl"

namespace nib::cpu {
namespace {

// y = f(a, b) for n values, 16 at a time.
template <class F>
NIB_INLINE void map2(const float* a, const float* b, float* y, size_t n, F f) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        store(y + i, f(load(a + i), load(b + i)));
    const int rest = static_cast<int>(n - i);
    if (rest > 0) store_n(y + i, f(load_n(a + i, rest), load_n(b + i, rest)), rest);
}
template <class F>
NIB_INLINE void map1(const float* x, float* y, size_t n, F f) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        store(y + i, f(load(x + i)));
    const int rest = static_cast<int>(n - i);
    if (rest > 0) store_n(y + i, f(load_n(x + i, rest)), rest);
}

// The functions as types: a lambda's call would not be inlined everywhere.
struct AddOf {
    NIB_INLINE VecF operator()(VecF a, VecF b) const { return add(a, b); }
};
struct MulOf {
    NIB_INLINE VecF operator()(VecF a, VecF b) const { return mul(a, b); }
};
struct SiluMulOf {
    NIB_INLINE VecF operator()(VecF gate, VecF up) const { return mul(silu_of(gate), up); }
};
struct GeluMulOf {
    NIB_INLINE VecF operator()(VecF gate, VecF up) const { return mul(gelu_of(gate), up); }
};
struct ScaleOf {
    VecF factor;
    NIB_INLINE VecF operator()(VecF x) const { return mul(x, factor); }
};
struct SoftcapOf {
    VecF cap;
    NIB_INLINE VecF operator()(VecF x) const { return softcap_of(x, cap); }
};

void add_values(const float* a, const float* b, float* y, size_t n) {
    map2(a, b, y, n, AddOf());
}
void mul_values(const float* a, const float* b, float* y, size_t n) {
    map2(a, b, y, n, MulOf());
}
void silu(const float* gate, const float* up, float* y, size_t n) {
    map2(gate, up, y, n, SiluMulOf());
}
void gelu_tanh(const float* gate, const float* up, float* y, size_t n) {
    map2(gate, up, y, n, GeluMulOf());
}
void scale_values(const float* x, float factor, float* y, size_t n) {
    map1(x, y, n, ScaleOf{set1(factor)});
}
void softcap(const float* x, float cap, float* y, size_t n) {
    map1(x, y, n, SoftcapOf{set1(cap)});
}

// On the bits: as integers, |x| keeps its order and every NaN is above infinity.
float max_abs(const float* x, size_t n) {
    const VecI size_mask = set1_i32(INT32_MAX);
    VecI most = zero_i32();
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        most = max_i32(most, and_i32(bits_of(load(x + i)), size_mask));
    const int rest = static_cast<int>(n - i);
    if (rest > 0) most = max_i32(most, and_i32(bits_of(load_n(x + i, rest)), size_mask));
    const int32_t bits = reduce_max_i32(most);
    float result;
    __builtin_memcpy(&result, &bits, 4);
    return result;
}

}  // namespace
}  // namespace nib::cpu
