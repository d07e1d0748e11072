// SPDX-License-Identifier: MIT
// One GGUF file into entries and tensors: header, metadata, tensor table, then where the data lies.
// Every number is compared with the bytes that are really there before it is used; nothing
// recurses.
#pragma once
#include "ggml-like/files/gguf.h"
#include "ggml-like/files/mapped_file.h"
#include "ggml-like/files/reader.h"

#include <string>
#include <vector>

namespace nib {

// What a file may hold at most (a name longer than 63 bytes is refused by every other reader too).
struct GgufLimits {
    static constexpr uint64_t kEntries = 1'000'000;
    static constexpr uint64_t kTensors = 1'000'000;
    static constexpr uint64_t kStrings = uint64_t{1} << 24;  // of one array
    static constexpr uint64_t kKeyBytes = 65'535;
    static constexpr uint64_t kNameBytes = 63;
    static constexpr uint64_t kAlignmentMin = 8;
    static constexpr uint64_t kAlignmentMax = 65'536;
};

// Bytes of a number in the file; 0 for strings, arrays and unknown types.
uint64_t gguf_number_bytes(GgufType type);

// Positions of `n` names in ascending order. Heap sort: its steps stay inside the range whatever a
// comparison answers, even if somebody writes to the mapped file meanwhile.
std::vector<uint32_t> sorted_positions(size_t n,
                                       std::string_view (*name)(const void*, uint32_t),
                                       const void* of);

class GgufShardParser {
  public:
    GgufShardParser(const std::string& path, const MappedFile& map, uint32_t shard)
        : path_(path), map_(map), shard_(shard), reader_(map.data(), map.size()) {}

    Result<void> parse();

    uint32_t version = 0;
    uint64_t alignment = 32;
    std::vector<GgufFile::Entry> entries;
    std::vector<uint32_t> key_order;
    std::vector<GgufTensor> tensors;  // in file order

  private:
    Error bad(const std::string& message) const;
    Error truncated(const std::string& where) const;
    Error foreign_magic() const;
    Result<void> read_header();
    Result<void> read_entry(uint64_t index);
    Result<void> read_value(std::string_view key, GgufValue& value);
    Result<void> read_scalar(std::string_view key, GgufValue& value);
    Result<void> read_array(std::string_view key, GgufValue& value);
    Result<void> read_strings(std::string_view key, GgufValue& value);
    Result<void> order_keys();
    Result<void> read_alignment();
    Result<void> read_tensor(uint64_t index);
    Result<void> read_shape(GgufTensor& tensor);
    Result<void> measure(GgufTensor& tensor, uint32_t type);
    Result<void> place_tensors();
    Result<void> refuse_overlaps() const;

    const std::string& path_;
    const MappedFile& map_;
    uint32_t shard_;
    Reader reader_;
    uint64_t n_tensors_ = 0, n_entries_ = 0;
    std::vector<uint64_t> offsets_;  // of the tensors, from the start of the data
};

}  // namespace nib
