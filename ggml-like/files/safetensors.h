// SPDX-License-Identifier: MIT
// safetensors checkpoints: one file, or a folder with model.safetensors or with
// model.safetensors.index.json and its shards. The header is checked completely before a tensor can
// be seen: known dtypes, shapes that match their bytes, data without overlap, hole or rest. Data
// stays in the mapping. Pickle files are never opened.
//
// Threads: immutable after open(); any thread may read it.
#pragma once
#include "ggml-like/quant.h"
#include "ggml-like/result.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nib {

class MappedFile;

struct SafetensorsTensor {
    std::string name;
    std::string dtype;  // as in the file: "BF16"
    const QuantDef* def =
        nullptr;                  // our type of the same layout; nullptr for BOOL, U8, F8_E4M3 ...
    std::vector<uint64_t> shape;  // outermost first, as in the file; empty for a single number
    std::span<const uint8_t> data;  // unaligned
    uint32_t shard = 0;

    uint64_t elements() const {
        uint64_t n = 1;
        for (const uint64_t size : shape)
            n *= size;  // checked when the file was opened
        return n;
    }
};

class SafetensorsFile {
  public:
    static constexpr uint64_t kHeaderBytesMax = 100'000'000;  // the format's own limit
    static constexpr uint64_t kTensorsMax = 250'000;
    static constexpr uint64_t kDimsMax = 8;

    // Errors as GgufFile::open.
    static Result<std::shared_ptr<SafetensorsFile>> open(const std::string& file_or_folder);
    ~SafetensorsFile();

    const std::string& path() const { return path_; }
    uint64_t file_bytes() const { return file_bytes_; }                      // all shards
    std::span<const SafetensorsTensor> tensors() const { return tensors_; }  // sorted by name
    const SafetensorsTensor* find(std::string_view name) const;
    // The strings of __metadata__, of all shards in their order.
    std::span<const std::pair<std::string, std::string>> metadata() const { return metadata_; }
    // As GgufFile::changed and drop_pages.
    bool changed() const;
    void drop_pages(std::span<const uint8_t> data) const;

  private:
    friend class SafetensorsParser;
    SafetensorsFile();
    std::string path_;
    uint64_t file_bytes_ = 0;
    std::vector<std::unique_ptr<MappedFile>> maps_;
    std::vector<SafetensorsTensor> tensors_;
    std::vector<std::pair<std::string, std::string>> metadata_;
};

}  // namespace nib
