// SPDX-License-Identifier: MIT
#include "tests/cpu/kernels_support.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace nib::cpu::test {

namespace {

// Where the half-float scales of a block stand; -1: none.
struct ScalePlaces {
    int first, second;
};
ScalePlaces scale_places(Type type) {
    switch (type) {
    case Type::Q4_0:
    case Type::Q5_0:
    case Type::Q8_0:
    case Type::IQ4_NL:
    case Type::IQ4_XS:
    case Type::Q1_0:
    case Type::Q2_0:
        return {0, -1};
    case Type::Q4_1:
    case Type::Q5_1:
    case Type::Q8_1:
    case Type::Q4_K:
    case Type::Q5_K:
        return {0, 2};
    case Type::Q2_K:
        return {80, 82};
    case Type::Q3_K:
        return {108, -1};
    case Type::Q6_K:
        return {208, -1};
    case Type::TQ1_0:
        return {52, -1};
    case Type::TQ2_0:
        return {64, -1};
    case Type::F16:
        return {0, -1};
    default:
        return {-1, -1};
    }
}

int nibble(const uint8_t* p, int e) {
    return e < 16 ? p[e] & 15 : p[e - 16] >> 4;
}
int bit(const uint8_t* p, int e) {
    return p[e / 8] >> e % 8 & 1;
}
float half_at(const uint8_t* p) {
    return half_to_float(static_cast<uint16_t>(p[0] | p[1] << 8));
}

// 32 weights as integers, an integer scale and minimum per 16, and the float scale and minimum.
struct PlainBlock {
    int q[32];
    int scale16[2] = {1, 1};
    int min16[2] = {0, 0};
    float d = 0, m = 0;
};

void super_block(const uint8_t* p, int s, bool five_bits, PlainBlock& o) {
    const uint8_t* scales = p + 4;
    const int scale = s < 4 ? scales[s] & 63 : (scales[s + 4] & 15) + 16 * (scales[s - 4] >> 6);
    const int min = s < 4 ? scales[s + 4] & 63 : (scales[s + 4] >> 4) + 16 * (scales[s] >> 6);
    o.d = half_at(p) * static_cast<float>(scale);
    o.m = -(half_at(p + 2) * static_cast<float>(min));
    for (int e = 0; e < 32; e++) {
        o.q[e] = p[(five_bits ? 48 : 16) + s / 2 * 32 + e] >> 4 * (s % 2) & 15;
        if (five_bits) o.q[e] += 16 * (p[16 + e] >> s & 1);
    }
}
void q6_block(const uint8_t* p, int s, PlainBlock& o) {
    o.d = half_at(p + 208);
    const int n = s / 4, r = s % 4;
    for (int e = 0; e < 32; e++) {
        const int low = p[64 * n + 32 * (r & 1) + e] >> 4 * (r >> 1) & 15;
        o.q[e] = low + 16 * (p[128 + 32 * n + e] >> 2 * r & 3) - 32;
    }
    for (int h = 0; h < 2; h++)
        o.scale16[h] = static_cast<int8_t>(p[192 + 2 * s + h]);
}
int two_bits(const uint8_t* p, int s, int e) {
    return p[32 * (s / 4) + e] >> 2 * (s % 4) & 3;
}
void q2_block(const uint8_t* p, int s, PlainBlock& o) {
    o.d = half_at(p + 80);
    o.m = half_at(p + 82);
    for (int e = 0; e < 32; e++)
        o.q[e] = two_bits(p + 16, s, e);
    for (int h = 0; h < 2; h++) {
        o.scale16[h] = p[2 * s + h] & 15;
        o.min16[h] = p[2 * s + h] >> 4;
    }
}
void q3_block(const uint8_t* p, int s, PlainBlock& o) {
    o.d = half_at(p + 108);
    for (int e = 0; e < 32; e++)
        o.q[e] = two_bits(p + 32, s, e) + 4 * (p[e] >> s & 1) - 4;
    const uint8_t* scales = p + 96;
    for (int h = 0; h < 2; h++) {
        const int i = 2 * s + h;
        const int low = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
        o.scale16[h] = low + 16 * (scales[8 + i % 4] >> 2 * (i / 4) & 3) - 32;
    }
}
constexpr int kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};
constexpr int kFp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
void iq4_xs_block(const uint8_t* p, int s, PlainBlock& o) {
    const int low = p[4 + s / 2] >> 4 * (s % 2) & 15, high = p[2 + s / 4] >> 2 * (s % 4) & 3;
    o.d = half_at(p) * static_cast<float>(low + 16 * high - 32);
    for (int e = 0; e < 32; e++)
        o.q[e] = kIq4Values[nibble(p + 8 + 16 * s, e)];
}
void mxfp4_block(const uint8_t* p, PlainBlock& o) {
    o.d = std::ldexp(1.0f, p[0] - 128);
    for (int e = 0; e < 32; e++)
        o.q[e] = kFp4Values[nibble(p + 1, e)];
}
PlainBlock plain_block(Type type, const uint8_t* row, int b) {
    PlainBlock o;
    const QuantDef& def = info(type);
    const uint8_t* p = row + row_bytes(def, uint64_t(b) * 32 / def.block_elems * def.block_elems);
    switch (type) {
    case Type::Q4_K:
    case Type::Q5_K:
        super_block(p, b % 8, type == Type::Q5_K, o);
        return o;
    case Type::Q6_K:
        q6_block(p, b % 8, o);
        return o;
    case Type::Q2_K:
        q2_block(p, b % 8, o);
        return o;
    case Type::Q3_K:
        q3_block(p, b % 8, o);
        return o;
    case Type::IQ4_XS:
        iq4_xs_block(p, b % 8, o);
        return o;
    case Type::MXFP4:
        mxfp4_block(p, o);
        return o;
    default:
        break;
    }
    o.d = half_at(p);
    if (type == Type::Q4_1 || type == Type::Q5_1) o.m = half_at(p + 2);
    for (int e = 0; e < 32; e++) {
        switch (type) {
        case Type::Q8_0:
            o.q[e] = static_cast<int8_t>(p[2 + e]);
            break;
        case Type::Q4_0:
            o.q[e] = nibble(p + 2, e) - 8;
            break;
        case Type::IQ4_NL:
            o.q[e] = kIq4Values[nibble(p + 2, e)];
            break;
        case Type::Q4_1:
            o.q[e] = nibble(p + 4, e);
            break;
        case Type::Q5_0:
            o.q[e] = nibble(p + 6, e) + 16 * bit(p + 2, e) - 16;
            break;
        case Type::Q5_1:
            o.q[e] = nibble(p + 8, e) + 16 * bit(p + 4, e);
            break;
        default:
            std::abort();
        }
    }
    return o;
}
bool has_minimum(Type type) {
    return type == Type::Q4_1 || type == Type::Q5_1 || type == Type::Q4_K || type == Type::Q5_K;
}

}  // namespace

