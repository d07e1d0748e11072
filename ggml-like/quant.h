// SPDX-License-Identifier: MIT
// Element types of tensors: GGUF's numbers, block sizes, and plain decode / encode of rows.
// One file in quants/ describes one type; CMake writes the list that find_type() searches.
// Everything works through these functions; a backend may know faster ways for some types.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace nib {

// GGUF's own type ids. Ids 4, 5, 31-33, 36-38 are retired and never valid.
enum class Type : uint32_t {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q8_1 = 9,
    Q2_K = 10,
    Q3_K = 11,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    Q8_K = 15,
    IQ4_NL = 20,
    IQ4_XS = 23,
    I8 = 24,
    I16 = 25,
    I32 = 26,
    I64 = 27,
    F64 = 28,
    BF16 = 30,
    TQ1_0 = 34,
    TQ2_0 = 35,
    MXFP4 = 39,
    NVFP4 = 40,
    Q1_0 = 41,
    Q2_0 = 42,
};

struct QuantDef {
    Type type;
    const char* name;      // lower case, as people write it: "q4_k"
    uint32_t block_elems;  // values of a block; a row length is a multiple of it
    uint32_t block_bytes;
    // n values (a multiple of block_elems) from n / block_elems blocks.
    void (*decode)(const uint8_t* blocks, float* values, size_t n);
    // The inverse; nullptr when we only read the type. Values are finite.
    void (*encode)(const float* values, uint8_t* blocks, size_t n);
};

// nullptr if the id or the name (any case) is not one that we know.
const QuantDef* find_type(uint32_t id);
const QuantDef* find_type(std::string_view name);
std::span<const QuantDef* const> all_types();
inline const QuantDef& info(Type type) {
    return *find_type(static_cast<uint32_t>(type));
}
inline size_t row_bytes(const QuantDef& def, uint64_t n) {
    return static_cast<size_t>(n / def.block_elems * def.block_bytes);
}

// IEEE half and bfloat16 (round to nearest even), the same on every machine.
float half_to_float(uint16_t half);
uint16_t float_to_half(float value);
float bf16_to_float(uint16_t bits);
uint16_t float_to_bf16(float value);

}  // namespace nib
