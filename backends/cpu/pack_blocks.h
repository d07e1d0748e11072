// SPDX-License-Identifier: MIT
// GGUF blocks to and from a panel, for every quantized type with panels.
#pragma once
#include "ggml-like/quant.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace nib::cpu {

constexpr size_t kMostBlockBytes = 210;  // Q6_K

struct PanelType {
    Type type;
    int record_k;         // k of a record; k is padded to a multiple
    size_t record_bytes;  // of 16 rows
    size_t head_bytes;    // of 16 rows and a GGUF block: what stands before the records
    // Block `block` (in GGUF's blocks) of 16 rows: rows[r] is that block of lane r. k is padded.
    void (*put)(const uint8_t* const* rows, int k, int block, uint8_t* panel);
    // The same block of one lane back as it was in the file.
    void (*get)(const uint8_t* panel, int k, int block, int lane, uint8_t* dst);
};

// nullptr for types without quantized panels.
const PanelType* find_panel_type(Type type);
// The types whose blocks hold 256 values: pack_super.cpp.
std::span<const PanelType> super_panel_types();

}  // namespace nib::cpu
