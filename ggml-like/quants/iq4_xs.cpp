// SPDX-License-Identifier: MIT
// Blocks of 256 in eight parts: scale f16 @0, high 2 bits of the part scales u16 @2, low 4 bits @4,
// table numbers @8; value scale * (part scale - 32) * table[q].
#include "ggml-like/quants/table_search.h"

namespace nib {
namespace {

constexpr int kElems = 256, kBytes = 136;

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / kElems; block++, b += kBytes, v += kElems) {
        const float d = quants::load_half(b);
        const int high = quants::load<uint16_t>(b + 2);
        for (int s = 0; s < 8; s++) {
            const int scale = (b[4 + s / 2] >> 4 * (s % 2) & 15) + 16 * (high >> 2 * s & 3);
            const float dl = d * static_cast<float>(scale - 32);
            for (int e = 0; e < 32; e++) {
                v[32 * s + e] =
                    dl * static_cast<float>(quants::kIq4[quants::nibble32(b + 8 + 16 * s, e)]);
            }
        }
    }
}

void encode_block(const float* v, uint8_t* b) {
    constexpr int kParts = 8, kLow = -32, kHigh = 31;
    float scales[kParts], largest = 0;
    for (int s = 0; s < kParts; s++) {
        scales[s] = quants::fit_iq4(v + 32 * s);
        if (std::fabs(scales[s]) > std::fabs(largest)) largest = scales[s];
    }
    float d = quants::half_scale(largest / kLow), ax = 0, aa = 0;
    int whole[kParts];
    for (int s = 0; s < kParts; s++) {
        whole[s] = std::clamp(quants::round_away(scales[s] * quants::inverse(d)), kLow, kHigh);
        const auto step = static_cast<float>(whole[s]);
        const auto sums = quants::refit_iq4(v + 32 * s, d * step, step);
        ax += sums.first;
        aa += sums.second;
    }
    if (const float better = ax / aa; std::isfinite(better)) d = quants::half_scale(better);
    std::memset(b, 0, kBytes);
    quants::store_half(b, d);
    uint16_t high = 0;
    for (int s = 0; s < kParts; s++) {
        const int stored = whole[s] - kLow;
        high = static_cast<uint16_t>(high | stored >> 4 << 2 * s);
        b[4 + s / 2] |= static_cast<uint8_t>((stored & 15) << 4 * (s % 2));
        quants::store_iq4(b + 8 + 16 * s, v + 32 * s, d * static_cast<float>(whole[s]));
    }
    quants::store(b + 2, high);
}

void encode(const float* values, uint8_t* blocks, size_t n) {
    for (size_t i = 0; i < n / kElems; i++)
        encode_block(values + i * kElems, blocks + i * kBytes);
}

}  // namespace

extern const QuantDef quant_iq4_xs = {.type = Type::IQ4_XS,
                                      .name = "iq4_xs",
                                      .block_elems = kElems,
                                      .block_bytes = kBytes,
                                      .decode = decode,
                                      .encode = encode};

}  // namespace nib
