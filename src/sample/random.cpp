// SPDX-License-Identifier: MIT
// Philox 4x32-10 and the uniform number made from it. Integer arithmetic only: the same bits
// everywhere.
#include "src/sample/random.h"

#include "src/sample/sampler.h"

namespace nib {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

uint32_t low(uint64_t x) {
    return static_cast<uint32_t>(x);
}

uint32_t high(uint64_t x) {
    return static_cast<uint32_t>(x >> 32);
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
    for (int round = 0; round < kRounds; ++round) {
        const uint64_t a = uint64_t{kMultiplier0} * counter[0];
        const uint64_t b = uint64_t{kMultiplier1} * counter[2];
        counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
        key[0] += kWeyl0;
        key[1] += kWeyl1;
    }
    return counter;
}

double uniform_random(uint64_t seed, uint64_t sequence, uint64_t position, uint32_t stream) {
    // Streams are few, so the upper half of a position may share a word with them.
    const std::array<uint32_t, 4> counter = {low(position), stream + (high(position) << 8),
                                             low(sequence), high(sequence)};
    const std::array<uint32_t, 4> words = philox4x32(counter, {low(seed), high(seed)});
    const uint64_t bits = (uint64_t{words[0]} << 32 | words[1]) >> 11;
    return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace nib
