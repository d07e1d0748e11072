// SPDX-License-Identifier: MIT
// Large anonymous memory for weights, the KV pool and activations: aligned to 2 MiB and offered to
// the kernel for huge pages, so that streaming gigabytes does not wait for address translation.
// Always true: the bytes are zero until written; a page takes real memory from its first write on.
#pragma once
#include "ggml-like/result.h"

#include <cstddef>
#include <cstdint>

namespace nib::cpu {

inline constexpr size_t kHugePageBytes = size_t(2) << 20;

class HugeBuffer {
  public:
    HugeBuffer() = default;  // owns nothing
    // OutOfMemory if the system refuses; the message names the bytes.
    static Result<HugeBuffer> create(size_t bytes);
    ~HugeBuffer();
    HugeBuffer(HugeBuffer&& other) noexcept;
    HugeBuffer& operator=(HugeBuffer&& other) noexcept;
    HugeBuffer(const HugeBuffer&) = delete;
    HugeBuffer& operator=(const HugeBuffer&) = delete;

    uint8_t* data() { return data_; }
    const uint8_t* data() const { return data_; }
    size_t bytes() const { return bytes_; }  // as asked for
    bool empty() const { return bytes_ == 0; }

  private:
    HugeBuffer(uint8_t* data, size_t bytes, size_t mapped)
        : data_(data), bytes_(bytes), mapped_(mapped) {}

    uint8_t* data_ = nullptr;
    size_t bytes_ = 0;
    size_t mapped_ = 0;  // what data_ maps, in whole pages
};

}  // namespace nib::cpu
