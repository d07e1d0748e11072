// SPDX-License-Identifier: MIT
// Opening a model: one file, or all files of a split model (name-00001-of-0000N.gguf). The first
// file names how many there are; the others must lie beside it under the same name and belong to
// the same model.
#include "ggml-like/files/gguf.h"
#include "ggml-like/files/gguf_parser.h"
#include "ggml-like/files/mapped_file.h"
#include "ggml-like/files/text.h"

#include <algorithm>
#include <new>

namespace nib {
namespace {

constexpr int64_t kShardsMax = 99'999;  // five digits in the name

std::string five_digits(int64_t n) {
    const std::string digits = std::to_string(n);
    return std::string(5 - std::min<size_t>(5, digits.size()), '0') + digits;
}

std::string shard_ending(int64_t number, int64_t count) {
    return join({"-", five_digits(number), "-of-", five_digits(count), ".gguf"});
}

// The value of an integer key in [0, high]; `fallback` if absent.
Result<int64_t> small_integer(const std::string& path,
                              const GgufShardParser& parsed,
                              std::string_view key,
                              int64_t fallback,
                              int64_t high) {
    for (const GgufFile::Entry& entry : parsed.entries) {
        if (entry.key != key) continue;
        const std::optional<int64_t> value = entry.value.integer();
        if (value && *value >= 0 && *value <= high) return *value;
        const std::string got = value ? join({"=", std::to_string(*value)}) : " is not an integer";
        return Error{Status::BadFile, join({printable(path), ": ", key, got, ": must be 0..",
                                            std::to_string(high)})};
    }
    return fallback;
}

const GgufValue* find_value(const std::vector<GgufFile::Entry>& entries, std::string_view key) {
    for (const GgufFile::Entry& entry : entries) {
        if (entry.key == key) return &entry.value;
    }
    return nullptr;
}

}  // namespace

class GgufParser {
  public:
    GgufParser(GgufFile& file, const std::string& path) : file_(file), path_(path) {}

    Result<void> open(GgufOpenOptions options) {
        file_.path_ = path_;
        NIB_TRY(open_shard(path_, 0));
        if (n_shards_ > 1) NIB_TRY(open_rest());
        if (file_.tensors_.empty() && options.need_tensors)
            return file_.bad("no tensors (n_tensors=0)");
        return order_tensors();
    }

  private:
    Result<void> open_shard(const std::string& path, uint32_t shard) {
        NIB_ASSIGN(auto map, MappedFile::open(path));
        GgufShardParser parsed(path, *map, shard);
        NIB_TRY(parsed.parse());
        NIB_TRY(check_split(path, parsed, shard));
        if (shard == 0) {
            file_.version_ = parsed.version;
            file_.alignment_ = parsed.alignment;
            file_.entries_ = std::move(parsed.entries);
            file_.key_order_ = std::move(parsed.key_order);
        }
        file_.tensors_.insert(file_.tensors_.end(), parsed.tensors.begin(), parsed.tensors.end());
        if (file_.tensors_.size() > GgufLimits::kTensors) {
            return file_.bad(
                join({"more than ", std::to_string(GgufLimits::kTensors), " tensors"}));
        }
        file_.file_bytes_ += map->size();
        file_.maps_.push_back(std::move(map));
        return {};
    }

    Result<void> check_split(const std::string& path,
                             const GgufShardParser& parsed,
                             uint32_t shard) {
        const auto foreign = [&](const std::string& what) {
            return Error{Status::BadFile,
                         join({printable(path), ": shard of another model: ", what})};
        };
        NIB_ASSIGN(const int64_t count, small_integer(path, parsed, "split.count", 0, kShardsMax));
        NIB_ASSIGN(const int64_t number, small_integer(path, parsed, "split.no", 0, kShardsMax));
        NIB_ASSIGN(const int64_t tensors,
                   small_integer(path, parsed, "split.tensors.count", -1, GgufLimits::kTensors));
        if (shard == 0) {
            n_shards_ = count, n_tensors_ = tensors;
            if (count > 1 && number != 0) {
                return Error{Status::BadFile,
                             join({printable(path), ": split.no=", std::to_string(number),
                                   ": open the first file of the split model, ...",
                                   shard_ending(1, count)})};
            }
            return {};
        }
        if (count != n_shards_) {
            return foreign(join(
                {"split.count=", std::to_string(count), ", expected ", std::to_string(n_shards_)}));
        }
        if (number != shard) {
            return foreign(
                join({"split.no=", std::to_string(number), ", expected ", std::to_string(shard)}));
        }
        if (tensors != n_tensors_) {
            return foreign(join({"split.tensors.count=", std::to_string(tensors), ", expected ",
                                 std::to_string(n_tensors_)}));
        }
        for (const char* key : {"general.architecture", "general.name"}) {
            const GgufValue* theirs = find_value(parsed.entries, key);
            const GgufValue* ours = file_.find(key);
            if (theirs && ours && theirs->text != ours->text) {
                return foreign(
                    join({key, "=", quoted(theirs->text), ", expected ", quoted(ours->text)}));
            }
        }
        return {};
    }

    Result<void> open_rest() {
        const std::string ending = shard_ending(1, n_shards_);
        if (!path_.ends_with(ending)) {
            return file_.bad(join(
                {"split.count=", std::to_string(n_shards_), ": the name must end in ", ending}));
        }
        const std::string stem = path_.substr(0, path_.size() - ending.size());
        for (int64_t i = 1; i < n_shards_; i++) {
            const std::string path = stem + shard_ending(i + 1, n_shards_);
            if (Result<void> opened = open_shard(path, static_cast<uint32_t>(i)); !opened.ok()) {
                return Error{opened.error().status,
                             join({opened.error().message, " (shard ", std::to_string(i + 1),
                                   " of ", std::to_string(n_shards_), ")"})};
            }
        }
        if (n_tensors_ >= 0 && file_.tensors_.size() != static_cast<uint64_t>(n_tensors_)) {
            return file_.bad(join({"split.tensors.count=", std::to_string(n_tensors_),
                                   ", the shards have ", std::to_string(file_.tensors_.size())}));
        }
        return {};
    }

    Result<void> order_tensors() {
        const std::vector<GgufTensor>& tensors = file_.tensors_;
        file_.tensor_order_ = sorted_positions(
            tensors.size(),
            [](const void* of, uint32_t i) { return static_cast<const GgufTensor*>(of)[i].name; },
            tensors.data());
        for (size_t i = 1; i < tensors.size(); i++) {
            const GgufTensor& tensor = tensors[file_.tensor_order_[i]];
            if (tensor.name == tensors[file_.tensor_order_[i - 1]].name) {
                const std::string where =
                    tensor.shard ? join({" (shard ", std::to_string(tensor.shard + 1), ")"}) : "";
                return file_.bad(join({"duplicate tensor ", quoted(tensor.name), where}));
            }
        }
        return {};
    }

    GgufFile& file_;
    const std::string path_;
    int64_t n_shards_ = 0, n_tensors_ = -1;
};

Result<std::shared_ptr<GgufFile>> GgufFile::open(const std::string& path, GgufOpenOptions options) {
    try {
        std::shared_ptr<GgufFile> file(new GgufFile);
        NIB_TRY(GgufParser(*file, path).open(options));
        return file;
    } catch (const std::bad_alloc&) {
        return Error{Status::OutOfMemory,
                     printable(path) + ": out of memory while reading its metadata"};
    }
}

}  // namespace nib
