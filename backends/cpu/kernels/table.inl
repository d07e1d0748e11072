// SPDX-License-Identifier: MIT
// The table of one level, from everything above.
#pragma once
#include "backends/cpu/kernels/attention.inl"
#include "backends/cpu/kernels/elementwise.inl"
#include "backends/cpu/kernels/matmul_float.inl"
#include "backends/cpu/kernels/matmul_int8.inl"
#include "backends/cpu/kernels/norm.inl"
#include "backends/cpu/kernels/quantize.inl"
#include "backends/cpu/kernels/roofline.inl"
#include "backends/cpu/kernels/rope.inl"

namespace nib::cpu {
namespace {

constexpr Kernels make_table(const char* name) {
    return {
        .name = name,
        .quantize = quantize,
        .quantize_rest = quantize_rest,
        .matmul_int8 = matmul_int8,
        .matmul_float = matmul_float,
        .rms_norm = rms_norm,
        .layer_norm = layer_norm,
        .add = add_values,
        .mul = mul_values,
        .scale = scale_values,
        .silu = silu,
        .gelu_tanh = gelu_tanh,
        .softcap = softcap,
        .rope = rope,
        .kv_store = kv_store,
        .attention = attention,
        .attention_chunk = attention_chunk,
        .attention_merge = attention_merge,
        .probe_read = probe_read,
        .probe_int8 = probe_int8,
        .probe_float = probe_float,
        .max_abs = max_abs,
    };
}

}  // namespace
}  // namespace nib::cpu
