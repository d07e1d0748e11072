// SPDX-License-Identifier: MIT
// Blocks of 256 in 16 parts: third bits @0 (32 bytes, bit k for elements 32k..32k+31), low 2 bits
// @32 (as q2_k), 6-bit part scales @96 (12 bytes: low halves in 8, upper two bits in 4), block
// scale f16 @108; value d * (scale - 32) * (q - 4).
#include "ggml-like/quants/k_search.h"

namespace nib {
namespace {

constexpr int kElems = 256, kBytes = 110;
// One step size, the one that gives the largest value of a part the last number: with a choice of
// 16 the errors become smaller, but the divergence of models does not (docs/QUANTIZE.md).
constexpr quants::KShape kShape = {.part = 16,
                                   .q_low = -4,
                                   .q_high = 3,
                                   .scale_low = -32,
                                   .scale_high = 31,
                                   .first = 0,
                                   .step = 0,
                                   .weigh = quants::Weigh::Square};

void decode_block(const uint8_t* b, float* v) {
    const float d = quants::load_half(b + 108);
    const uint8_t* packed = b + 96;
    for (int part = 0; part < 16; part++) {
        const int low = part < 8 ? packed[part] & 15 : packed[part - 8] >> 4;
        const int high = packed[8 + part % 4] >> 2 * (part / 4) & 3;
        const float scale = d * static_cast<float>(low + 16 * high - 32);
        for (int e = 16 * part; e < 16 * part + 16; e++) {
            const int q = (b[32 + 32 * (e / 128) + e % 32] >> 2 * (e % 128 / 32) & 3) +
                          4 * (b[e % 32] >> e / 32 & 1);
            v[e] = scale * static_cast<float>(q - 4);
        }
    }
}

void encode_block(const float* v, uint8_t* b) {
    const quants::KBlock found = quants::KSearch<kShape>::search(v);
    std::memset(b, 0, kBytes);
    for (int part = 0; part < 16; part++) {
        const int scale = found.scale[part] + 32;
        b[96 + part % 8] |= static_cast<uint8_t>((scale & 15) << (part < 8 ? 0 : 4));
        b[104 + part % 4] |= static_cast<uint8_t>(scale >> 4 << 2 * (part / 4));
    }
    for (int e = 0; e < kElems; e++) {
        const int q = found.q[e];
        b[e % 32] |= static_cast<uint8_t>(q >> 2 << e / 32);
        b[32 + 32 * (e / 128) + e % 32] |= static_cast<uint8_t>((q & 3) << 2 * (e % 128 / 32));
    }
    quants::store_half(b + 108, found.d);
}

void decode(const uint8_t* blocks, float* values, size_t n) {
    for (size_t i = 0; i < n / kElems; i++)
        decode_block(blocks + i * kBytes, values + i * kElems);
}

void encode(const float* values, uint8_t* blocks, size_t n) {
    for (size_t i = 0; i < n / kElems; i++)
        encode_block(values + i * kElems, blocks + i * kBytes);
}

}  // namespace

extern const QuantDef quant_q3_k = {.type = Type::Q3_K,
                                    .name = "q3_k",
                                    .block_elems = kElems,
                                    .block_bytes = kBytes,
                                    .decode = decode,
                                    .encode = encode};

}  // namespace nib
