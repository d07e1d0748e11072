// SPDX-License-Identifier: MIT
// The pieces that decoder architectures share, each said once in graph ops, and the rows of their
// tensor tables.
#pragma once
#include "src/arch.h"

namespace nib {

struct QkvOptions {
    bool biases = false;  // q, k, v have biases where the file has them
    bool norms = false;   // RMS norm of each q and k head before the rotation
};

// h [n_embd] -> q, k, v with rotated q and k -> attention -> [n_embd] without the output
// projection.
Tensor self_attention(Graph& g,
                      const ModelConfig& c,
                      const LayerWeights& w,
                      Tensor h,
                      int32_t layer,
                      const QkvOptions& options);

enum class Activation { Silu, GeluTanh };
// down(act(gate(h)) * up(h)), [n_embd].
Tensor gated_ffn(Graph& g, const LayerWeights& w, Tensor h, Activation act);

// Every layer of a decoder that norms before attention and before its SwiGLU (Llama's block).
Tensor pre_norm_layers(
    Graph& g, const ModelConfig& c, const ModelWeights& w, Tensor x, const QkvOptions& options);
// Every layer of a decoder that norms before and after attention and its GELU gates (Gemma's
// block).
Tensor sandwich_norm_layers(
    Graph& g, const ModelConfig& c, const ModelWeights& w, Tensor x, const QkvOptions& options);

// The last norm and the head, on the rows whose logits are wanted.
void finish_with_head(Graph& g, const ModelConfig& c, const ModelWeights& w, Tensor x);

// Rows of tensor tables. A table is an array made of these.
#define NIB_ROWS_EMBEDDING                                                                       \
    {.gguf = "token_embd.weight",                                                                \
     .checkpoint = "model.embed_tokens.weight",                                                  \
     .field = &ModelWeights::token_embd,                                                         \
     .ne0 = Dim::Embd,                                                                           \
     .ne1 = Dim::Vocab},                                                                         \
        {.gguf = "output_norm.weight",                                                           \
         .checkpoint = "model.norm.weight",                                                      \
         .field = &ModelWeights::output_norm,                                                    \
         .ne0 = Dim::Embd},                                                                      \
    {                                                                                            \
        .gguf = "output.weight", .checkpoint = "lm_head.weight", .field = &ModelWeights::output, \
        .ne0 = Dim::Embd, .ne1 = Dim::Vocab, .need = Need::Optional                              \
    }
#define NIB_LAYER_ROW(NAME, CHECKPOINT, FIELD, NE0, NE1, NEED)                                    \
    {                                                                                             \
        .gguf = "blk.%d." NAME, .checkpoint = "model.layers.%d." CHECKPOINT,                      \
        .layer_field = &LayerWeights::FIELD, .ne0 = Dim::NE0, .ne1 = Dim::NE1, .need = Need::NEED \
    }
#define NIB_ROWS_QKV                                                                       \
    NIB_LAYER_ROW("attn_q.weight", "self_attn.q_proj.weight", wq, Embd, Q, Required),      \
        NIB_LAYER_ROW("attn_k.weight", "self_attn.k_proj.weight", wk, Embd, Kv, Required), \
        NIB_LAYER_ROW("attn_v.weight", "self_attn.v_proj.weight", wv, Embd, Kv, Required), \
        NIB_LAYER_ROW("attn_output.weight", "self_attn.o_proj.weight", wo, Q, Embd, Required)
#define NIB_ROWS_QKV_BIAS(NEED)                                                   \
    NIB_LAYER_ROW("attn_q.bias", "self_attn.q_proj.bias", bq, Q, One, NEED),      \
        NIB_LAYER_ROW("attn_k.bias", "self_attn.k_proj.bias", bk, Kv, One, NEED), \
        NIB_LAYER_ROW("attn_v.bias", "self_attn.v_proj.bias", bv, Kv, One, NEED)
#define NIB_ROWS_QK_NORM                                                                     \
    NIB_LAYER_ROW("attn_q_norm.weight", "self_attn.q_norm.weight", q_norm, HeadDim, One,     \
                  Required),                                                                 \
        NIB_LAYER_ROW("attn_k_norm.weight", "self_attn.k_norm.weight", k_norm, HeadDim, One, \
                      Required)
#define NIB_ROWS_GATED_FFN                                                                \
    NIB_LAYER_ROW("ffn_gate.weight", "mlp.gate_proj.weight", w_gate, Embd, Ff, Required), \
        NIB_LAYER_ROW("ffn_up.weight", "mlp.up_proj.weight", w_up, Embd, Ff, Required),   \
        NIB_LAYER_ROW("ffn_down.weight", "mlp.down_proj.weight", w_down, Ff, Embd, Required)
#define NIB_ROWS_SANDWICH_NORMS                                                                   \
    NIB_LAYER_ROW("attn_norm.weight", "input_layernorm.weight", attn_norm, Embd, One, Required),  \
        NIB_LAYER_ROW("post_attention_norm.weight", "post_attention_layernorm.weight",            \
                      attn_post_norm, Embd, One, Required),                                       \
        NIB_LAYER_ROW("ffn_norm.weight", "pre_feedforward_layernorm.weight", ffn_norm, Embd, One, \
                      Required),                                                                  \
        NIB_LAYER_ROW("post_ffw_norm.weight", "post_feedforward_layernorm.weight", ffn_post_norm, \
                      Embd, One, Required)
#define NIB_ROWS_PRE_NORMS                                                                       \
    NIB_LAYER_ROW("attn_norm.weight", "input_layernorm.weight", attn_norm, Embd, One, Required), \
        NIB_LAYER_ROW("ffn_norm.weight", "post_attention_layernorm.weight", ffn_norm, Embd, One, \
                      Required)

}  // namespace nib
