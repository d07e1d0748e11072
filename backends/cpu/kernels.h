// SPDX-License-Identifier: MIT
// The CPU kernels as one table per level (scalar, AVX2, AVX-512), chosen once at start. All levels
// give the same bits: integer dots are exact, and the float part of every output is one fixed chain
// of operations in the lane that owns the output. The number of tokens, of threads and of panels in
// a call never changes that chain.
//
// Kernel source is written once over simd/*.h (16 virtual lanes); each isa/*.cpp builds it for one
// level. Sums over a row use 16 virtual lanes (lane j takes x[16 i + j]) and one fixed tree at the
// end. Threads: kernels are pure functions of their arguments.
#pragma once
#include "ggml-like/quant.h"

#include <cstddef>
#include <cstdint>

namespace nib::cpu {

inline constexpr int kPanelRows = 16;   // rows of a panel, one lane each
inline constexpr int kBlock = 32;       // k of an activation block
inline constexpr int kTile = 16;        // tokens of an activation tile
inline constexpr int kPageTokens = 64;  // tokens of a KV block
inline constexpr int kChunkTokens =
    512;  // attention merges partial results of this many positions, in order

inline int round_up(int n, int to) {
    return (n + to - 1) / to * to;
}

// How a weight matrix lies in memory.
enum class Layout : uint8_t {
    Panels,  // P16 panels of the type; int8 activations (quantized types) or floats (F16, BF16,
             // F32)
    Rows,    // GGUF rows as they are (types without a panel form): decoded panel by panel, float
             // activations
};

// A weight matrix [k, rows] in CPU layout. Rows are padded to 16 and k to k_padded with zeros.
struct Matrix {
    Type type = Type::F32;
    Layout layout = Layout::Panels;
    int k = 0, k_padded = 0, rows = 0;
    int panels = 0;
    size_t panel_bytes = 0;  // multiple of 64
    const uint8_t* data =
        nullptr;  // 64-byte aligned, panels * panel_bytes (+ kMatrixSlack readable)

    bool int8_activations() const;
};
inline constexpr size_t kMatrixSlack =
    16384;  // prefetch may look this far past the end (never read)

// Fills everything but data for a GGUF tensor [k, rows] of the type.
Matrix plan_matrix(Type type, int k, int rows);
inline size_t matrix_bytes(const Matrix& m) {
    return size_t(m.panels) * m.panel_bytes;
}
// Packs panels first .. end from GGUF rows (row stride row_bytes(type, k); `gguf` is row 0 of the
// matrix) to `panels` (panel 0 of the matrix). Any thread, any order.
void pack_panels(const Matrix& m, const uint8_t* gguf, int first, int end, uint8_t* panels);
// Row r as floats, exactly what decoding the GGUF row gives: out[k].
void decode_row(const Matrix& m, int row, float* out);

// int8 activations of n tokens of k values, in tiles of 16 tokens: tile, block of k, token. A token
// is quantized alone, so its numbers do not depend on the batch. Padded k is zero.
//   d = max|x| / 127 per 32; q = round to nearest even of x * (127 / max|x|); s = d * sum(q)
struct A8 {
    int n = 0, k = 0;     // k is k_padded of the matrix
    int8_t* q = nullptr;  // [..][32]
    float* d = nullptr;
    float* s = nullptr;
    int32_t* nsum = nullptr;    // -sum(q)
    int32_t* nsum16 = nullptr;  // [..][2]: -sums of the halves of 16

    static size_t bytes(int n, int k) { return size_t(n) * (k / kBlock) * (32 + 20) + 512; }
    static A8 make(void* memory, int n, int k);  // memory: bytes(n, k), 64-byte aligned
    size_t index(int token, int block) const {
        const int tile = token / kTile;
        const int width = n - tile * kTile < kTile ? n - tile * kTile : kTile;
        return size_t(tile) * kTile * (k / kBlock) + size_t(block) * width + token % kTile;
    }
};

struct RopeRow {       // one token
    const float* cos;  // [n_dims / 2]
    const float* sin;  // [n_dims / 2]
    int n_dims;        // rotated values of each head; the rest is copied
    bool neox;         // pairs (i, i + n_dims / 2); else (2 i, 2 i + 1)
};

// A page: the K tile and the V tile of one KV head for kPageTokens tokens. Each is of halves, or of
// bytes with a half scale for each 32 values of a token (Q8_0; at the end of the head perhaps for
// 16). The value is scale * byte.
//   K of halves  [64 / 16][head_dim][16 tokens]
//   K of bytes   [64 / 16][head_dim / 4][16 tokens][4], 128 more than the value
//   V of both    [64][head_dim]
//   scales       [(head_dim + 31) / 32][64], behind the bytes
// Every one of them starts on a 64-byte line if the page does.
struct PageShape {
    int head_dim = 0;  // multiple of 16
    bool k_bytes = false, v_bytes = false;
    size_t k_scales = 0, v = 0, v_scales = 0;  // where they are in a page
    size_t bytes = 0;
};
PageShape page_shape(int head_dim, bool k_bytes, bool v_bytes);

inline constexpr int kAttentionRows = 4;  // most rows of one call of attention
inline constexpr int kMostChains = 6;     // most heads of rows that go through a page together

// One KV head of up to kAttentionRows rows, each of any sequence: row r is at its position and sees
// the cached positions begin(r) .. end(r) - 1. Rows next to each other that see the same page share
// its reads.
struct AttentionRows {
    struct Row {
        const float* q;  // [head_dim, group]: the heads that share this KV head
        float* out;      // the same
        const uint8_t* const* pages;  // [position / 64]: what the row does not see is not read
        int64_t position;
    };
    Row row[kAttentionRows];
    int rows;
    int group;
    PageShape shape;
    int window;     // 0: everything
    float scale;    // q . k times this
    float softcap;  // > 0: c * tanh(s / c)

