// SPDX-License-Identifier: MIT
#include "src/kv/state_file.h"

#include "ggml-like/files/atomic_file.h"
#include "ggml-like/files/text.h"
#include "ggml-like/quant.h"
#include "src/kv/hash.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nib {
namespace {

constexpr char kMagic[8] = {'N', 'I', 'B', 'S', 'T', 'A', 'T', 'E'};
constexpr uint32_t kVersion = 1;
constexpr size_t kNameMax = 200;  // of 255 that a file system gives

struct Header {
    char magic[8];
    uint32_t version;
    uint32_t block_tokens;
    uint64_t model;
    uint64_t owner;
    char build[64];  // with a final zero
    char type_k[8], type_v[8];
    uint32_t n_groups;
    uint32_t zero;
    uint64_t n_tokens;
    uint64_t n_bytes;
};
static_assert(sizeof(Header) == 136);

struct GroupRecord {
    uint32_t window;
    uint32_t zero;
    uint64_t block_bytes;
};
static_assert(sizeof(GroupRecord) == 16);

template <size_t N>
void put(char (&to)[N], const std::string& text) {
    std::memcpy(to, text.data(), std::min(text.size(), N - 1));
}

template <size_t N>
std::string got(const char (&from)[N]) {
    return printable(std::string_view(from, strnlen(from, N)));
}

Header header_of(const StateIdentity& identity, uint64_t owner) {
    Header h = {};
    std::memcpy(h.magic, kMagic, sizeof kMagic);
    h.version = kVersion;
    h.block_tokens = kBlockTokens;
    h.model = identity.model;
    h.owner = owner;
    put(h.build, identity.build);
    put(h.type_k, identity.type_k);
    put(h.type_v, identity.type_v);
    h.n_groups = static_cast<uint32_t>(identity.groups.size());
    return h;
}

std::vector<GroupRecord> records_of(const StateIdentity& identity) {
    std::vector<GroupRecord> records;
    for (const StateIdentity::Group& g : identity.groups)
        records.push_back({static_cast<uint32_t>(g.window), 0, g.block_bytes});
    return records;
}

uint64_t hash_of(const Header& h, const std::vector<GroupRecord>& groups, const KvState& state) {
    uint64_t hash = xxh3(&h, sizeof h);
    hash = xxh3(groups.data(), groups.size() * sizeof(GroupRecord), hash);
    hash = xxh3(state.tokens.data(), state.tokens.size() * sizeof(int32_t), hash);
    return xxh3(state.bytes.data(), state.bytes.size(), hash);
}

std::string hex(uint64_t value) {
    std::string text;
    for (int shift = 60; shift >= 0; shift -= 4)
        text += "0123456789abcdef"[value >> shift & 15];
    return text;
}

// A file descriptor that is closed at the end of its scope.
struct File {
    explicit File(int number) : fd(number) {}
    ~File() {
        if (fd >= 0) close(fd);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    const int fd;
};

bool read_all(int fd, void* to, uint64_t n, uint64_t at) {
    auto* p = static_cast<uint8_t*>(to);
    while (n > 0) {
        const ssize_t done = pread(fd, p, n, static_cast<off_t>(at));
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        p += done;
        at += static_cast<uint64_t>(done);
        n -= static_cast<uint64_t>(done);
    }
    return true;
}

// The names that Windows keeps for devices, with any ending: a folder may be shared with it.
bool is_device_name(std::string name) {
    name.resize(std::min(name.find('.'), name.size()));
    for (char& c : name)
        c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    if (name == "CON" || name == "PRN" || name == "AUX" || name == "NUL") return true;
    return name.size() == 4 && (name.starts_with("COM") || name.starts_with("LPT")) &&
           name[3] >= '0' && name[3] <= '9';
}

// Reads and checks one file; every step goes by what the steps before it have found true.
class Reader {
  public:
    Reader(int fd, const std::string& name, const StateIdentity& identity)
        : fd_(fd), name_(name), identity_(identity) {}

    Result<uint64_t> read(uint64_t owner, KvState& state);

  private:
    Error damaged(const std::string& what) const {
        return {Status::BadFile, "filename: " + name_ + ": " + what};
    }
    Error other(const char* what, const std::string& expected, const std::string& found) const {
        return {Status::Unsupported, join({"filename: ", name_, ": ", what, ": expected ", expected,
                                           ", the state has ", found})};
    }
    Result<void> read_header(uint64_t owner);
    Result<void> check_header() const;
    Result<void> check_sizes() const;
    Result<void> read_rest(KvState& state);

