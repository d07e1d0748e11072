// SPDX-License-Identifier: MIT
// One GGUF block of one row to and from its lane of a panel, for every quantized type with panels.
#pragma once
#include "ggml-like/quant.h"

#include <cstddef>
#include <cstdint>

namespace nib::cpu {

constexpr size_t kMostBlockBytes = 210;  // Q6_K

struct PanelType {
    Type type;
    int record_k;         // k of a record; k is padded to a multiple
    size_t record_bytes;  // of 16 rows
    bool has_head;        // Q6_K: the d of all blocks stand before the records
    // Block `block` (in GGUF's blocks) of lane `lane`; k is padded.
    void (*put)(const uint8_t* src, int k, int block, int lane, uint8_t* panel);
    void (*get)(const uint8_t* panel, int k, int block, int lane, uint8_t* dst);
};

// nullptr for types without quantized panels.
const PanelType* find_panel_type(Type type);
size_t q6_head_bytes(int k);

}  // namespace nib::cpu