    int64_t begin(int r) const {
        const int64_t first = row[r].position - window + 1;
        return window > 0 && first > 0 ? first : 0;
    }
    int64_t end(int r) const { return row[r].position + 1; }
    // Of all rows.
    int64_t first() const {
        int64_t least = begin(0);
        for (int r = 1; r < rows; r++)
            least = begin(r) < least ? begin(r) : least;
        return least;
    }
    int64_t last() const {
        int64_t most = end(0);
        for (int r = 1; r < rows; r++)
            most = end(r) > most ? end(r) : most;
        return most;
    }
};

inline constexpr size_t kProbeInt8Macs = 8 * 8 * 16 * 4;  // of one round of probe_int8
inline constexpr size_t kProbeFloatMacs = 8 * 8 * 16;     // of one round of probe_float

struct Kernels {
    const char* name;  // "scalar", "avx2", "avx512"

    // x[token * ldx + i], k values each (a.k >= k, the rest is zero), for tokens first .. end of a.
    void (*quantize)(const float* x, size_t ldx, int k, int first, int end, A8& a);
    // The same for what `high`, made from the same x, leaves of it: with both, a value has about 16
    // bits.
    void (*quantize_rest)(
        const float* x, size_t ldx, int k, int first, int end, const A8& high, A8& rest);
    // y[token * ldy + row] for panels first .. end of m and all tokens of a; rows past m.rows are
    // not written. `add`: null, or values with y's strides that are added to the finished sums (one
    // rounding each): y = sum + add. `bias`: null or [rows], added before `add`.
    void (*matmul_int8)(const Matrix& m,
                        int first,
                        int end,
                        const A8& a,
                        const float* bias,
                        const float* add,
                        float* y,
                        size_t ldy);
    // The same for float activations x[token * ldx + i], n tokens: one chain of fma over k per
    // output. scratch: matmul_float_scratch(m) bytes, 64-byte aligned, one per thread.
    void (*matmul_float)(const Matrix& m,
                         int first,
                         int end,
                         const float* x,
                         size_t ldx,
                         int n,
                         const float* bias,
                         const float* add,
                         float* y,
                         size_t ldy,
                         void* scratch);

    // y = x / sqrt(mean(x^2) + eps) * w for one row of n values (w null: without); y may be x.
    void (*rms_norm)(const float* x, const float* w, float* y, int n, float eps);
    // y = (x - mean) / sqrt(var + eps) * w + b
    void (*layer_norm)(const float* x, const float* w, const float* b, float* y, int n, float eps);
    void (*add)(const float* a, const float* b, float* y, size_t n);
    void (*mul)(const float* a, const float* b, float* y, size_t n);
    void (*scale)(const float* x, float factor, float* y, size_t n);
    void (*silu)(const float* gate, const float* up, float* y, size_t n);       // silu(gate) * up
    void (*gelu_tanh)(const float* gate, const float* up, float* y, size_t n);  // gelu(gate) * up
    void (*softcap)(const float* x, float cap, float* y, size_t n);  // cap * tanh(x / cap)
    void (*rope)(
        const float* x, const RopeRow& r, int head_dim, int heads, float* y);  // y may be x
    // Writes one token's k and v of one KV head to its place (slot 0..63) in a page. Bytes and
    // scales are those of a Q8_0 block; a block with a value that is not finite has the scale NaN.
    void (*kv_store)(
        const float* k, const float* v, const PageShape& shape, int slot, uint8_t* page);
    // scratch: attention_scratch(group, head_dim) bytes, 64-byte aligned, one per thread.
    void (*attention)(const AttentionRows& rows, void* scratch);
    // The same in parts with the same bits: positions chunk * kChunkTokens on, kChunkTokens of
    // them, to `part`, attention_part_floats; any thread, any order.
    void (*attention_chunk)(const AttentionRows& rows, int64_t chunk, float* part, void* scratch);
    // Then the parts of all chunks from that of first() on, in order and one after another.
    void (*attention_merge)(const AttentionRows& rows, const float* parts, int n, void* scratch);
    // What the level can do at most (roofline.h). Each returns something made of all that it
    // computed, so that no part of it can be left out.
    // Reads the bytes (a multiple of 1024, 64-byte aligned), fetching `ahead` bytes before use.
    int32_t (*probe_read)(const uint8_t* bytes, size_t n, size_t ahead);
    // rounds * kProbeInt8Macs multiplications of bytes; rounds * kProbeFloatMacs of floats.
    int32_t (*probe_int8)(size_t rounds);
    float (*probe_float)(size_t rounds);
    // max |x|, NaN if any value is NaN.
    float (*max_abs)(const float* x, size_t n);
};
size_t matmul_float_scratch(const Matrix& m);
size_t attention_scratch(int group, int head_dim);
// Whole vectors for each part, so that the next one is aligned.
inline size_t attention_part_floats(int rows, int group, int head_dim) {
    return size_t(round_up(rows * group * (head_dim + 2), 16));
}

// The levels built in and usable on this CPU, best first; "scalar" is always there.
const Kernels* const* usable_kernels(int* count);
// By name, nullptr if unknown or not usable here; "" = the best.
const Kernels* find_kernels(const char* name);

}  // namespace nib::cpu