    const int fd_;
    const std::string& name_;
    const StateIdentity& identity_;
    uint64_t size_ = 0;
    Header h_ = {};
    std::vector<GroupRecord> groups_;
};

Result<void> Reader::read_header(uint64_t owner) {
    struct stat info {};
    if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
        return Error{Status::BadRequest, "filename: " + name_ + ": expected a regular file"};
    }
    size_ = static_cast<uint64_t>(info.st_size);
    if (size_ < sizeof h_ || !read_all(fd_, &h_, sizeof h_, 0) ||
        std::memcmp(h_.magic, kMagic, sizeof kMagic) != 0) {
        return damaged("expected a saved state, the file is something else");
    }
    if (h_.version != kVersion) {
        return other("format", std::to_string(kVersion), std::to_string(h_.version));
    }
    if (h_.owner != owner) {
        return Error{Status::BadRequest, "filename: " + name_ + ": there is no such state"};
    }
    return {};
}

Result<void> Reader::check_header() const {
    const Header ours = header_of(identity_, 0);
    if (h_.model != ours.model) return other("model", hex(ours.model), hex(h_.model));
    if (std::memcmp(h_.build, ours.build, sizeof h_.build) != 0)
        return other("build of nib", got(ours.build), got(h_.build));
    if (std::memcmp(h_.type_k, ours.type_k, sizeof h_.type_k) != 0)
        return other("KV type of keys", got(ours.type_k), got(h_.type_k));
    if (std::memcmp(h_.type_v, ours.type_v, sizeof h_.type_v) != 0)
        return other("KV type of values", got(ours.type_v), got(h_.type_v));
    if (h_.block_tokens != ours.block_tokens)
        return other("tokens of a block", std::to_string(ours.block_tokens),
                     std::to_string(h_.block_tokens));
    if (h_.n_groups != ours.n_groups)
        return other("KV groups", std::to_string(ours.n_groups), std::to_string(h_.n_groups));
    return {};
}

Result<void> Reader::check_sizes() const {
    const std::vector<GroupRecord> ours = records_of(identity_);
    for (size_t g = 0; g < ours.size(); g++) {
        if (std::memcmp(&groups_[g], &ours[g], sizeof ours[g]) == 0) continue;
        return other(
            "KV group", std::to_string(ours[g].window) + "/" + std::to_string(ours[g].block_bytes),
            std::to_string(groups_[g].window) + "/" + std::to_string(groups_[g].block_bytes));
    }
    if (h_.n_tokens == 0) return damaged("expected tokens, got none");
    if (h_.n_tokens > static_cast<uint64_t>(identity_.context)) {
        return Error{Status::TooLong,
                     join({"filename: ", name_, ": the state has ", std::to_string(h_.n_tokens),
                           " tokens, the context holds ", std::to_string(identity_.context)})};
    }
    const uint64_t bytes = identity_.state_bytes(static_cast<int64_t>(h_.n_tokens));
    const uint64_t size = sizeof h_ + groups_.size() * sizeof(GroupRecord) +
                          h_.n_tokens * sizeof(int32_t) + bytes + sizeof(uint64_t);
    if (h_.n_bytes != bytes || size_ != size || h_.zero != 0) {
        return damaged("expected " + std::to_string(size) + " bytes, got " + std::to_string(size_));
    }
    return {};
}

Result<void> Reader::read_rest(KvState& state) {
    try {
        state.tokens.resize(h_.n_tokens);
        state.bytes.resize(h_.n_bytes);
    } catch (const std::exception&) {
        return Error{Status::OutOfMemory,
                     "no memory for a state of " + std::to_string(h_.n_bytes) + " bytes"};
    }
    uint64_t at = sizeof h_ + groups_.size() * sizeof(GroupRecord), hash = 0;
    const uint64_t token_bytes = h_.n_tokens * sizeof(int32_t);
    const bool complete = read_all(fd_, state.tokens.data(), token_bytes, at) &&
                          read_all(fd_, state.bytes.data(), h_.n_bytes, at += token_bytes) &&
                          read_all(fd_, &hash, sizeof hash, at + h_.n_bytes);
    if (!complete) return damaged("the file became shorter while it was read");
    if (hash != hash_of(h_, groups_, state)) return damaged("is damaged: its hash does not fit");
    return {};
}

Result<uint64_t> Reader::read(uint64_t owner, KvState& state) {
    NIB_TRY(read_header(owner));
    NIB_TRY(check_header());
    groups_.resize(h_.n_groups);  // as many as this model has
    if (!read_all(fd_, groups_.data(), groups_.size() * sizeof(GroupRecord), sizeof h_))
        return damaged("ends too early");
    NIB_TRY(check_sizes());
    NIB_TRY(read_rest(state));
    return size_;
}

}  // namespace

