// SPDX-License-Identifier: MIT
// What the kernel tests share: random rows of any type, the plain meaning of a quantized dot
// product, and comparison by bits.
#pragma once
#include "backends/cpu/kernels.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace nib::cpu::test {

using Random = std::mt19937;

// Memory that starts on a 64-byte line.
class Lines {
  public:
    explicit Lines(size_t bytes)
        : memory_(static_cast<uint8_t*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)),
                  std::free) {}
    uint8_t* get() const { return memory_.get(); }

  private:
    std::unique_ptr<uint8_t, void (*)(void*)> memory_;
};

std::vector<const Kernels*> all_levels();
// The types with int8 panels.
std::vector<Type> int8_types();

// GGUF rows of random bits with finite scales of both signs.
std::vector<uint8_t> random_rows(Type type, int k, int rows, Random& random);
// Whether byte `at` of a block belongs to a float scale, minimum or exponent.
bool is_float_scale(Type type, size_t at);
std::vector<float> random_floats(size_t n, float size, Random& random);

// A packed matrix with its memory.
struct Packed {
    Packed(Type type, int k, int rows, const std::vector<uint8_t>& gguf);
    Matrix m;
    Lines memory;
};
// Quantized activations with their memory.
struct Quantized {
    Quantized(const Kernels& kernels,
              const std::vector<float>& x,
              size_t ldx,
              int k,
              int k_padded,
              int n);
    Lines memory;
    A8 a;
};

// The activations of one token, straight from the formula.
struct PlainToken {
    std::vector<int> q;
    std::vector<float> d, s;
};
PlainToken plain_token(const float* x, int k, int k_padded);
// The float chain of one output, straight from GGUF blocks; padded blocks add zero.
float plain_dot(Type type, const uint8_t* row, int k, const PlainToken& token);

// Equal bits, or both NaN. The message names the first difference.
bool same_bits(float a, float b);
std::string first_difference(const std::vector<float>& got, const std::vector<float>& want);

}  // namespace nib::cpu::test
