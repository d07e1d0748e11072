// SPDX-License-Identifier: MIT
// Blocks of 32: exponent u8 @0, FP4 numbers @1; value 2^(exponent - 128) * table[q].
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

}  // namespace

extern const QuantDef quant_mxfp4 = {.type = Type::MXFP4,
                                     .name = "mxfp4",
                                     .block_elems = kElems,
                                     .block_bytes = kBytes,
                                     .decode = decode,
                                     .encode = nullptr};

}  // namespace nib
