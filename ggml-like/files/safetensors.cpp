// SPDX-License-Identifier: MIT
// Opening a checkpoint: the file itself, or the folder that holds it in one piece or in shards.
#include "ggml-like/files/safetensors.h"

#include "ggml-like/files/safetensors_parser.h"
#include "ggml-like/files/text.h"

#include <algorithm>
#include <new>

#include <sys/stat.h>

namespace nib {
namespace {

constexpr char kSingle[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr uint64_t kIndexBytesMax = 64 << 20;
constexpr size_t kShardsMax = 10'000;

bool is_folder(const std::string& path) {
    struct stat info {};
    return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool exists(const std::string& path) {
    struct stat info {};
    return stat(path.c_str(), &info) == 0;
}

// A shard is a file of the folder itself: a name without any path in it.
bool is_shard_name(std::string_view name) {
    return name.ends_with(".safetensors") && name.front() != '.' &&
           name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

struct Placement {
    std::string tensor, shard;
};

}  // namespace

SafetensorsFile::SafetensorsFile() = default;
SafetensorsFile::~SafetensorsFile() = default;

class SafetensorsParser {
  public:
    SafetensorsParser(SafetensorsFile& file, const std::string& path) : file_(file), path_(path) {}

    Result<void> open() {
        file_.path_ = path_;
        if (!is_folder(path_)) {
            NIB_TRY(open_shard(path_));
        } else if (exists(in_folder(kIndex))) {
            NIB_TRY(open_sharded());
        } else if (exists(in_folder(kSingle))) {
            NIB_TRY(open_shard(in_folder(kSingle)));
        } else {
            return bad(join({"the folder has neither ", kSingle, " nor ", kIndex,
                             exists(in_folder("pytorch_model.bin"))
                                 ? " (pytorch_model.bin is a pickle, which is never opened)"
                                 : ""}));
        }
        return sort_tensors();
    }

  private:
    Error bad(const std::string& message) const {
        return {Status::BadFile, join({printable(path_), ": ", message})};
    }
    std::string in_folder(const std::string& name) const { return join({path_, "/", name}); }

    Result<void> open_shard(const std::string& path) {
        NIB_ASSIGN(auto map, MappedFile::open(path));
        SafetensorsShardParser parsed(path, *map, static_cast<uint32_t>(file_.maps_.size()));
        NIB_TRY(parsed.parse());
        std::move(parsed.tensors.begin(), parsed.tensors.end(), std::back_inserter(file_.tensors_));
        std::move(parsed.metadata.begin(), parsed.metadata.end(),
                  std::back_inserter(file_.metadata_));
        if (file_.tensors_.size() > SafetensorsFile::kTensorsMax) {
            return bad(
                join({"more than ", std::to_string(SafetensorsFile::kTensorsMax), " tensors"}));
        }
        file_.file_bytes_ += map->size();
        file_.maps_.push_back(std::move(map));
        return {};
    }

    Result<void> open_sharded() {
        const std::string index_path = in_folder(kIndex);
        NIB_ASSIGN(const auto index, MappedFile::open(index_path));
        if (index->size() > kIndexBytesMax) return bad(join({kIndex, ": more than 64 MiB"}));
        JsonScanner json(
            {reinterpret_cast<const char*>(index->data()), static_cast<size_t>(index->size())});
        if (Result<void> read = read_index(json); !read.ok()) {
            return bad(join({kIndex, ": ", read.error().message}));
        }
        std::vector<std::string> shards;
        for (const Placement& p : placements_)
            shards.push_back(p.shard);
        std::sort(shards.begin(), shards.end());
        shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
        if (shards.empty()) return bad(join({kIndex, ": weight_map is empty"}));
        if (shards.size() > kShardsMax) return bad(join({kIndex, ": too many shards"}));
        for (const std::string& shard : shards) {
            if (!is_shard_name(shard)) {
                return bad(join({kIndex, ": ", quoted(shard),
                                 " is not the name of a .safetensors file beside it"}));
            }
        }
        for (const std::string& shard : shards)
            NIB_TRY(open_shard(in_folder(shard)));
        shards_ = std::move(shards);
        return {};
    }

    Result<void> read_index(JsonScanner& json) {
        NIB_TRY(json.expect(JsonKind::ObjectBegin, "an object"));
        bool has_map = false;
        for (;;) {
            NIB_ASSIGN(const JsonToken key, json.key());
            if (key.kind == JsonKind::ObjectEnd) break;
            if (key.text != "weight_map") {
                NIB_ASSIGN(const JsonToken value, json.next());
                NIB_TRY(json.skip(value));
                continue;
            }
            if (has_map) return Error{Status::BadFile, "duplicate key 'weight_map'"};
            has_map = true;
            NIB_TRY(read_weight_map(json));
        }
        NIB_TRY(json.expect(JsonKind::End, "the end"));
        if (!has_map) return Error{Status::BadFile, "no weight_map"};
        return {};
    }

    Result<void> read_weight_map(JsonScanner& json) {
        NIB_TRY(json.expect(JsonKind::ObjectBegin, "an object as weight_map"));
        for (;;) {
            NIB_ASSIGN(JsonToken name, json.key());
            if (name.kind == JsonKind::ObjectEnd) return {};
            NIB_ASSIGN(JsonToken shard, json.expect(JsonKind::String, "a file name in weight_map"));
            placements_.push_back({std::move(name.text), std::move(shard.text)});
            if (placements_.size() > SafetensorsFile::kTensorsMax) {
                return Error{Status::BadFile, "too many tensors in weight_map"};
            }
        }
    }

    Result<void> sort_tensors() {
        std::vector<SafetensorsTensor>& tensors = file_.tensors_;
        std::stable_sort(tensors.begin(), tensors.end(),
                         [](const auto& a, const auto& b) { return a.name < b.name; });
        for (size_t i = 1; i < tensors.size(); i++) {
            if (tensors[i].name != tensors[i - 1].name) continue;
            const bool twice = tensors[i].shard == tensors[i - 1].shard;
            return bad(join({twice ? "duplicate tensor " : "two shards hold tensor ",
                             quoted(tensors[i].name)}));
        }
        std::sort(placements_.begin(), placements_.end(),
                  [](const Placement& a, const Placement& b) { return a.tensor < b.tensor; });
        for (size_t i = 0; i < placements_.size(); i++) {
            const Placement& p = placements_[i];
            if (i > 0 && p.tensor == placements_[i - 1].tensor) {
                return bad(join({kIndex, ": duplicate tensor ", quoted(p.tensor)}));
            }
            const SafetensorsTensor* tensor = file_.find(p.tensor);
            if (!tensor || shards_[tensor->shard] != p.shard) {
                return bad(
                    join({kIndex, ": tensor ", quoted(p.tensor), " is not in ", quoted(p.shard)}));
            }
        }
        return {};
    }

    SafetensorsFile& file_;
    const std::string path_;
    std::vector<Placement> placements_;
    std::vector<std::string> shards_;
};

Result<std::shared_ptr<SafetensorsFile>> SafetensorsFile::open(const std::string& file_or_folder) {
    try {
        std::shared_ptr<SafetensorsFile> file(new SafetensorsFile);
        NIB_TRY(SafetensorsParser(*file, file_or_folder).open());
        return file;
    } catch (const std::bad_alloc&) {
        return Error{Status::OutOfMemory,
                     join({printable(file_or_folder), ": out of memory while reading its header"})};
    }
}

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const {
    const auto at =
        std::lower_bound(tensors_.begin(), tensors_.end(), name,
                         [](const SafetensorsTensor& t, std::string_view n) { return t.name < n; });
    return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

bool SafetensorsFile::changed() const {
    return std::any_of(maps_.begin(), maps_.end(), [](const auto& map) { return map->changed(); });
}

void SafetensorsFile::drop_pages(std::span<const uint8_t> data) const {
    for (const auto& map : maps_)
        map->drop_pages(data.data(), data.size());
}

}  // namespace nib
