// SPDX-License-Identifier: MIT
// Blocks of 256 in 8 parts: as q4_k, with fifth bits @16 (32 bytes, bit k for part k) and the low 4
// bits @48; value d * scale * q - dmin * minimum.
#include "ggml-like/quants/k_scales.h"

namespace nib {
namespace {

constexpr int kElems = 256, kBytes = 176;
constexpr quants::KShape kShape = {.part = 32,
                                   .q_low = 0,
                                   .q_high = 31,
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
        const uint8_t* qs = b + 48 + 32 * (part / 2);
        for (int i = 0; i < 32; i++) {
            const int q = (qs[i] >> 4 * (part % 2) & 15) + 16 * (b[16 + i] >> part & 1);
            v[32 * part + i] = scale * static_cast<float>(q) - min;
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
        const int q = found.q[e];
        b[16 + e % 32] |= static_cast<uint8_t>(q >> 4 << e / 32);
        b[48 + 32 * (e / 64) + e % 32] |= static_cast<uint8_t>((q & 15) << 4 * (e / 32 % 2));
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

extern const QuantDef quant_q5_k = {.type = Type::Q5_K,
                                    .name = "q5_k",
                                    .block_elems = kElems,
                                    .block_bytes = kBytes,
                                    .decode = decode,
                                    .encode = encode};

}  // namespace nib
