// SPDX-License-Identifier: MIT
// Weight matrices into CPU layout and back, and the planes of activations. panels.h says where
// things lie.
//
// A quantized type has two functions: put() spreads a GGUF block of 16 rows over a panel, get()
// gathers the block of one row again. decode_row() gathers and calls the type's own decoder, so it
// gives exactly what decoding the file gives.
#include "backends/cpu/pack_blocks.h"
#include "backends/cpu/panels.h"
#include "ggml-like/result.h"

#include <algorithm>
#include <cstring>

namespace nib::cpu {

namespace {

size_t align64(size_t n) {
    return (n + 63) & ~size_t(63);
}

bool float_panels(Type type) {
    return type == Type::F32 || type == Type::F16 || type == Type::BF16;
}
size_t element_bytes(Type type) {
    return type == Type::F32 ? 4 : 2;
}

// Values of one piece that decode_panel() decodes at once.
size_t piece_elems(const QuantDef& def) {
    const size_t block = def.block_elems;
    return block * std::max<size_t>(1, 256 / block);
}

int rows_of_panel(const Matrix& m, int panel) {
    return std::min(kPanelRows, m.rows - panel * kPanelRows);
}

// Rows past the end of the matrix are blocks of zeros; so is what pads k and the head.
void pack_quantized(
    const Matrix& m, const PanelType& t, const uint8_t* rows, int n, uint8_t* panel) {
    static constexpr uint8_t kZeroBlock[kMostBlockBytes] = {};
    const QuantDef& def = info(m.type);
    const size_t stride = row_bytes(def, uint64_t(m.k));
    const int blocks = m.k / static_cast<int>(def.block_elems);
    const size_t head = head_bytes(m.k_padded, static_cast<int>(def.block_elems), t.head_bytes);
    if (head > 0) std::memset(panel + head - kVector, 0, kVector);
    if (m.k_padded > m.k) {
        std::memset(panel + m.panel_bytes - t.record_bytes, 0, t.record_bytes);
    }
    const uint8_t* block_of_row[kPanelRows];
    for (int r = 0; r < kPanelRows; r++)
        block_of_row[r] = r < n ? rows + size_t(r) * stride : kZeroBlock;
    for (int b = 0; b < blocks; b++) {
        t.put(block_of_row, m.k_padded, b, panel);
        for (int r = 0; r < n; r++)
            block_of_row[r] += def.block_bytes;
    }
}

template <class T>
void pack_floats(const Matrix& m, const uint8_t* rows, int n, uint8_t* panel) {
    std::memset(panel, 0, m.panel_bytes);
    for (int r = 0; r < n; r++) {
        const uint8_t* row = rows + size_t(r) * size_t(m.k) * sizeof(T);
        for (int i = 0; i < m.k; i++) {
            std::memcpy(panel + (size_t(i) * kPanelRows + size_t(r)) * sizeof(T),
                        row + size_t(i) * sizeof(T), sizeof(T));
        }
    }
}

void pack_rows(const Matrix& m, const uint8_t* rows, int n, uint8_t* panel) {
    const size_t used = size_t(n) * row_bytes(info(m.type), uint64_t(m.k));
    std::memcpy(panel, rows, used);
    std::memset(panel + used, 0, m.panel_bytes - used);
}

void decode_floats(const Matrix& m, const uint8_t* panel, int lane, float* out) {
    const QuantDef& def = info(m.type);
    const size_t bytes = element_bytes(m.type);
    for (int i = 0; i < m.k; i++) {
        def.decode(panel + (size_t(i) * kPanelRows + size_t(lane)) * bytes, out + i, 1);
    }
}

void decode_quantized(
    const Matrix& m, const PanelType& t, const uint8_t* panel, int lane, float* out) {
    const QuantDef& def = info(m.type);
    const int elems = static_cast<int>(def.block_elems);
    uint8_t block[kMostBlockBytes];
    for (int b = 0; b < m.k / elems; b++) {
        t.get(panel, m.k_padded, b, lane, block);
        def.decode(block, out + size_t(b) * size_t(elems), size_t(elems));
    }
}

}  // namespace

bool Matrix::int8_activations() const {
    return layout == Layout::Panels && !float_panels(type);
}

Matrix plan_matrix(Type type, int k, int rows) {
    Matrix m;
    m.type = type;
    m.k = m.k_padded = k;
    m.rows = rows;
    m.panels = (rows + kPanelRows - 1) / kPanelRows;
    const size_t length = size_t(k);
    if (float_panels(type)) {
        m.panel_bytes = align64(length * kPanelRows * element_bytes(type));
    } else if (const PanelType* t = find_panel_type(type)) {
        m.k_padded = round_up(k, t->record_k);
        const size_t records = size_t(m.k_padded / t->record_k);
        const int block = static_cast<int>(info(type).block_elems);
        m.panel_bytes = head_bytes(m.k_padded, block, t->head_bytes) + records * t->record_bytes;
    } else {
        m.layout = Layout::Rows;
        m.panel_bytes = align64(row_bytes(info(type), length) * kPanelRows);
    }
    return m;
}

void pack_panels(const Matrix& m, const uint8_t* gguf, int first, int end, uint8_t* panels) {
    const size_t stride = row_bytes(info(m.type), uint64_t(m.k));
    const PanelType* t = find_panel_type(m.type);
    for (int p = first; p < end; p++) {
        const uint8_t* rows = gguf + size_t(p) * kPanelRows * stride;
        uint8_t* panel = panels + size_t(p) * m.panel_bytes;
        const int n = rows_of_panel(m, p);
        if (m.layout == Layout::Rows) {
            pack_rows(m, rows, n, panel);
        } else if (t) {
            pack_quantized(m, *t, rows, n, panel);
        } else if (m.type == Type::F32) {
            pack_floats<uint32_t>(m, rows, n, panel);
        } else {
            pack_floats<uint16_t>(m, rows, n, panel);
        }
    }
}

void decode_row(const Matrix& m, int row, float* out) {
    const uint8_t* panel = m.data + size_t(row / kPanelRows) * m.panel_bytes;
    const int lane = row % kPanelRows;
    if (m.layout == Layout::Rows) {
        const QuantDef& def = info(m.type);
        def.decode(panel + size_t(lane) * row_bytes(def, uint64_t(m.k)), out, size_t(m.k));
    } else if (const PanelType* t = find_panel_type(m.type)) {
        decode_quantized(m, *t, panel, lane, out);
    } else {
        decode_floats(m, panel, lane, out);
    }
}

size_t decoded_panel_bytes(const Matrix& m) {
    return (size_t(m.k) * kPanelRows + piece_elems(info(m.type))) * sizeof(float);
}

void decode_panel(const Matrix& m, int panel, float* values) {
    const QuantDef& def = info(m.type);
    const size_t k = size_t(m.k), stride = row_bytes(def, k);
    const uint8_t* rows = m.data + size_t(panel) * m.panel_bytes;
    float* piece = values + k * kPanelRows;
    const int valid = rows_of_panel(m, panel);
    // Piece by piece, so that the lines that 16 rows write to stay in L1.
    for (size_t at = 0; at < k; at += piece_elems(def)) {
        const size_t n = std::min(piece_elems(def), k - at);
        for (int r = 0; r < kPanelRows; r++) {
            if (r < valid) {
                def.decode(rows + size_t(r) * stride + row_bytes(def, at), piece, n);
            } else {
                std::fill(piece, piece + n, 0.0f);
            }
            float* lane = values + at * kPanelRows + size_t(r);
            for (size_t i = 0; i < n; i++)
                lane[i * kPanelRows] = piece[i];
        }
    }
}

size_t matmul_float_scratch(const Matrix& m) {
    return m.layout == Layout::Rows ? align64(decoded_panel_bytes(m)) : 0;
}

PageShape page_shape(int head_dim, bool k_bytes, bool v_bytes) {
    const size_t values = size_t(kPageTokens) * size_t(head_dim);
    const size_t scales = size_t(round_up(head_dim, kBlock) / kBlock) * kPageTokens * 2;
    PageShape s{.head_dim = head_dim, .k_bytes = k_bytes, .v_bytes = v_bytes};
    s.k_scales = values;
    s.v = k_bytes ? values + scales : values * 2;
    s.v_scales = s.v + values;
    s.bytes = s.v + (v_bytes ? values + scales : values * 2);
    return s;
}

size_t attention_scratch(int group, int head_dim) {
    // q of bytes with its numbers (less than floats), two outputs and four numbers for each head of
    // each row; weights of a page for the most heads that go through it together.
    const size_t heads = size_t(kAttentionRows) * size_t(group);
    const size_t weights = size_t(kMostChains) * kPageTokens;
    return align64((heads * (3 * size_t(head_dim) + 4) + weights) * sizeof(float));
}

A8 A8::make(void* memory, int n, int k) {
    const size_t blocks = size_t(n) * size_t(k / kBlock);
    uint8_t* p = static_cast<uint8_t*>(memory);
    const auto take = [&p](size_t bytes) {
        uint8_t* plane = p;
        p += align64(bytes);
        return plane;
    };
    A8 a;
    a.n = n;
    a.k = k;
    a.q = reinterpret_cast<int8_t*>(take(blocks * kBlock));
    a.d = reinterpret_cast<float*>(take(blocks * 4));
    a.s = reinterpret_cast<float*>(take(blocks * 4));
    a.nsum = reinterpret_cast<int32_t*>(take(blocks * 4));
    a.nsum16 = reinterpret_cast<int32_t*>(take(blocks * 8));
    return a;
}

}  // namespace nib::cpu
