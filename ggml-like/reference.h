// SPDX-License-Identifier: MIT
// The reference backend: every op by its plain loops, one after the other, weights decoded to
// floats, KV in floats. It says what a plan means; tests hold every other backend against it. Slow
// on purpose.
#pragma once
#include "ggml-like/backend.h"
#include "ggml-like/op.h"

#include <memory>
#include <vector>

namespace nib {

// Keys and values of one group in floats: [block][layer][token][k then v of all heads]. A group of
// Q8_0 has the values that its blocks would be read as; F16 is not rounded.
class ReferenceKv : public KvMemory {
  public:
    ReferenceKv(const KvGroupSpec& group, int32_t n_blocks);
    size_t block_bytes() const override { return block_floats_ * sizeof(float); }
    int32_t n_blocks() const override { return n_blocks_; }
    void copy(int32_t from, int32_t to, int32_t n_tokens) override;
    void read(int32_t block, int32_t n_tokens, uint8_t* to) const override;
    void write(int32_t block, int32_t n_tokens, const uint8_t* from) override;
    // Writes k and v, each [n_kv_heads * head_dim], of one token.
    void write(int32_t block, int32_t layer, int32_t slot, const float* k, const float* v);
    // k [n_kv_heads * head_dim] and, behind it, v of one token of a layer that this group has.
    float* token(int32_t block, int32_t layer, int32_t slot);
    bool has(int32_t layer) const;

  private:
    struct Layer {
        int32_t layer, head_dim;
        size_t offset, token_floats;
    };
    const Layer& find(int32_t layer) const;
    std::vector<Layer> layers_;
    Type type_k_, type_v_;
    size_t block_floats_ = 0;
    int32_t n_blocks_;
    std::vector<float> data_;
};

// Registered as the backend "reference".

}  // namespace nib
