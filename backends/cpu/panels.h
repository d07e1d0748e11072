// SPDX-License-Identifier: MIT
// Where the parts of a P16 panel lie: shared by the packer and the kernels.
//
// A panel holds 16 rows; one 32-bit lane of a 64-byte vector belongs to one row. Along k, four
// bytes of a row form one lane, so a vector is 16 rows x 4 k. All vectors are 64-byte aligned; a
// panel is one linear stream.
//
//   type          per 16 rows
//   Q8_0          64 k: f16 d[2][16], 2 x 8 vectors of q ^ 0x80
//   Q4_0, IQ4_NL  64 k: f16 d[2][16], 2 x 4 nibble vectors
//   Q5_0          64 k: f16 d[2][16], 2 x (4 nibble vectors, 1 bit vector)
//   Q4_1          32 k: f16 d[16], m[16], 4 nibble vectors
//   Q5_1          32 k: f16 d[16], m[16], 4 nibble vectors, 1 bit vector
//   MXFP4         head of the panel: u8 exponent[16] per 32 k; 32 k: 4 nibble vectors
//   Q2_K          256 k: f16 d[16], dmin[16], scale, min << 4 [16][16], 8 x 2 two-bit vectors
//   Q3_K          head: f16 d[16] per 256 k; 256 k: low scale bits [8][16] (the two scales of 32
//   k),
//                 high scale bits [4][16] (four scales), 8 x (2 two-bit vectors, 1 bit vector)
//   Q4_K, Q5_K    256 k: f16 d[16], dmin[16], low scale bits [8][16] (scale, min << 4), high scale
//                 bits [4][16] (two sub-blocks of 2 + 2 bits), 8 x (4 nibble vectors, Q5_K: 1 bit
//                 vector)
//   Q6_K          head: f16 d[16] per 256 k; 256 k: i8 scale[16][16], 8 x (4 nibble vectors, 2
//                 two-bit vectors)
//   IQ4_XS        256 k: f16 d[16], low scale bits [4][16] (two sub-blocks), high scale bits
//   [2][16]
//                 (four sub-blocks), 8 x 4 nibble vectors
//   F32 .. F16    value [k][16]
//
// A head is padded to 64 bytes. Nibble vector i holds k = 4i .. 4i+3 low and k = 16+4i .. 19+4i
// high. Bit i of byte (row, j) of a bit vector belongs to k = 4i + j. Two-bit vector h holds
// k = 16h + 4i + j at bits 2i, 2i + 1.
#pragma once
#include "backends/cpu/kernels.h"

#include <cstddef>
#include <cstdint>

namespace nib::cpu {

constexpr size_t kVector = 64;                   // bytes
constexpr size_t kNibbles = 4 * kVector;         // 32 k of low and high nibbles
constexpr size_t kNibblesBit = 5 * kVector;      // with the fifth bits
constexpr size_t kQ8Record = 64 + 16 * kVector;  // 64 k
constexpr size_t kQ40Record = 64 + 2 * kNibbles;
constexpr size_t kQ50Record = 64 + 2 * kNibblesBit;
constexpr size_t kQ41Block = 64 + kNibbles;  // 32 k
constexpr size_t kQ51Block = 64 + kNibblesBit;
constexpr size_t kScalesLow = 64;  // offsets in a Q4_K or Q5_K record
constexpr size_t kScalesHigh = 192;
constexpr size_t kScalesEnd = 256;
constexpr size_t kQ4KRecord = kScalesEnd + 8 * kNibbles;  // 256 k
constexpr size_t kQ5KRecord = kScalesEnd + 8 * kNibblesBit;
constexpr size_t kQ6Block = 6 * kVector;  // 32 k
constexpr size_t kQ6Record = kScalesEnd + 8 * kQ6Block;
constexpr size_t kQ2Block = 2 * kVector;  // 32 k
constexpr size_t kQ2Scales = 64;          // offset in a record
constexpr size_t kQ2Parts = kQ2Scales + 256;
constexpr size_t kQ2Record = kQ2Parts + 8 * kQ2Block;
constexpr size_t kQ3Block = 3 * kVector;  // 32 k
constexpr size_t kQ3ScalesHigh = 128;     // offsets in a record
constexpr size_t kQ3Parts = 192;
constexpr size_t kQ3Record = kQ3Parts + 8 * kQ3Block;
constexpr size_t kIq4ScalesLow = 32;  // offsets in an IQ4_XS record
constexpr size_t kIq4ScalesHigh = 96;
constexpr size_t kIq4Parts = 128;
constexpr size_t kIq4XsRecord = kIq4Parts + 8 * kNibbles;
constexpr size_t kSuperHead = 32;  // of Q3_K and Q6_K, per 256 k
constexpr size_t kMxfp4Head = 16;  // per 32 k

// Bytes before the first record where each `elems` values of k have `bytes` there.
static inline constexpr size_t head_bytes(int k, int elems, size_t bytes) {
    return (size_t(k / elems) * bytes + kVector - 1) / kVector * kVector;
}

// One panel of a matrix in Layout::Rows (or of floats) as [k][16] floats; rows past the end are
// zero. Plain code. `values` holds k * 16 floats and room for one decoded piece
// (decoded_panel_bytes in all).
void decode_panel(const Matrix& m, int panel, float* values);
size_t decoded_panel_bytes(const Matrix& m);

}  // namespace nib::cpu
