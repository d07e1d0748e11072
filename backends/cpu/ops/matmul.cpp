// SPDX-License-Identifier: MIT
// matmul: quantized weights take int8 activations, so the input is quantized first (once for all
// matmuls that follow each other on the same input: q, k, v; gate, up). A unit is one panel of 16
// rows. High precision: what int8 leaves of the input is quantized too, its product comes first and
// is added. While others finish the op before, a thread that waits fetches the first panels of its
// range.
#include "backends/cpu/op.h"

#include <algorithm>

namespace nib::cpu {
namespace {

void quantize(const Instruction& i, const Pass& p, int first, int end, int) {
    A8 a = A8::make(p.a8, p.n, i.matrix->k_padded);
    p.kernels->quantize(i.x.row(p, 0), static_cast<size_t>(i.x.stride), i.matrix->k, first, end, a);
}

void quantize_both(const Instruction& i, const Pass& p, int first, int end, int thread) {
    quantize(i, p, first, end, thread);
    const A8 high = A8::make(p.a8, p.n, i.matrix->k_padded);
    A8 rest = A8::make(p.a8_rest, p.n, i.matrix->k_padded);
    p.kernels->quantize_rest(i.x.row(p, 0), static_cast<size_t>(i.x.stride), i.matrix->k, first,
                             end, high, rest);
}

// The start of a panel: what a thread reads first when the op begins.
void panels_ahead(const Instruction& i, int first, int part) {
    constexpr size_t kPartBytes = 512;
    const uint8_t* at = i.matrix->data + static_cast<size_t>(first) * i.matrix->panel_bytes +
                        static_cast<size_t>(part) * kPartBytes;
    for (size_t line = 0; line < kPartBytes; line += 64)
        __builtin_prefetch(at + line, 0, 2);
}

int panels(const Instruction& i, const Pass&) {
    return i.matrix->panels;
}

// About 20 us: a thread that loses its core holds others up for one claim at most, and claiming
// costs nothing beside it. Bytes at 25 GB/s and 100 GMAC/s are rough rates of one core.
int panels_of_a_claim(const Instruction& i, const Pass& p) {
    const double us =
        static_cast<double>(i.matrix->panel_bytes) / 25e3 + 16.0 * i.matrix->k_padded * p.n / 100e3;
    return static_cast<int>(std::clamp(20 / us, 1.0, 65535.0));
}

void multiply_int8(const Instruction& i, const Pass& p, int first, int end, int) {
    const A8 a = A8::make(p.a8, p.n, i.matrix->k_padded);
    p.kernels->matmul_int8(*i.matrix, first, end, a, i.vector, i.has_y ? i.y.row(p, 0) : nullptr,
                           i.out.row(p, 0), static_cast<size_t>(i.out.stride));
}

void multiply_precise(const Instruction& i, const Pass& p, int first, int end, int) {
    float* y = i.out.row(p, 0);
    const auto stride = static_cast<size_t>(i.out.stride);
    const A8 rest = A8::make(p.a8_rest, p.n, i.matrix->k_padded);
    p.kernels->matmul_int8(*i.matrix, first, end, rest, nullptr, nullptr, y, stride);
    const A8 high = A8::make(p.a8, p.n, i.matrix->k_padded);
    p.kernels->matmul_int8(*i.matrix, first, end, high, nullptr, y, y, stride);
}

void multiply_float(const Instruction& i, const Pass& p, int first, int end, int thread) {
    p.kernels->matmul_float(*i.matrix, first, end, i.x.row(p, 0), static_cast<size_t>(i.x.stride),
                            p.n, i.vector, i.has_y ? i.y.row(p, 0) : nullptr, i.out.row(p, 0),
                            static_cast<size_t>(i.out.stride), p.scratch[thread].bytes);
}

// The residual is read with the strides of the result. A precise matmul has no epilogue.
bool supports(const Graph& graph, const Node& node) {
    if (node.params.precise && (node.weights.size() > 1 || node.inputs.size() > 1)) return false;
    return node.inputs.size() < 2 || graph.node(node.inputs[1]).shape.width() == node.shape.width();
}

void lower(Lowering& l, int32_t index) {
    const Node& node = l.node(index);
    Instruction i = l.make(index, "matmul");
    i.vector = node.weights.size() > 1 ? l.vector(node.weights[1]) : nullptr;
    i.most = panels_of_a_claim;
    i.units = panels;
    i.ahead = panels_ahead;
    i.run = multiply_float;
    if (i.matrix->int8_activations()) {
        const int32_t input = node.inputs[0].node;
        if (l.quantized != input || l.quantized_k != i.matrix->k_padded) {
            Instruction q = i;
            q.name = "quantize";
            q.units = nullptr;
            q.most = nullptr;
            q.ahead = nullptr;
            q.y = q.out = {};  // it writes the int8 buffer
            q.row_work = 2 * i.matrix->k_padded;
            q.run = quantize;
            l.push(q);
            l.quantized = input;
            l.quantized_k = i.matrix->k_padded;
            l.quantized_at = l.out->size() - 1;
            l.need_a8(A8::bytes(l.max_rows(node.shape), i.matrix->k_padded));
        }
        i.run = multiply_int8;
        if (node.params.precise) {
            (*l.out)[l.quantized_at].run = quantize_both;
            l.needs_rest = true;
            i.run = multiply_precise;
        }
    } else {
        l.need_scratch(matmul_float_scratch(*i.matrix));
    }
    l.push(i);
}

}  // namespace

extern const CpuOp cpu_op_matmul = {.name = "matmul", .supports = supports, .lower = lower};

}  // namespace nib::cpu
