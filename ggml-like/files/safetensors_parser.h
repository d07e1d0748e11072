// SPDX-License-Identifier: MIT
// One safetensors file into tensors; and the folder around several of them.
#pragma once
#include "ggml-like/files/json_scan.h"
#include "ggml-like/files/mapped_file.h"
#include "ggml-like/files/safetensors.h"

#include <string>
#include <utility>
#include <vector>

namespace nib {

class SafetensorsShardParser {
  public:
    SafetensorsShardParser(const std::string& path, const MappedFile& map, uint32_t shard)
        : path_(path), map_(map), shard_(shard) {}

    Result<void> parse();

    std::vector<SafetensorsTensor> tensors;
    std::vector<std::pair<std::string, std::string>> metadata;

  private:
    struct Range {
        uint64_t begin = 0, end = 0;
    };

    Error bad(const std::string& message) const;
    Result<std::string_view> header();
    Result<void> read_entries(JsonScanner& json);
    Result<void> read_metadata(JsonScanner& json);
    Result<void> read_tensor(JsonScanner& json, std::string name);
    Result<std::vector<uint64_t>> read_shape(JsonScanner& json);
    Result<Range> read_range(JsonScanner& json);
    Result<void> place(SafetensorsTensor& tensor, Range range);
    Result<void> check_cover() const;

    const std::string& path_;
    const MappedFile& map_;
    uint32_t shard_;
    uint64_t data_start_ = 0, data_bytes_ = 0;
};

}  // namespace nib