std::vector<const Kernels*> all_levels() {
    int count = 0;
    const Kernels* const* list = usable_kernels(&count);
    return {list, list + count};
}

std::vector<Type> int8_types() {
    return {Type::Q4_0, Type::Q4_1, Type::Q5_0, Type::Q5_1,   Type::Q8_0,   Type::Q2_K, Type::Q3_K,
            Type::Q4_K, Type::Q5_K, Type::Q6_K, Type::IQ4_NL, Type::IQ4_XS, Type::MXFP4};
}

std::vector<uint8_t> random_rows(Type type, int k, int rows, Random& random) {
    const QuantDef& def = info(type);
    std::vector<uint8_t> bytes(row_bytes(def, uint64_t(k)) * size_t(rows));
    for (uint8_t& b : bytes)
        b = static_cast<uint8_t>(random());
    const ScalePlaces places = scale_places(type);
    for (size_t at = 0; at + def.block_bytes <= bytes.size(); at += def.block_bytes) {
        for (const int place : {places.first, places.second}) {
            // The high byte of a half between 2^-9 and 2^-7.
            if (place >= 0)
                bytes[at + size_t(place) + 1] = uint8_t((random() & 0x80) | 0x18 | (random() & 7));
        }
        if (type == Type::F32) {
            const float v = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
            std::memcpy(&bytes[at], &v, 4);
        }
        if (type == Type::BF16) bytes[at + 1] = uint8_t((random() & 0x80) | 0x3d);
        if (type == Type::MXFP4) bytes[at] = uint8_t(120 + random() % 10);
        if (type == Type::Q8_K) {
            const float v = 0.01f;
            std::memcpy(&bytes[at], &v, 4);
        }
        if (type == Type::F64) {
            const double v = static_cast<int32_t>(random()) * 0x1p-31;
            std::memcpy(&bytes[at], &v, 8);
        }
    }
    return bytes;
}

