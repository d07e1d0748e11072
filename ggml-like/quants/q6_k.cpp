// SPDX-License-Identifier: MIT
// Blocks of 256 in 16 parts: low 4 bits @0 (128 bytes), upper 2 bits @128 (64 bytes), signed part
// scales @192, block scale f16 @208; value d * scale * (q - 32). A half of 128 elements is four
// rows of 32: rows 0 and 2 share the first 32 low bytes, rows 1 and 3 the second; the upper bits of
// all four share one byte.
#include "ggml-like/quants/k_search.h"

namespace nib {
namespace {

constexpr int kElems = 256, kBytes = 210;
constexpr quants::KShape kShape = {.part = 16,
                                   .q_low = -32,
                                   .q_high = 31,
                                   .scale_low = -128,
                                   .scale_high = 127,
                                   .first = -0.9f,
                                   .step = 0.22f,
                                   .weigh = quants::Weigh::Square};

void decode_block(const uint8_t* b, float* v) {
    const float d = quants::load_half(b + 208);
    for (int part = 0; part < 16; part++) {
        const float scale = d * static_cast<float>(static_cast<int8_t>(b[192 + part]));
        for (int e = 16 * part; e < 16 * part + 16; e++) {
            const int half = e / 128, row = e % 128 / 32, i = e % 32;
            const int low = b[64 * half + 32 * (row & 1) + i] >> 4 * (row >> 1) & 15;
            const int high = b[128 + 32 * half + i] >> 2 * row & 3;
            v[e] = scale * static_cast<float>(low + 16 * high - 32);
        }
    }
}

void encode_block(const float* v, uint8_t* b) {
    const quants::KBlock found = quants::KSearch<kShape>::search(v);
    std::memset(b, 0, kBytes);
    for (int part = 0; part < 16; part++)
        b[192 + part] = static_cast<uint8_t>(found.scale[part]);
    for (int e = 0; e < kElems; e++) {
        const int half = e / 128, row = e % 128 / 32, i = e % 32, q = found.q[e];
        b[64 * half + 32 * (row & 1) + i] |= static_cast<uint8_t>((q & 15) << 4 * (row >> 1));
        b[128 + 32 * half + i] |= static_cast<uint8_t>(q >> 4 << 2 * row);
    }
    quants::store_half(b + 208, found.d);
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

extern const QuantDef quant_q6_k = {.type = Type::Q6_K,
                                    .name = "q6_k",
                                    .block_elems = kElems,
                                    .block_bytes = kBytes,
                                    .decode = decode,
                                    .encode = encode};

}  // namespace nib
