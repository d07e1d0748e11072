// SPDX-License-Identifier: MIT
// A regular file mapped for reading. If the file shrinks while it is mapped, or the disk fails, a
// read gives zeros instead of a signal and changed() becomes true: whoever uses the bytes asks
// before it trusts what it made of them.
//
// Threads: any thread may read and ask.
#pragma once
#include "ggml-like/result.h"

#include <cstdint>
#include <memory>
#include <string>

namespace nib {

struct FaultRange;

class MappedFile {
  public:
    // Errors: BadFile if there is no such readable regular file, Io if the system refuses for other
    // reasons. Never blocks on a pipe or a device. An empty file is fine: no bytes.
    static Result<std::unique_ptr<MappedFile>> open(const std::string& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    const uint8_t* data() const { return data_; }
    uint64_t size() const { return size_; }
    bool contains(const void* p) const;

    // The file's size or modification time is not what it was, or a read of it failed.
    bool changed() const;
    // Gives whole pages inside [data, data + bytes) back to the system.
    void drop_pages(const void* data, uint64_t bytes) const;

  private:
    MappedFile() = default;
    int fd_ = -1;
    uint8_t* data_ = nullptr;
    uint64_t size_ = 0;
    int64_t mtime_s_ = 0, mtime_ns_ = 0;
    FaultRange* range_ = nullptr;
};

}  // namespace nib