uint64_t StateIdentity::state_bytes(int64_t n_tokens) const {
    uint64_t bytes = 0;
    for (const Group& g : groups)
        bytes += static_cast<uint64_t>(state_blocks(g.window, n_tokens)) * g.block_bytes;
    return bytes;
}

StateIdentity identity_of(const KvCache& kv) {
    StateIdentity identity;
    identity.context = kv.context();
    for (size_t g = 0; g < kv.groups().size(); g++) {
        const KvGroupSpec& spec = kv.groups()[g];
        identity.type_k = info(spec.type_k).name;
        identity.type_v = info(spec.type_v).name;
        identity.groups.push_back({.window = spec.window, .block_bytes = kv.block_bytes(g)});
    }
    return identity;
}

Result<std::unique_ptr<StateFolder>> StateFolder::open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return Error{
            Status::BadRequest,
            join({printable(path), ": expected a folder for states: ", std::strerror(errno)})};
    }
    return std::unique_ptr<StateFolder>(new StateFolder(fd));
}

StateFolder::~StateFolder() {
    close(fd_);
}

Result<void> StateFolder::check_name(const std::string& name) {
    constexpr std::string_view kPlain =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const bool plain = !name.empty() && name.size() <= kNameMax &&
                       name.find_first_not_of(kPlain) == std::string::npos && name.front() != '.' &&
                       name.front() != '-' && name.back() != '.' && !is_device_name(name);
    if (plain) return {};
    return Error{Status::BadRequest,
                 "filename: expected 1 to " + std::to_string(kNameMax) +
                     " letters, digits, '.', '_' or '-' that name a file of the folder, got " +
                     quoted(name)};
}

Result<uint64_t> StateFolder::write(const std::string& name,
                                    const StateIdentity& identity,
                                    uint64_t owner,
                                    const KvState& state) const {
    NIB_TRY(check_name(name));
    struct stat info {};
    if (fstatat(fd_, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(info.st_mode)) {
        return Error{Status::BadRequest,
                     "filename: " + name + ": is there already and is not a regular file"};
    }
    Header h = header_of(identity, owner);
    h.n_tokens = state.tokens.size();
    h.n_bytes = state.bytes.size();
    const std::vector<GroupRecord> groups = records_of(identity);
    const uint64_t hash = hash_of(h, groups, state);
    // Through the descriptor: the folder is the one that was opened, whatever its path leads to
    // now.
    const std::string path = "/proc/self/fd/" + std::to_string(fd_) + "/" + name;
    const auto write_file = [&]() -> Result<uint64_t> {
        NIB_ASSIGN(const auto file, AtomicFile::create(path));
        NIB_TRY(file->write(&h, sizeof h));
        NIB_TRY(file->write(groups.data(), groups.size() * sizeof(GroupRecord)));
        NIB_TRY(file->write(state.tokens.data(), state.tokens.size() * sizeof(int32_t)));
        NIB_TRY(file->write(state.bytes.data(), state.bytes.size()));
        NIB_TRY(file->write(&hash, sizeof hash));
        NIB_TRY(file->commit());
        return file->bytes();
    };
    Result<uint64_t> written = write_file();
    if (written.ok()) return written;
    Error error = written.error();
    if (error.message.starts_with(path)) error.message.replace(0, path.size(), name);
    return error;
}

Result<uint64_t> StateFolder::read(const std::string& name,
                                   const StateIdentity& identity,
                                   uint64_t owner,
                                   KvState& state) const {
    NIB_TRY(check_name(name));
    const File file(openat(fd_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file.fd < 0) {
        const bool absent = errno == ENOENT;
        return Error{Status::BadRequest,
                     join({"filename: ", name, ": ",
                           absent           ? "there is no such state"
                           : errno == ELOOP ? "is a link, expected a regular file"
                                            : std::strerror(errno)})};
    }
    return Reader(file.fd, name, identity).read(owner, state);
}

}  // namespace nib
