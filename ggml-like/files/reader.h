// SPDX-License-Identifier: MIT
// Arithmetic and reading that cannot go wrong quietly: sums and products that say when they wrap,
// and a cursor over bytes from outside that never leaves them. Everything that parses a file goes
// through these.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace nib {

static_assert(std::endian::native == std::endian::little, "files are read as they are");

inline std::optional<uint64_t> checked_add(uint64_t a, uint64_t b) {
    uint64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
    return sum;
}
inline std::optional<uint64_t> checked_mul(uint64_t a, uint64_t b) {
    uint64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
    return product;
}

// The next multiple of a power of two; nothing if it is beyond 2^64.
inline std::optional<uint64_t> checked_align(uint64_t value, uint64_t alignment) {
    const std::optional<uint64_t> sum = checked_add(value, alignment - 1);
    if (!sum) return std::nullopt;
    return *sum & ~(alignment - 1);
}

template <class T>
T load_unaligned(const uint8_t* p) {
    T value;
    std::memcpy(&value, p, sizeof value);
    return value;
}

class Reader {
  public:
    Reader(const uint8_t* data, uint64_t size) : data_(data), size_(size) {}

    uint64_t position() const { return at_; }
    uint64_t left() const { return size_ - at_; }
    uint64_t size() const { return size_; }

    // The next n bytes, or nullptr (and no movement) if there are fewer.
    const uint8_t* take(uint64_t n) {
        if (n > left()) return nullptr;
        const uint8_t* p = data_ + at_;
        at_ += n;
        return p;
    }

    template <class T>
    bool read(T& value) {
        const uint8_t* p = take(sizeof(T));
        if (p) value = load_unaligned<T>(p);
        return p != nullptr;
    }

    // A 64-bit length and that many bytes.
    bool read_text(std::string_view& text) {
        const uint64_t start = at_;
        uint64_t length = 0;
        const uint8_t* p = read(length) ? take(length) : nullptr;
        if (!p) {
            at_ = start;
            return false;
        }
        text = {reinterpret_cast<const char*>(p), static_cast<size_t>(length)};
        return true;
    }

  private:
    const uint8_t* data_;
    uint64_t size_;
    uint64_t at_ = 0;
};

}  // namespace nib
