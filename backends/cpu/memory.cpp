// SPDX-License-Identifier: MIT
// Huge-page memory over mmap: a mapping 2 MiB larger than needed, cut to an aligned one.
#include "backends/cpu/memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace nib::cpu {
namespace {

size_t page_bytes() {
    static const auto bytes = size_t(sysconf(_SC_PAGESIZE));
    return bytes;
}

size_t round_up_to(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

Error out_of_memory(size_t bytes, const char* why) {
    return {Status::OutOfMemory,
            "memory: cannot map " + std::to_string(bytes) + " bytes (" + why + ")"};
}

}  // namespace

Result<HugeBuffer> HugeBuffer::create(size_t bytes) {
    if (bytes == 0) return HugeBuffer();
    if (bytes > SIZE_MAX / 2) return out_of_memory(bytes, "more than the address space");
    const size_t mapped = round_up_to(bytes, page_bytes());
    const size_t whole = mapped + kHugePageBytes;
    void* at = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return out_of_memory(bytes, std::strerror(errno));
    auto* start = static_cast<uint8_t*>(at);
    const size_t skip = size_t(-reinterpret_cast<uintptr_t>(start)) % kHugePageBytes;
    uint8_t* data = start + skip;
    if (skip != 0) munmap(start, skip);
    const size_t rest = whole - skip - mapped;
    if (rest != 0) munmap(data + mapped, rest);
    // What does not fill a huge page keeps to small ones: the rest of it would be empty.
    const size_t huge = mapped / kHugePageBytes * kHugePageBytes;
    if (huge != 0) madvise(data, huge, MADV_HUGEPAGE);
    return HugeBuffer(data, bytes, mapped);
}

HugeBuffer::~HugeBuffer() {
    if (data_ != nullptr) munmap(data_, mapped_);
}

HugeBuffer::HugeBuffer(HugeBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
    return *this;
}

}  // namespace nib::cpu
