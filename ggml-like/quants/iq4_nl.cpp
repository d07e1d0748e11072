// SPDX-License-Identifier: MIT
// Blocks of 32: scale f16 @0, 4-bit table numbers @2; value scale * table[q].
#include "ggml-like/quants/table_search.h"

namespace nib {
namespace {

constexpr int kElems = 32, kBytes = 18;

void decode(const uint8_t* b, float* v, size_t n) {
    for (size_t block = 0; block < n / kElems; block++, b += kBytes, v += kElems) {
        const float d = quants::load_half(b);
        for (int e = 0; e < kElems; e++) {
            v[e] = d * static_cast<float>(quants::kIq4[quants::nibble32(b + 2, e)]);
        }
    }
}

void encode(const float* v, uint8_t* b, size_t n) {
    for (size_t block = 0; block < n / kElems; block++, b += kBytes, v += kElems) {
        float d = quants::half_scale(quants::fit_iq4(v));
        const auto [ax, aa] = quants::refit_iq4(v, d, 1);
        if (const float better = ax / aa; std::isfinite(better)) d = quants::half_scale(better);
        quants::store_half(b, d);
        quants::store_iq4(b + 2, v, d);
    }
}

}  // namespace

extern const QuantDef quant_iq4_nl = {.type = Type::IQ4_NL,
                                      .name = "iq4_nl",
                                      .block_elems = kElems,
                                      .block_bytes = kBytes,
                                      .decode = decode,
                                      .encode = encode};

}  // namespace nib
