// SPDX-License-Identifier: MIT
// Blocks of 256 in 8 parts: block scale f16 @0, block minimum f16 @2, packed part scales and minima
// @4, 4-bit numbers @16 (each 32 bytes: one part in the low halves, the next in the high ones);
// value d * scale * q - dmin * minimum.
#include "ggml-like/quants/k_scales.h"

namespace nib {
namespace {

constexpr int kElems = 256, kBytes = 144;
constexpr quants::KShape kShape = {.part = 32,
                                   .q_low = 0,
                                   .q_high = 15,
                                   .scale_low = 0,
                                   .scale_high = 63,
                                   .first = -1.2f,
                                   .step = 0.15f,
                                   .weigh = quants::Weigh::Size};

void decode_block(const uint8_t* b, float* v) {
    const float d = quants::load_half(b), dmin = quants::load_half(b + 2);
    for (int part = 0; part < 8; part++) {
        const quants::ScaleMin s = quants::unpack_scales(b + 4, part);
        const float scale = d * static_cast<float>(s.scale), min = dmin * static_cast<float>(s.min);
        const uint8_t* qs = b + 16 + 32 * (part / 2);
        for (int i = 0; i < 32; i++) {
            v[32 * part + i] = scale * static_cast<float>(qs[i] >> 4 * (part % 2) & 15) - min;
        }
    }
}

void encode_block(const float* v, uint8_t* b) {
    const quants::KBlock found = quants::KSearch<kShape>::search(v);
    std::memset(b, 0, kBytes);
    quants::store_half(b, found.d);
    quants::store_half(b + 2, found.dmin);
    quants::pack_scales(found, b + 4);
    for (int e = 0; e < kElems; e++) {
        b[16 + 32 * (e / 64) + e % 32] |= static_cast<uint8_t>(found.q[e] << 4 * (e / 32 % 2));
    }
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

extern const QuantDef quant_q4_k = {.type = Type::Q4_K,
                                    .name = "q4_k",
                                    .block_elems = kElems,
                                    .block_bytes = kBytes,
                                    .decode = decode,
                                    .encode = encode};

}  // namespace nib
