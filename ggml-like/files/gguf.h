// SPDX-License-Identifier: MIT
// GGUF files, version 3 (and 2, which is laid out alike). The reader checks every count, length,
// offset and type against the bytes that the file really has before it allocates or follows
// anything; an error names file, field and value. Split files (name-00001-of-0000N.gguf) open as
// one. Tensor data stays in the mapping of the file.
//
// Threads: a GgufFile is immutable after open(); any thread may read it.
#pragma once
#include "ggml-like/quant.h"
#include "ggml-like/result.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nib {

enum class GgufType : uint32_t {
    U8 = 0,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64
};
const char* gguf_type_name(GgufType type);

// One metadata value. Strings and arrays of numbers point into the file's mapping (numbers
// unaligned, little endian: read them through GgufFile's helpers).
struct GgufValue {
    GgufType type = GgufType::U32;
    GgufType element = GgufType::U32;  // of an array
    uint64_t count = 1;                // elements of an array
    uint64_t bits = 0;                 // a scalar number, widened: unsigned, signed or f64 bits
    std::string_view text;             // a string
    const uint8_t* data = nullptr;     // an array of numbers: count * size bytes
    std::vector<std::string_view> strings;  // an array of strings

    bool is_integer() const;
    std::optional<int64_t> integer() const;  // any integer type that fits (not bool)
    std::optional<double> number() const;    // float or integer
    std::optional<bool> boolean() const;
    int64_t integer_at(uint64_t i) const;  // element of an array of integers or bools
    double number_at(uint64_t i) const;    // element of an array of numbers
};

struct GgufTensor {
    std::string_view name;
    const QuantDef* def = nullptr;
    uint32_t n_dims = 0;
    uint64_t ne[4] = {1, 1, 1, 1};  // innermost first
    const uint8_t* data = nullptr;  // bytes bytes in the mapping
    uint64_t bytes = 0;
    uint32_t shard = 0;  // which file of a split model

    uint64_t elements() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
};

struct GgufOpenOptions {
    bool need_tensors = true;  // false: vocabulary-only files (0 tensors) are fine
};

class MappedFile;

class GgufFile {
  public:
    // Errors: BadFile (what the file says is wrong, or the path leads to no readable regular file),
    // Io (the system refuses).
    static Result<std::shared_ptr<GgufFile>> open(const std::string& path,
                                                  GgufOpenOptions options = {});

    const std::string& path() const { return path_; }
    uint64_t file_bytes() const { return file_bytes_; }  // all shards
    uint32_t version() const { return version_; }
    uint64_t alignment() const { return alignment_; }

    struct Entry {
        std::string_view key;
        GgufValue value;
    };
    std::span<const Entry> entries() const { return entries_; }  // in file order
    const GgufValue* find(std::string_view key) const;           // nullptr if absent
    std::span<const GgufTensor> tensors() const { return tensors_; }
    const GgufTensor* find_tensor(std::string_view name) const;

    // A required value: an Error naming file and key if it is absent, of another type or outside
    // [low, high]. The optional forms give `fallback` if absent, and the same errors else.
    Result<std::string> string(std::string_view key) const;
    Result<int64_t> integer(std::string_view key, int64_t low, int64_t high) const;
    Result<int64_t> integer_or(std::string_view key,
                               int64_t fallback,
                               int64_t low,
                               int64_t high) const;
    Result<double> number(std::string_view key, double low, double high) const;  // finite
    Result<double> number_or(std::string_view key, double fallback, double low, double high) const;
    Result<bool> boolean_or(std::string_view key, bool fallback) const;
    // An error about this file: "PATH: MESSAGE".
    Error bad(std::string message) const;

    // True once a mapped file is not what it was at open(): another size or modification time, or
    // a read of it failed. What was read since may be zeros and must not be used.
    bool changed() const;
    // Gives the pages of the tensor data back to the system (they are read again when touched).
    void drop_pages(const void* data, uint64_t bytes) const;

    ~GgufFile();

  private:
    friend class GgufParser;
    GgufFile();
    std::string path_;
    uint64_t file_bytes_ = 0;
    uint32_t version_ = 3;
    uint64_t alignment_ = 32;
    std::vector<std::unique_ptr<MappedFile>> maps_;
    std::vector<Entry> entries_;
    std::vector<GgufTensor> tensors_;
    std::vector<uint32_t> key_order_, tensor_order_;  // sorted by name, for find()
};

// Writes a GGUF v3 file beside its final name, then fsync and rename: the final name holds the old
// file or the whole new one. Add metadata and tensor headers first, then data in the same order.
// A wrong add_ call (a duplicate, a bad shape) is reported by the next write_data() or finish().
class GgufWriter {
  public:
    static Result<std::unique_ptr<GgufWriter>> create(const std::string& path,
                                                      uint64_t alignment = 32);
    ~GgufWriter();  // without finish(): removes what was written

    void add_string(std::string_view key, std::string_view value);
    void add_u32(std::string_view key, uint32_t value);
    void add_i32(std::string_view key, int32_t value);
    void add_u64(std::string_view key, uint64_t value);
    void add_f32(std::string_view key, float value);
    void add_bool(std::string_view key, bool value);
    void add_strings(std::string_view key, std::span<const std::string> values);
    void add_i32s(std::string_view key, std::span<const int32_t> values);
    void add_f32s(std::string_view key, std::span<const float> values);
    void add_copy(
        std::string_view key,
        const GgufValue& value);  // as another file has it; its general.alignment is left out
    void add_tensor(std::string_view name, Type type, std::span<const uint64_t> ne);
    // The bytes of the next tensor in the order of add_tensor(), all of them or a piece.
    Result<void> write_data(const void* bytes, size_t n);
    Result<void> finish();

  private:
    GgufWriter() = default;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace nib
