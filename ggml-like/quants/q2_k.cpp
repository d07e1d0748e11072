// SPDX-License-Identifier: MIT
// Blocks of 256 in 16 parts: 4-bit scale and minimum of each part @0, 2-bit numbers @16, block
// scale f16 @80, block minimum f16 @82; value d * scale * q - dmin * minimum. Byte m of each 32
// holds elements m, m + 32, m + 64 and m + 96 of its half, lowest bits first.
#include "ggml-like/quants/k_search.h"

namespace nib {
namespace {

constexpr int kElems = 256, kBytes = 84;
constexpr quants::KShape kShape = {.part = 16,
                                   .q_low = 0,
                                   .q_high = 3,
                                   .scale_low = 0,
                                   .scale_high = 15,
                                   .first = -0.9f,
                                   .step = 0.12f,
                                   .weigh = quants::Weigh::Size};

void decode_block(const uint8_t* b, float* v) {
    const float d = quants::load_half(b + 80), dmin = quants::load_half(b + 82);
    for (int part = 0; part < 16; part++) {
        const float scale = d * static_cast<float>(b[part] & 15);
        const float min = dmin * static_cast<float>(b[part] >> 4);
        for (int e = 16 * part; e < 16 * part + 16; e++) {
            const int q = b[16 + 32 * (e / 128) + e % 32] >> 2 * (e % 128 / 32) & 3;
            v[e] = scale * static_cast<float>(q) - min;
        }
    }
}

void encode_block(const float* v, uint8_t* b) {
    const quants::KBlock found = quants::KSearch<kShape>::search(v);
    std::memset(b, 0, kBytes);
    for (int part = 0; part < 16; part++) {
        b[part] = static_cast<uint8_t>(found.scale[part] | found.min[part] << 4);
    }
    for (int e = 0; e < kElems; e++) {
        b[16 + 32 * (e / 128) + e % 32] |= static_cast<uint8_t>(found.q[e] << 2 * (e % 128 / 32));
    }
    quants::store_half(b + 80, found.d);
    quants::store_half(b + 82, found.dmin);
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

extern const QuantDef quant_q2_k = {.type = Type::Q2_K,
                                    .name = "q2_k",
                                    .block_elems = kElems,
                                    .block_bytes = kBytes,
                                    .decode = decode,
                                    .encode = encode};

}  // namespace nib
