// SPDX-License-Identifier: MIT
// Writing a file so that its final name holds the old file or the whole new one, never a part: the
// bytes go to a hidden file in the same folder, which commit() syncs and renames. A crash leaves
// only the hidden file; the next writer in that folder removes it (it is locked while its writer
// lives).
#pragma once
#include "ggml-like/result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace nib {

class AtomicFile {
  public:
    // Refuses a path that is there and is not a regular file.
    static Result<std::unique_ptr<AtomicFile>> create(const std::string& path);
    ~AtomicFile();  // without commit(): removes what was written
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;

    const std::string& path() const { return path_; }
    uint64_t bytes() const { return bytes_; }  // written so far
    Result<void> write(const void* bytes, size_t n);
    Result<void> commit();

  private:
    AtomicFile() = default;
    Error failed(const char* action) const;
    Result<void> open_hidden();
    Result<void> flush();
    Result<void> write_out(const uint8_t* p, size_t n);

    std::string path_, folder_, hidden_;
    int fd_ = -1;
    uint64_t bytes_ = 0;
    std::vector<uint8_t> buffer_;
};

}  // namespace nib
