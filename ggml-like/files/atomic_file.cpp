// SPDX-License-Identifier: MIT
#include "ggml-like/files/atomic_file.h"

#include "ggml-like/files/text.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nib {
namespace {

constexpr char kHiddenPrefix[] = ".nib-write-";
constexpr size_t kBufferBytes = 1 << 20;

// The process's file mode mask, without changing it for other threads even for a moment.
mode_t current_umask() {
    unsigned mask = 022;
    if (std::FILE* status = std::fopen("/proc/self/status", "re")) {
        char line[256];
        while (std::fgets(line, sizeof line, status)) {
            if (std::sscanf(line, "Umask: %o", &mask) == 1) break;
        }
        std::fclose(status);
    }
    return static_cast<mode_t>(mask & 0777);
}

// Hidden files whose writer is gone: nobody holds their lock.
void remove_stale(const std::string& folder) {
    DIR* entries = opendir(folder.c_str());
    if (!entries) return;
    while (const dirent* entry = readdir(entries)) {
        if (std::strncmp(entry->d_name, kHiddenPrefix, sizeof kHiddenPrefix - 1) != 0) continue;
        const int fd =
            openat(dirfd(entries), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(dirfd(entries), entry->d_name, 0);
        close(fd);
    }
    closedir(entries);
}

}  // namespace

Error AtomicFile::failed(const char* action) const {
    return {Status::Io, join({printable(path_), ": cannot ", action, ": ", std::strerror(errno)})};
}

Result<std::unique_ptr<AtomicFile>> AtomicFile::create(const std::string& path) {
    std::unique_ptr<AtomicFile> file(new AtomicFile);
    file->path_ = path;
    const size_t slash = path.rfind('/');
    file->folder_ = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    if (path.empty() || path.back() == '/' || path.find('\0') != std::string::npos) {
        return Error{Status::BadRequest, join({quoted(path), ": not a file name"})};
    }
    struct stat info {};
    if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
        return Error{Status::BadRequest,
                     join({printable(path),
                           S_ISDIR(info.st_mode) ? ": is a directory" : ": not a regular file"})};
    }
    remove_stale(file->folder_);
    NIB_TRY(file->open_hidden());
    file->buffer_.reserve(kBufferBytes);
    return file;
}

Result<void> AtomicFile::open_hidden() {
    constexpr int kAttempts = 100;
    for (int i = 0; i < kAttempts; i++) {
        hidden_ = join({folder_, "/", kHiddenPrefix, "XXXXXX"});
        fd_ = mkostemp(hidden_.data(), O_CLOEXEC);  // mode 0600
        if (fd_ < 0) {
            hidden_.clear();
            return failed("create");
        }
        // Another writer may have taken it for a stale one before it was locked. File systems
        // without locks are fine: nobody can lock it there to remove it.
        struct stat info {};
        const bool taken = flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!taken && fstat(fd_, &info) == 0 && info.st_nlink > 0) return {};
        unlink(hidden_.c_str());
        close(fd_);
        fd_ = -1;
    }
    hidden_.clear();
    errno = EBUSY;
    return failed("create");
}

AtomicFile::~AtomicFile() {
    if (!hidden_.empty()) unlink(hidden_.c_str());
    if (fd_ >= 0) close(fd_);
}

Result<void> AtomicFile::write_out(const uint8_t* p, size_t n) {
    while (n > 0) {
        const ssize_t done = ::write(fd_, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return failed("write");
        p += done;
        n -= static_cast<size_t>(done);
    }
    return {};
}

Result<void> AtomicFile::flush() {
    NIB_TRY(write_out(buffer_.data(), buffer_.size()));
    buffer_.clear();
    return {};
}

Result<void> AtomicFile::write(const void* bytes, size_t n) {
    const auto* p = static_cast<const uint8_t*>(bytes);
    bytes_ += n;
    if (buffer_.size() + n > kBufferBytes) NIB_TRY(flush());
    if (n > kBufferBytes) return write_out(p, n);
    buffer_.insert(buffer_.end(), p, p + n);
    return {};
}

Result<void> AtomicFile::commit() {
    NIB_TRY(flush());
    if (fchmod(fd_, 0666 & ~current_umask())) return failed("set the mode");
    if (fsync(fd_)) return failed("sync");
    if (rename(hidden_.c_str(), path_.c_str())) return failed("rename");
    hidden_.clear();
    // The new name itself is on disk only after the folder is.
    const int folder = open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return failed("open the folder");
    const int synced = fsync(folder);
    const int reason = errno;
    close(folder);
    errno = reason;
    // Some file systems cannot sync a folder and say so; the rename stands there as well as it can.
    if (synced && errno != EINVAL) return failed("sync the folder");
    return {};
}

}  // namespace nib
