// SPDX-License-Identifier: MIT
// Blocks of 32: exponent u8 @0, FP4 numbers @1; value 2^(exponent - 128) * table[q].
#include "ggml-like/quants/lanes.h"
#include "ggml-like/quants/tables.h"

namespace nib {
namespace {

constexpr int kElems = 32, kBytes = 17;

// 2^(e - 128). Exponents 0 and 1 give denormals, which need no other path here.
float power(uint8_t e) {
    return std::bit_cast<float>(e < 2 ? uint32_t{0x00200000} << e
                                      : static_cast<uint32_t>(e - 1) << 23);
}

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / kElems; block++, b += kBytes, v += kElems) {
        const float d = power(b[0]);
        for (int e = 0; e < kElems; e++) {
            v[e] = d * static_cast<float>(quants::kFp4[quants::nibble32(b + 1, e)]);
        }
    }
}

// The size of the nearest FP4 number (doubled, as in the table); halves go to the smaller one.
quants::F4 nearest_size(quants::F4 size) {
    quants::F4 nearest{};
    for (int k = 0; k < 7; k++) {
        const float middle = static_cast<float>(quants::kFp4[k] + quants::kFp4[k + 1]) / 2;
        const float step = static_cast<float>(quants::kFp4[k + 1] - quants::kFp4[k]);
        nearest += size > quants::splat(middle) ? quants::splat(step) : quants::F4{};
    }
    return nearest;
}

float error_with(const float* v, float d) {
    const quants::F4 inv = quants::splat(quants::inverse(d));
    quants::F4 error{};
    for (int e = 0; e < kElems; e += 4) {
        const quants::F4 size = quants::size4(quants::load4(v + e));
        const quants::F4 off = quants::splat(d) * nearest_size(size * inv) - size;
        error += off * off;
    }
    return quants::sum4(error);
}

uint8_t number(float value, float inv) {
    const float size = std::fabs(value) * inv;
    int q = 0;
    for (int k = 0; k < 7; k++)
        q += size > static_cast<float>(quants::kFp4[k] + quants::kFp4[k + 1]) / 2;
    return static_cast<uint8_t>(value < 0 && q > 0 ? q + 8 : q);
}

// The power of two with the smallest error: the largest value becomes 4, 6 or is cut to 6, or lies
// in the next binade.
uint8_t best_exponent(const float* v) {
    constexpr int kBias = 127, kLargestPower = 2, kHighest = 254;  // 255 is not a number
    float size = 0;
    for (int e = 0; e < kElems; e++)
        size = std::max(size, std::fabs(v[e]));
    if (size == 0) return 0;
    const int middle = std::ilogb(size) - kLargestPower + kBias;
    int best = std::clamp(middle, 0, kHighest);
    float best_error = std::numeric_limits<float>::infinity();
    for (int exponent = middle - 1; exponent <= middle + 1; exponent++) {
        if (exponent < 0 || exponent > kHighest) continue;
        const float error = error_with(v, power(static_cast<uint8_t>(exponent)));
        if (error < best_error) best_error = error, best = exponent;
    }
    return static_cast<uint8_t>(best);
}

void encode(const float* v, uint8_t* b, size_t n) {
    for (size_t block = 0; block < n / kElems; block++, b += kBytes, v += kElems) {
        b[0] = best_exponent(v);
        const float inv = quants::inverse(power(b[0]));
        for (int e = 0; e < 16; e++) {
            const int low = number(v[e], inv), high = number(v[e + 16], inv);
            b[1 + e] = static_cast<uint8_t>(low | high << 4);
        }
    }
}

}  // namespace

extern const QuantDef quant_mxfp4 = {.type = Type::MXFP4,
                                     .name = "mxfp4",
                                     .block_elems = kElems,
                                     .block_bytes = kBytes,
                                     .decode = decode,
                                     .encode = encode};

}  // namespace nib