bool is_float_scale(Type type, size_t at) {
    if (type == Type::MXFP4) return at == 0;
    const ScalePlaces places = scale_places(type);
    for (const int place : {places.first, places.second}) {
        if (place >= 0 && (at == size_t(place) || at == size_t(place) + 1)) return true;
    }
    return false;
}

std::vector<float> random_floats(size_t n, float size, Random& random) {
    std::vector<float> v(n);
    for (float& x : v)
        x = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f * size;
    return v;
}

Packed::Packed(Type type, int k, int rows, const std::vector<uint8_t>& gguf)
    : m(plan_matrix(type, k, rows)), memory(matrix_bytes(m) + 64) {
    // Packing must not depend on what the memory held before.
    std::memset(memory.get(), 0xff, matrix_bytes(m));
    pack_panels(m, gguf.data(), 0, m.panels, memory.get());
    m.data = memory.get();
}

Quantized::Quantized(
    const Kernels& kernels, const std::vector<float>& x, size_t ldx, int k, int k_padded, int n)
    : memory(A8::bytes(n, k_padded)), a(A8::make(memory.get(), n, k_padded)) {
    std::memset(memory.get(), 0xff, A8::bytes(n, k_padded));
    kernels.quantize(x.data(), ldx, k, 0, n, a);
}

PlainToken plain_token(const float* x, int k, int k_padded) {
    PlainToken t;
    t.q.assign(size_t(k_padded), 0);
    for (int b = 0; b < k_padded / 32; b++) {
        float most = 0;
        bool finite = true;
        for (int i = b * 32; i < std::min(k, b * 32 + 32); i++) {
            finite = finite && std::isfinite(x[i]);
            most = std::max(most, std::fabs(x[i]));
        }
        float d = finite && most >= 1e-30f ? most / 127.0f : 0.0f;
        int sum = 0;
        if (d > 0) {
            for (int i = b * 32; i < std::min(k, b * 32 + 32); i++) {
                t.q[size_t(i)] = static_cast<int>(std::nearbyint(x[i] * (127.0f / most)));
                sum += t.q[size_t(i)];
            }
        }
        if (!finite) d = NAN;
        t.d.push_back(d);
        t.s.push_back(d * static_cast<float>(sum));
    }
    return t;
}

float plain_dot(Type type, const uint8_t* row, int k, const PlainToken& token) {
    float acc = 0;
    for (int b = 0; b < static_cast<int>(token.d.size()); b++) {
        PlainBlock w = {};
        if (b < k / 32) w = plain_block(type, row, b);
        int sum = 0, mins = 0;
        for (int e = 0; e < 32; e++) {
            sum += w.scale16[e / 16] * w.q[e] * token.q[size_t(b * 32 + e)];
            mins -= w.min16[e / 16] * token.q[size_t(b * 32 + e)];
        }
        if (type == Type::Q2_K) {
            const float low = static_cast<float>(mins) * w.m;
            acc = std::fma(std::fma(static_cast<float>(sum), w.d, low), token.d[size_t(b)], acc);
            continue;
        }
        acc = std::fma(static_cast<float>(sum), w.d * token.d[size_t(b)], acc);
        if (has_minimum(type)) acc = std::fma(w.m, token.s[size_t(b)], acc);
    }
    return acc;
}

bool same_bits(float a, float b) {
    return std::memcmp(&a, &b, sizeof(a)) == 0 || (std::isnan(a) && std::isnan(b));
}

std::string first_difference(const std::vector<float>& got, const std::vector<float>& want) {
    if (got.size() != want.size()) return "sizes differ";
    for (size_t i = 0; i < got.size(); i++) {
        if (same_bits(got[i], want[i])) continue;
        char text[96];
        std::snprintf(text, sizeof(text), "value %zu: got %.9g (%a), expected %.9g (%a)", i, got[i],
                      got[i], want[i], want[i]);
        return text;
    }
    return {};
}

}  // namespace nib::cpu::test
