// SPDX-License-Identifier: MIT
// Models with the sizes of well-known ones and random weights: as fast and as large as the real
// ones, but no download. A GGUF file with a byte-level vocabulary, so that other engines can load
// it too. The text they write means nothing.
#pragma once
#include "ggml-like/result.h"

#include <cstdint>
#include <span>
#include <string>

namespace nib::bench {

struct SyntheticModel {
    const char* name;
    const char* arch;
    int32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_vocab, n_ctx;
    float rope_base, rms_eps;
    bool tied;       // the head is the table
    bool biases;     // of q, k, v
    int32_t window;  // 0: none
};

std::span<const SyntheticModel> synthetic_models();
// BadRequest with the names that there are.
Result<const SyntheticModel*> find_synthetic(const std::string& name);

// type: one of all_types() for every matrix, or a mix: q4_k_m, q5_k_m (attn_v and ffn_down of half
// of the layers and the head get the better type). Rows that do not fit the blocks of a K type get
// the nearest type that they fit. Errors: BadRequest (type), Io.
Result<void> write_synthetic(const SyntheticModel& model,
                             const std::string& type,
                             const std::string& path);

}  // namespace nib::bench
