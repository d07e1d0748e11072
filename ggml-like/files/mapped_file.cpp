// SPDX-License-Identifier: MIT
#include "ggml-like/files/mapped_file.h"

#include "ggml-like/files/fault_guard.h"
#include "ggml-like/files/text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nib {
namespace {

uintptr_t page_size() {
    static const auto bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

Error refused(const std::string& path, int error) {
    // A path that leads to nothing readable is the caller's mistake, all else is the system's
    // state.
    const bool path_is_wrong = error == ENOENT || error == EACCES || error == ELOOP ||
                               error == ENOTDIR || error == ENAMETOOLONG || error == EPERM ||
                               error == ENXIO || error == EINVAL || error == ENODEV;
    return {path_is_wrong ? Status::BadFile : Status::Io,
            join({printable(path), ": ", std::strerror(error)})};
}

}  // namespace

Result<std::unique_ptr<MappedFile>> MappedFile::open(const std::string& path) {
    if (path.find('\0') != std::string::npos) {
        return Error{Status::BadFile, join({printable(path), ": a path cannot hold a NUL byte"})};
    }
    std::unique_ptr<MappedFile> file(new (std::nothrow) MappedFile);
    if (!file) return Error{Status::OutOfMemory, join({printable(path), ": out of memory"})};
    // Without O_NONBLOCK a pipe would block here until somebody writes to it.
    do {
        file->fd_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    } while (file->fd_ < 0 && errno == EINTR);
    if (file->fd_ < 0) return refused(path, errno);
    struct stat info {};
    if (fstat(file->fd_, &info)) return refused(path, errno);
    if (S_ISDIR(info.st_mode))
        return Error{Status::BadFile, join({printable(path), ": is a directory"})};
    if (!S_ISREG(info.st_mode)) {
        return Error{Status::BadFile, join({printable(path), ": not a regular file"})};
    }
    file->size_ = static_cast<uint64_t>(info.st_size);
    file->mtime_s_ = info.st_mtim.tv_sec;
    file->mtime_ns_ = info.st_mtim.tv_nsec;
    if (file->size_ == 0) return file;
    void* data = mmap(nullptr, file->size_, PROT_READ, MAP_SHARED, file->fd_, 0);
    if (data == MAP_FAILED) {
        return Error{Status::Io,
                     join({printable(path), ": cannot map ", std::to_string(file->size_),
                           " bytes: ", std::strerror(errno)})};
    }
    file->data_ = static_cast<uint8_t*>(data);
    const auto begin = reinterpret_cast<uintptr_t>(data);
    const uintptr_t pages = (file->size_ + page_size() - 1) / page_size();
    file->range_ = guard_range(begin, begin + pages * page_size());
    if (!file->range_)
        return Error{Status::OutOfMemory, join({printable(path), ": out of memory"})};
    return file;
}

MappedFile::~MappedFile() {
    if (range_) release_range(range_);
    if (data_) munmap(data_, size_);
    if (fd_ >= 0) close(fd_);
}

bool MappedFile::contains(const void* p) const {
    const auto* byte = static_cast<const uint8_t*>(p);
    return data_ && byte >= data_ && byte < data_ + size_;
}

bool MappedFile::changed() const {
    if (range_ && range_->hit.load()) return true;
    struct stat info {};
    if (fstat(fd_, &info)) return true;
    return static_cast<uint64_t>(info.st_size) != size_ || info.st_mtim.tv_sec != mtime_s_ ||
           info.st_mtim.tv_nsec != mtime_ns_;
}

void MappedFile::drop_pages(const void* data, uint64_t bytes) const {
    if (!contains(data)) return;
    const auto begin = reinterpret_cast<uintptr_t>(data);
    const uintptr_t end =
        std::min(bytes, size_ - (begin - reinterpret_cast<uintptr_t>(data_))) + begin;
    const uintptr_t first = (begin + page_size() - 1) & ~(page_size() - 1);
    const uintptr_t last = end & ~(page_size() - 1);
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace nib
