// SPDX-License-Identifier: MIT
#include "ggml-like/files/safetensors_parser.h"

#include "ggml-like/files/reader.h"
#include "ggml-like/files/text.h"

#include <algorithm>
#include <optional>

namespace nib {
namespace {

struct Dtype {
    std::string_view name;
    uint64_t bytes;
    std::string_view ours;  // name of our type of the same layout; empty if there is none
};

constexpr Dtype kDtypes[] = {
    {"BOOL", 1, ""},    {"U8", 1, ""},       {"I8", 1, "i8"},   {"F8_E4M3", 1, ""},
    {"F8_E5M2", 1, ""}, {"F8_E8M0", 1, ""},  {"I16", 2, "i16"}, {"U16", 2, ""},
    {"F16", 2, "f16"},  {"BF16", 2, "bf16"}, {"I32", 4, "i32"}, {"U32", 4, ""},
    {"F32", 4, "f32"},  {"F64", 8, "f64"},   {"I64", 8, "i64"}, {"U64", 8, ""},
};

const Dtype* find_dtype(std::string_view name) {
    for (const Dtype& dtype : kDtypes) {
        if (dtype.name == name) return &dtype;
    }
    return nullptr;
}

std::string range_text(uint64_t begin, uint64_t end) {
    return join({"data_offsets [", std::to_string(begin), ", ", std::to_string(end), "]"});
}

}  // namespace

Error SafetensorsShardParser::bad(const std::string& message) const {
    return {Status::BadFile, join({printable(path_), ": ", message})};
}

Result<void> SafetensorsShardParser::parse() {
    NIB_ASSIGN(const std::string_view text, header());
    JsonScanner json(text);
    if (Result<void> read = read_entries(json); !read.ok()) return bad(read.error().message);
    if (Result<void> covered = check_cover(); !covered.ok()) return bad(covered.error().message);
    return {};
}

Result<std::string_view> SafetensorsShardParser::header() {
    Reader reader(map_.data(), map_.size());
    uint64_t length = 0;
    if (!reader.read(length)) {
        return bad(join({"not a safetensors file: ", std::to_string(map_.size()), " bytes"}));
    }
    const std::string text = join({"header length ", std::to_string(length)});
    if (length < 2 || length > SafetensorsFile::kHeaderBytesMax) {
        return bad(join({text, ": must be 2..", std::to_string(SafetensorsFile::kHeaderBytesMax)}));
    }
    const uint8_t* p = reader.take(length);
    if (!p)
        return bad(join({text, " exceeds file (", std::to_string(reader.left()), " bytes left)"}));
    if (*p != '{')
        return bad(join({"header starts with ", quoted({reinterpret_cast<const char*>(p), 1}),
                         ": must be '{'"}));
    data_start_ = reader.position();
    data_bytes_ = reader.left();
    return std::string_view(reinterpret_cast<const char*>(p), length);
}

Result<void> SafetensorsShardParser::read_entries(JsonScanner& json) {
    NIB_TRY(json.expect(JsonKind::ObjectBegin, "an object"));
    bool has_metadata = false;
    for (;;) {
        NIB_ASSIGN(JsonToken key, json.key());
        if (key.kind == JsonKind::ObjectEnd) break;
        if (key.text == "__metadata__") {
            if (has_metadata) return Error{Status::BadFile, "duplicate key '__metadata__'"};
            has_metadata = true;
            NIB_TRY(read_metadata(json));
            continue;
        }
        if (tensors.size() >= SafetensorsFile::kTensorsMax) {
            return Error{
                Status::BadFile,
                join({"more than ", std::to_string(SafetensorsFile::kTensorsMax), " tensors"})};
        }
        const std::string where = join({"tensor ", quoted(key.text), ": "});
        if (Result<void> read = read_tensor(json, std::move(key.text)); !read.ok()) {
            return Error{read.error().status, where + read.error().message};
        }
    }
    NIB_TRY(json.expect(JsonKind::End, "the end of the header"));
    return {};
}

Result<void> SafetensorsShardParser::read_metadata(JsonScanner& json) {
    NIB_TRY(json.expect(JsonKind::ObjectBegin, "an object in __metadata__"));
    for (;;) {
        NIB_ASSIGN(JsonToken key, json.key());
        if (key.kind == JsonKind::ObjectEnd) return {};
        NIB_ASSIGN(JsonToken value, json.expect(JsonKind::String, "a string in __metadata__"));
        metadata.emplace_back(std::move(key.text), std::move(value.text));
    }
}

Result<void> SafetensorsShardParser::read_tensor(JsonScanner& json, std::string name) {
    const auto fault = [](const std::string& what) { return Error{Status::BadFile, what}; };
    if (name.empty() || name.find('\0') != std::string::npos) return fault("a name must be text");
    SafetensorsTensor tensor;
    tensor.name = std::move(name);
    tensor.shard = shard_;
    std::optional<Range> range;
    bool has_shape = false;
    NIB_TRY(json.expect(JsonKind::ObjectBegin, "an object"));
    for (;;) {
        NIB_ASSIGN(const JsonToken key, json.key());
        if (key.kind == JsonKind::ObjectEnd) break;
        if (key.text == "dtype" && tensor.dtype.empty()) {
            NIB_ASSIGN(JsonToken dtype, json.expect(JsonKind::String, "a string as dtype"));
            tensor.dtype = std::move(dtype.text);
            if (!find_dtype(tensor.dtype))
                return fault(join({"dtype ", quoted(tensor.dtype), " is unknown"}));
        } else if (key.text == "shape" && !has_shape) {
            NIB_ASSIGN(tensor.shape, read_shape(json));
            has_shape = true;
        } else if (key.text == "data_offsets" && !range) {
            NIB_ASSIGN(range, read_range(json));
        } else {
            return fault(join({"key ", quoted(key.text), " is unknown or doubled"}));
        }
    }
    if (tensor.dtype.empty()) return fault("no dtype");
    if (!has_shape) return fault("no shape");
    if (!range) return fault("no data_offsets");
    NIB_TRY(place(tensor, *range));
    tensors.push_back(std::move(tensor));
    return {};
}

Result<std::vector<uint64_t>> SafetensorsShardParser::read_shape(JsonScanner& json) {
    NIB_TRY(json.expect(JsonKind::ArrayBegin, "an array as shape"));
    std::vector<uint64_t> shape;
    for (;;) {
        NIB_ASSIGN(const JsonToken token, json.next());
        if (token.kind == JsonKind::ArrayEnd) return shape;
        NIB_ASSIGN(const uint64_t size, JsonScanner::whole("shape", token));
        if (shape.size() == SafetensorsFile::kDimsMax) {
            return Error{Status::BadFile,
                         join({"shape has more than ", std::to_string(SafetensorsFile::kDimsMax),
                               " dimensions"})};
        }
        shape.push_back(size);
    }
}

Result<SafetensorsShardParser::Range> SafetensorsShardParser::read_range(JsonScanner& json) {
    NIB_TRY(json.expect(JsonKind::ArrayBegin, "an array as data_offsets"));
    Range range;
    for (uint64_t* end : {&range.begin, &range.end}) {
        NIB_ASSIGN(const JsonToken token, json.next());
        NIB_ASSIGN(*end, JsonScanner::whole("data_offsets", token));
    }
    NIB_TRY(json.expect(JsonKind::ArrayEnd, "exactly two numbers as data_offsets"));
    return range;
}

Result<void> SafetensorsShardParser::place(SafetensorsTensor& tensor, Range range) {
    const auto fault = [](const std::string& what) { return Error{Status::BadFile, what}; };
    const std::string where = range_text(range.begin, range.end);
    if (range.begin > range.end) return fault(join({where, ": begin is after end"}));
    if (range.end > data_bytes_) {
        return fault(join({where, " exceeds the data (", std::to_string(data_bytes_), " bytes)"}));
    }
    const Dtype* dtype = find_dtype(tensor.dtype);
    // A zero anywhere makes the tensor empty; the other sizes must not wrap even then.
    uint64_t bytes = dtype->bytes;
    bool empty = false;
    for (const uint64_t size : tensor.shape) {
        empty = empty || size == 0;
        const std::optional<uint64_t> product = checked_mul(bytes, std::max<uint64_t>(size, 1));
        if (!product) return fault("shape overflows");
        bytes = *product;
    }
    if (empty) bytes = 0;
    if (bytes != range.end - range.begin) {
        return fault(join({where, ": shape and dtype ", tensor.dtype, " need ",
                           std::to_string(bytes), " bytes"}));
    }
    tensor.def = dtype->ours.empty() ? nullptr : find_type(dtype->ours);
    tensor.data = {map_.data() + data_start_ + range.begin, static_cast<size_t>(bytes)};
    return {};
}

// The tensors, in the order of their data, fill it from the first byte to the last.
Result<void> SafetensorsShardParser::check_cover() const {
    std::vector<const SafetensorsTensor*> order;
    for (const SafetensorsTensor& tensor : tensors)
        order.push_back(&tensor);
    std::sort(order.begin(), order.end(),
              [](const SafetensorsTensor* a, const SafetensorsTensor* b) {
                  return a->data.data() != b->data.data() ? a->data.data() < b->data.data()
                                                          : a->data.size() < b->data.size();
              });
    const uint8_t* start = map_.data() + data_start_;
    const uint8_t* covered = start;
    for (const SafetensorsTensor* tensor : order) {
        if (tensor->data.data() != covered) {
            const auto begin = static_cast<uint64_t>(tensor->data.data() - start);
            const auto expected = static_cast<uint64_t>(covered - start);
            return Error{
                Status::BadFile,
                join({"tensor ", quoted(tensor->name), ": data starts at ", std::to_string(begin),
                      begin < expected ? " and overlaps the tensor before, which ends at "
                                       : ": a hole after ",
                      std::to_string(expected)})};
        }
        covered += tensor->data.size();
    }
    const auto used = static_cast<uint64_t>(covered - start);
    if (used == data_bytes_) return {};
    return Error{Status::BadFile,
                 join({std::to_string(data_bytes_ - used), " bytes after the last tensor"})};
}

}  // namespace nib
