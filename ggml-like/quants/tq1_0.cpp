// SPDX-License-Identifier: MIT
// Ternary blocks of 256: five values per byte in base 3 @0 (48 bytes), four per byte @48 (4 bytes),
// scale f16 @52; value scale * (digit - 1). A byte holds the fraction of a number in [0, 3^5) by
// 3^5, so that its digits come out from the top by multiplications.
#include "ggml-like/quants/block.h"

namespace nib {
namespace {

constexpr int kElems = 256, kBytes = 54;

int digit(uint8_t byte, int index) {
    static constexpr uint8_t kPower[5] = {1, 3, 9, 27, 81};
    const auto rest = static_cast<uint8_t>(byte * kPower[index]);
    return rest * 3 >> 8;
}

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / kElems; block++, b += kBytes, v += kElems) {
        const float d = quants::load_half(b + 52);
        for (int e = 0; e < kElems; e++) {
            int q = 0;
            if (e < 160) {
                q = digit(b[e % 32], e / 32);
            } else if (e < 240) {
                q = digit(b[32 + (e - 160) % 16], (e - 160) / 16);
            } else {
                q = digit(b[48 + (e - 240) % 4], (e - 240) / 4);
            }
            v[e] = d * static_cast<float>(q - 1);
        }
    }
}

}  // namespace

extern const QuantDef quant_tq1_0 = {.type = Type::TQ1_0,
                                     .name = "tq1_0",
                                     .block_elems = kElems,
                                     .block_bytes = kBytes,
                                     .decode = decode,
                                     .encode = nullptr};

}  // namespace nib
