// SPDX-License-Identifier: MIT
// The two hash tables of a vocabulary: text to token, and pair of tokens to merge. Both are flat
// arrays with open addressing, built once and then only read. A seed that differs from process to
// process goes into each hash, so that no file can bring texts prepared to collide; results never
// depend on it.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace nib {

inline uint64_t mix_bits(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t table_seed();  // the same for the whole life of the process

inline uint64_t hash_bytes(const char* data, size_t n, uint64_t seed) {
    constexpr uint64_t kA = 0x9E3779B97F4A7C15u, kB = 0xD6E8FEB86659FD93u;
    uint64_t h = seed ^ (n * kA);
    for (; n >= 8; data += 8, n -= 8) {
        uint64_t word = 0;
        std::memcpy(&word, data, 8);
        h = mix_bits(h ^ word, kB);
    }
    uint64_t tail = 0;
    std::memcpy(&tail, data, n);
    return mix_bits(mix_bits(h ^ tail, kB) ^ seed, kA);
}

// Slots of a table of n entries: at most two thirds of them are taken.
inline size_t table_slots(size_t n) {
    return std::bit_ceil(n + n / 2 + 2);
}

// Text to token. The texts stay where the vocabulary has them: that of token t is
// arena[begin[t] .. begin[t + 1]). A slot has other bits of the hash than those that chose it, so
// that a text that is not there is seldom compared with one that is.
class TextTable {
  public:
    // For n texts. arena and begin must outlive the table.
    void reserve(size_t n, const char* arena, const uint32_t* begin) {
        slots_.assign(table_slots(n), Slot{});
        seed_ = table_seed();
        arena_ = arena;
        begin_ = begin;
    }
    // The first token that brings a text keeps it: insert in the order of ids.
    void insert(std::string_view text, int32_t token) {
        const uint64_t hash = hash_bytes(text.data(), text.size(), seed_);
        Slot& slot = slots_[place(text, hash)];
        if (slot.token < 0) slot = {static_cast<uint32_t>(hash >> 32), token};
    }
    int32_t find(std::string_view text) const {
        if (slots_.empty()) return -1;
        return slots_[place(text, hash_bytes(text.data(), text.size(), seed_))].token;
    }

  private:
    struct Slot {
        uint32_t hash = 0;
        int32_t token = -1;
    };

    bool is_text(int32_t token, std::string_view text) const {
        const uint32_t* begin = begin_ + token;
        return begin[1] - begin[0] == text.size() &&
               !std::memcmp(arena_ + begin[0], text.data(), text.size());
    }
    size_t place(std::string_view text, uint64_t hash) const {
        const size_t mask = slots_.size() - 1;
        size_t i = hash & mask;
        for (; slots_[i].token >= 0; i = (i + 1) & mask) {
            if (slots_[i].hash == hash >> 32 && is_text(slots_[i].token, text)) break;
        }
        return i;
    }

    std::vector<Slot> slots_;
    const char* arena_ = nullptr;
    const uint32_t* begin_ = nullptr;
    uint64_t seed_ = 0;
};

// What the pair (left, right) becomes, and how early.
struct Merge {
    uint32_t rank = UINT32_MAX;
    int32_t token = -1;
};

class MergeTable {
  public:
    void reserve(size_t n) {
        slots_.assign(table_slots(n), Slot{});
        seed_ = table_seed();
    }
    // The first merge of a pair keeps it: insert in the order of ranks.
    void insert(int32_t left, int32_t right, Merge merge) {
        const uint64_t key = key_of(left, right);
        Slot& slot = slots_[place(key)];
        if (slot.key == kEmpty) slot = {key, merge};
    }
    Merge find(int32_t left, int32_t right) const {
        if (left < 0 || right < 0) return {};
        return slots_[place(key_of(left, right))].merge;
    }

  private:
    static constexpr uint64_t kEmpty = UINT64_MAX;
    struct Slot {
        uint64_t key = kEmpty;
        Merge merge;
    };

    static uint64_t key_of(int32_t left, int32_t right) {
        return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 |
               static_cast<uint32_t>(right);
    }
    size_t place(uint64_t key) const {
        const size_t mask = slots_.size() - 1;
        size_t i = mix_bits(key ^ seed_, 0x9E3779B97F4A7C15u) & mask;
        while (slots_[i].key != kEmpty && slots_[i].key != key)
            i = (i + 1) & mask;
        return i;
    }

    std::vector<Slot> slots_;
    uint64_t seed_ = 0;
};

}  // namespace nib
