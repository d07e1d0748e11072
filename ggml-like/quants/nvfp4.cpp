// SPDX-License-Identifier: MIT
// Blocks of 64 in four parts of 16: part scales as unsigned 8-bit floats @0, FP4 numbers @4; value
// scale / 2 * table[q], because the table is doubled.
#include "ggml-like/quants/tables.h"

namespace nib {
namespace {

constexpr int kElems = 64, kBytes = 36;

// Unsigned E4M3 (bias 7), halved. 0x7f is not a number there and counts as 0; the top bit is
// ignored.
float half_scale(uint8_t bits) {
    const int exponent = bits >> 3 & 15;
    const float mantissa = static_cast<float>(bits & 7);
    if (bits == 0x7f) return 0;
    if (exponent == 0) return mantissa * 0x1p-10f;
    return (1 + mantissa / 8) *
           std::bit_cast<float>(static_cast<uint32_t>(exponent - 8 + 127) << 23);
}

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / kElems; block++, b += kBytes, v += kElems) {
        for (int e = 0; e < kElems; e++) {
            const int part = e / 16, i = e % 16, byte = b[4 + 8 * part + i % 8];
            const int q = i < 8 ? byte & 15 : byte >> 4;
            v[e] = half_scale(b[part]) * static_cast<float>(quants::kFp4[q]);
        }
    }
}

}  // namespace

extern const QuantDef quant_nvfp4 = {.type = Type::NVFP4,
                                     .name = "nvfp4",
                                     .block_elems = kElems,
                                     .block_bytes = kBytes,
                                     .decode = decode,
                                     .encode = nullptr};

}  // namespace nib
