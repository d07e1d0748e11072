// SPDX-License-Identifier: MIT
// exp, tanh and what is made of them, on 16 lanes. Polynomials of our own, so that every level
// gives the same bits. NaN stays NaN; no finite input gives NaN.
#pragma once
#include <cstddef>
#include <cstdint>

namespace nib::cpu {
namespace {

// e^x = 2^n e^r with |r| <= ln 2 / 2 and e^r by its series to r^7 (5e-9). Results below the least
// normal float are rounded once, and overflow is infinity. At most 1 ulp.
NIB_INLINE VecF exp_of(VecF x) {
    // The clamp's second operand is x: NaN passes.
    x = min(set1(90.0f), max(set1(-110.0f), x));
    const VecF n = nearest(mul(x, set1(0x1.715476p+0f)));
    // ln 2 in two parts; n times the first is exact.
    VecF r = fma(n, set1(-0x1.62e4p-1f), x);
    r = fma(n, set1(-0x1.7f7d1cp-20f), r);
    VecF p = set1(1.0f / 5040.0f);
    p = fma(p, r, set1(1.0f / 720.0f));
    p = fma(p, r, set1(1.0f / 120.0f));
    p = fma(p, r, set1(1.0f / 24.0f));
    p = fma(p, r, set1(1.0f / 6.0f));
    p = fma(p, r, set1(0.5f));
    p = fma(p, r, set1(1.0f));
    p = fma(p, r, set1(1.0f));
    return times_power(p, n);
}

// 2^x for x <= 0 (also -inf): 2^n 2^r with |r| <= 1/2 and 2^r = 1 + r P(r), P fitted to 2e-9. Exact
// at whole numbers, else at most 1 ulp; NaN passes.
NIB_INLINE VecF exp2_of(VecF x) {
    x = max(set1(-160.0f), x);  // 2^-160 is zero
    const VecF n = nearest(x), r = sub(x, n);
    VecF p = set1(0x1.41fbbcp-13f);
    p = fma(p, r, set1(0x1.5f3e54p-10f));
    p = fma(p, r, set1(0x1.3b2d4cp-7f));
    p = fma(p, r, set1(0x1.c6aee8p-5f));
    p = fma(p, r, set1(0x1.ebfbdcp-3f));
    p = fma(p, r, set1(0x1.62e430p-1f));
    p = fma(p, r, set1(1.0f));
    return times_power(p, n);
}

// Above 0.625: 1 - 2 / (e^2|x| + 1), with the sign of x; below: x + x^3 P(x^2), P fitted to 2e-9.
NIB_INLINE VecF tanh_of(VecF x) {
    const VecI sign = and_i32(bits_of(x), set1_i32(INT32_MIN));
    const VecF size = float_of(and_i32(bits_of(x), set1_i32(INT32_MAX)));
    const VecF e = exp_of(add(size, size));
    const VecF large = sub(set1(1.0f), div(set1(2.0f), add(e, set1(1.0f))));
    const VecF z = mul(x, x);
    VecF p = set1(0.00228186133f);
    p = fma(p, z, set1(-0.00833428697f));
    p = fma(p, z, set1(0.0217659525f));
    p = fma(p, z, set1(-0.053958893f));
    p = fma(p, z, set1(0.13333302f));
    p = fma(p, z, set1(-0.333333332f));
    const VecF small = fma(mul(p, z), x, x);
    return select_less(size, set1(0.625f), small, float_of(or_i32(bits_of(large), sign)));
}

NIB_INLINE VecF silu_of(VecF x) {  // x / (1 + e^-x)
    return div(x, add(set1(1.0f), exp_of(sub(zero(), x))));
}

// 0.5 x (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3), said as x / (1 + e^-2u): the same
// function without the cancellation near -1.
NIB_INLINE VecF gelu_of(VecF x) {
    const VecF inner = mul(x, fma(mul(x, x), set1(0.044715f), set1(1.0f)));
    return div(x, add(set1(1.0f), exp_of(mul(inner, set1(-1.5957691216057308f)))));
}

NIB_INLINE VecF softcap_of(VecF x, VecF cap) {
    return mul(cap, tanh_of(div(x, cap)));
}

}  // namespace
}  // namespace nib::cpu
