// SPDX-License-Identifier: MIT
#include "ggml-like/files/gguf_parser.h"

#include "ggml-like/files/text.h"

#include <algorithm>
#include <numeric>

namespace nib {
namespace {

constexpr uint64_t kEntryBytesMin = 8 + 1 + 4 + 1;  // length, key, type, value
constexpr uint64_t kTensorBytesMin =
    8 + 1 + 4 + 8 + 4 + 8;  // length, name, n_dims, ne, type, offset

bool known(uint32_t type) {
    return type <= static_cast<uint32_t>(GgufType::F64);
}

// Types that existed or exist elsewhere, so that the message can say more than a number.
const char* type_remark(uint32_t id) {
    switch (id) {
    case 4:
    case 5:
    case 31:
    case 32:
    case 33:
    case 36:
    case 37:
    case 38:
        return " (retired)";
    case 16:
        return " (iq2_xxs)";
    case 17:
        return " (iq2_xs)";
    case 18:
        return " (iq3_xxs)";
    case 19:
        return " (iq1_s)";
    case 21:
        return " (iq3_s)";
    case 22:
        return " (iq2_s)";
    case 29:
        return " (iq1_m)";
    default:
        return " (unknown)";
    }
}

const char* name_fault(std::string_view name) {
    if (name.find('\0') != std::string_view::npos) return "has a NUL byte";
    return is_utf8(name) ? nullptr : "is not UTF-8";
}

std::string shape_text(const GgufTensor& tensor) {
    std::string out = "[";
    for (uint32_t i = 0; i < tensor.n_dims; i++) {
        out += (i ? ", " : "") + std::to_string(tensor.ne[i]);
    }
    return out + "]";
}

std::string tensor_text(const GgufTensor& tensor) {
    return join({"tensor ", quoted(tensor.name)});
}

}  // namespace

uint64_t gguf_number_bytes(GgufType type) {
    switch (type) {
    case GgufType::U8:
    case GgufType::I8:
    case GgufType::Bool:
        return 1;
    case GgufType::U16:
    case GgufType::I16:
        return 2;
    case GgufType::U32:
    case GgufType::I32:
    case GgufType::F32:
        return 4;
    case GgufType::U64:
    case GgufType::I64:
    case GgufType::F64:
        return 8;
    case GgufType::String:
    case GgufType::Array:
        return 0;
    }
    return 0;
}

std::vector<uint32_t> sorted_positions(size_t n,
                                       std::string_view (*name)(const void*, uint32_t),
                                       const void* of) {
    std::vector<uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0u);
    const auto before = [&](uint32_t a, uint32_t b) {
        const int compared = name(of, a).compare(name(of, b));
        return compared != 0 ? compared < 0 : a < b;
    };
    std::make_heap(order.begin(), order.end(), before);
    std::sort_heap(order.begin(), order.end(), before);
    return order;
}

Error GgufShardParser::bad(const std::string& message) const {
    return {Status::BadFile, join({printable(path_), ": ", message})};
}

Error GgufShardParser::truncated(const std::string& where) const {
    return bad(join({"truncated at byte ", std::to_string(map_.size()), ", in ", where}));
}

Result<void> GgufShardParser::parse() {
    NIB_TRY(read_header());
    for (uint64_t i = 0; i < n_entries_; i++)
        NIB_TRY(read_entry(i));
    NIB_TRY(order_keys());
    NIB_TRY(read_alignment());
    for (uint64_t i = 0; i < n_tensors_; i++)
        NIB_TRY(read_tensor(i));
    NIB_TRY(place_tensors());
    return refuse_overlaps();
}

// What people really pass by mistake, told by its first bytes.
Error GgufShardParser::foreign_magic() const {
    const uint64_t n = std::min<uint64_t>(map_.size(), 64);
    const std::string_view start(reinterpret_cast<const char*>(map_.data()), n);
    const size_t text = start.find_first_not_of(" \t\r\n\xef\xbb\xbf");
    const std::string_view body = text == std::string_view::npos ? "" : start.substr(text);
    uint64_t length = 0;
    if (n >= 9) length = load_unaligned<uint64_t>(map_.data());
    std::string hint;
    if (n == 0) {
        return bad("not a GGUF file: it is empty");
    } else if (body.starts_with("<!") || body.starts_with("<h") || body.starts_with("<H") ||
               body.starts_with("<?xml")) {
        hint = "; this is an HTML page, probably of a failed download";
    } else if (body.starts_with("version https://git-lfs")) {
        hint = "; this is a Git LFS pointer, the file itself was not downloaded";
    } else if (n >= 9 && length > 1 && length <= map_.size() - 8 && start[8] == '{') {
        hint = "; this is a safetensors file, convert it first";
    } else if (start.starts_with("PK\x03\x04")) {
        hint = "; this is a zip archive, perhaps a PyTorch checkpoint";
    } else if (start.starts_with("FUGG")) {
        hint = "; its bytes are in reverse order";
    } else {
        for (const char* old :
             {"lmgg", "fmgg", "tjgg", "algg", "ggml", "ggmf", "ggjt", "ggla", "GGML"}) {
            if (start.starts_with(old))
                hint = "; this is an old GGML file, convert the model again";
        }
    }
    return bad(join({"not a GGUF file: it starts with ", quoted(start.substr(0, 4)), hint}));
}

Result<void> GgufShardParser::read_header() {
    const uint8_t* magic = reader_.take(4);
    if (!magic || std::memcmp(magic, "GGUF", 4) != 0) return foreign_magic();
    if (!reader_.read(version)) return truncated("the header");
    if (version != 0 && (version & 0xffff) == 0) {
        return bad(join({"unsupported version: a big-endian file (version bytes say ",
                         std::to_string(__builtin_bswap32(version)), " in reverse order)"}));
    }
    if (version != 2 && version != 3) {
        return bad(join({"unsupported version ", std::to_string(version), ": must be 2 or 3"}));
    }
    if (!reader_.read(n_tensors_) || !reader_.read(n_entries_)) return truncated("the header");
    const auto check = [&](const char* what, uint64_t n, uint64_t each,
                           uint64_t limit) -> Result<void> {
        const std::string text = join({what, "=", std::to_string(n)});
        if (n > reader_.left() / each) {
            const std::optional<uint64_t> bytes = checked_mul(n, each);
            return bad(join(
                {text, " needs ", bytes ? join({">= ", std::to_string(*bytes)}) : "2^64 or more",
                 " bytes, file has ", std::to_string(reader_.left()), " after its header"}));
        }
        if (n > limit) return bad(join({text, ": must be at most ", std::to_string(limit)}));
        return {};
    };
    NIB_TRY(check("n_tensors", n_tensors_, kTensorBytesMin, GgufLimits::kTensors));
    return check("n_kv", n_entries_, kEntryBytesMin, GgufLimits::kEntries);
}

Result<void> GgufShardParser::read_entry(uint64_t index) {
    const std::string where = join({"key ", std::to_string(index)});
    uint64_t length = 0;
    std::string_view key;
    if (!reader_.read(length)) return truncated(where);
    if (length == 0 || length > GgufLimits::kKeyBytes) {
        return bad(join({where, ": length ", std::to_string(length), ": must be 1..",
                         std::to_string(GgufLimits::kKeyBytes)}));
    }
    const uint8_t* bytes = reader_.take(length);
    if (!bytes) return truncated(where);
    key = {reinterpret_cast<const char*>(bytes), static_cast<size_t>(length)};
    if (const char* fault = name_fault(key))
        return bad(join({where, " (", quoted(key), ") ", fault}));
    GgufFile::Entry entry{key, {}};
    NIB_TRY(read_value(key, entry.value));
    entries.push_back(std::move(entry));
    return {};
}

Result<void> GgufShardParser::read_value(std::string_view key, GgufValue& value) {
    uint32_t type = 0;
    if (!reader_.read(type)) return truncated(join({"key ", quoted(key)}));
    if (!known(type)) {
        return bad(
            join({"key ", quoted(key), ": value type ", std::to_string(type), " is unknown"}));
    }
    value.type = static_cast<GgufType>(type);
    if (value.type == GgufType::Array) return read_array(key, value);
    if (value.type != GgufType::String) return read_scalar(key, value);
    const uint64_t left = reader_.left();
    if (reader_.read_text(value.text)) return {};
    uint64_t length = 0;
    if (!reader_.read(length)) return truncated(join({"key ", quoted(key)}));
    return bad(join({"key ", quoted(key), ": string length ", std::to_string(length),
                     " exceeds file (", std::to_string(left - 8), " bytes left)"}));
}

Result<void> GgufShardParser::read_scalar(std::string_view key, GgufValue& value) {
    const uint8_t* p = reader_.take(gguf_number_bytes(value.type));
    if (!p) return truncated(join({"key ", quoted(key)}));
    switch (value.type) {
    case GgufType::U8:
        value.bits = *p;
        break;
    case GgufType::I8:
        value.bits = static_cast<uint64_t>(load_unaligned<int8_t>(p));
        break;
    case GgufType::U16:
        value.bits = load_unaligned<uint16_t>(p);
        break;
    case GgufType::I16:
        value.bits = static_cast<uint64_t>(load_unaligned<int16_t>(p));
        break;
    case GgufType::U32:
        value.bits = load_unaligned<uint32_t>(p);
        break;
    case GgufType::I32:
        value.bits = static_cast<uint64_t>(load_unaligned<int32_t>(p));
        break;
    case GgufType::F32:
        value.bits = std::bit_cast<uint64_t>(double{load_unaligned<float>(p)});
        break;
    case GgufType::Bool:
        if (*p > 1) {
            return bad(
                join({"key ", quoted(key), ": bool ", std::to_string(*p), ": must be 0 or 1"}));
        }
        value.bits = *p;
        break;
    default:
        value.bits = load_unaligned<uint64_t>(p);
        break;
    }
    return {};
}

Result<void> GgufShardParser::read_array(std::string_view key, GgufValue& value) {
    uint32_t element = 0;
    if (!reader_.read(element) || !reader_.read(value.count))
        return truncated(join({"key ", quoted(key)}));
    if (element == static_cast<uint32_t>(GgufType::Array)) {
        return bad(join({"key ", quoted(key), ": an array of arrays is not supported"}));
    }
    if (!known(element)) {
        return bad(
            join({"key ", quoted(key), ": element type ", std::to_string(element), " is unknown"}));
    }
    value.element = static_cast<GgufType>(element);
    if (value.element == GgufType::String) return read_strings(key, value);
    const std::optional<uint64_t> bytes =
        checked_mul(value.count, gguf_number_bytes(value.element));
    value.data = bytes ? reader_.take(*bytes) : nullptr;
    if (!value.data && value.count != 0) {
        return bad(join({"key ", quoted(key), ": ", std::to_string(value.count), " elements of ",
                         gguf_type_name(value.element), " exceed the file (",
                         std::to_string(reader_.left()), " bytes left)"}));
    }
    return {};
}

Result<void> GgufShardParser::read_strings(std::string_view key, GgufValue& value) {
    if (value.count > reader_.left() / 8) {
        return bad(
            join({"key ", quoted(key), ": ", std::to_string(value.count),
                  " strings exceed the file (", std::to_string(reader_.left()), " bytes left)"}));
    }
    if (value.count > GgufLimits::kStrings) {
        return bad(join({"key ", quoted(key), ": ", std::to_string(value.count),
                         " strings: must be at most ", std::to_string(GgufLimits::kStrings)}));
    }
    value.strings.reserve(value.count);
    for (uint64_t i = 0; i < value.count; i++) {
        std::string_view text;
        if (!reader_.read_text(text)) {
            return bad(join({"key ", quoted(key), ": string ", std::to_string(i), " exceeds file (",
                             std::to_string(reader_.left()), " bytes left)"}));
        }
        value.strings.push_back(text);
    }
    return {};
}

Result<void> GgufShardParser::order_keys() {
    key_order = sorted_positions(
        entries.size(),
        [](const void* of, uint32_t i) { return static_cast<const GgufFile::Entry*>(of)[i].key; },
        entries.data());
    for (size_t i = 1; i < key_order.size(); i++) {
        const std::string_view key = entries[key_order[i]].key;
        if (key == entries[key_order[i - 1]].key) {
            return bad(
                join({"key ", std::to_string(key_order[i]), ": duplicate key ", quoted(key)}));
        }
    }
    return {};
}

Result<void> GgufShardParser::read_alignment() {
    for (const GgufFile::Entry& entry : entries) {
        if (entry.key != "general.alignment") continue;
        if (entry.value.type != GgufType::U32) {
            return bad(join(
                {"general.alignment: expected u32, file has ", gguf_type_name(entry.value.type)}));
        }
        alignment = entry.value.bits;
        if (!std::has_single_bit(alignment) || alignment < GgufLimits::kAlignmentMin ||
            alignment > GgufLimits::kAlignmentMax) {
            return bad(join({"general.alignment=", std::to_string(alignment),
                             ": must be a power of two in 8..65536"}));
        }
    }
    return {};
}

Result<void> GgufShardParser::read_tensor(uint64_t index) {
    const std::string where = join({"tensor ", std::to_string(index)});
    GgufTensor tensor;
    tensor.shard = shard_;
    uint64_t length = 0, offset = 0;
    uint32_t type = 0;
    if (!reader_.read(length)) return truncated(where);
    if (length == 0 || length > GgufLimits::kNameBytes) {
        return bad(join({where, ": name length ", std::to_string(length), ": must be 1..",
                         std::to_string(GgufLimits::kNameBytes)}));
    }
    const uint8_t* bytes = reader_.take(length);
    if (!bytes) return truncated(where);
    tensor.name = {reinterpret_cast<const char*>(bytes), static_cast<size_t>(length)};
    if (const char* fault = name_fault(tensor.name)) {
        return bad(join({where, " (", quoted(tensor.name), ") ", fault}));
    }
    NIB_TRY(read_shape(tensor));
    if (!reader_.read(type) || !reader_.read(offset)) return truncated(tensor_text(tensor));
    NIB_TRY(measure(tensor, type));
    if (offset % alignment != 0) {
        return bad(join({tensor_text(tensor), ": offset ", std::to_string(offset),
                         " is not a multiple of general.alignment ", std::to_string(alignment)}));
    }
    tensors.push_back(tensor);
    offsets_.push_back(offset);
    return {};
}

Result<void> GgufShardParser::read_shape(GgufTensor& tensor) {
    if (!reader_.read(tensor.n_dims)) return truncated(tensor_text(tensor));
    if (tensor.n_dims < 1 || tensor.n_dims > 4) {
        const std::string n = std::to_string(tensor.n_dims);
        return bad(join({tensor_text(tensor), ": n_dims=", n, ": must be 1..4"}));
    }
    uint64_t elements = 1;
    for (uint32_t i = 0; i < tensor.n_dims; i++) {
        if (!reader_.read(tensor.ne[i])) return truncated(tensor_text(tensor));
    }
    for (uint32_t i = 0; i < tensor.n_dims; i++) {
        const uint64_t ne = tensor.ne[i];
        if (ne == 0 || ne > INT64_MAX) {
            return bad(join({tensor_text(tensor), ": dimension ", std::to_string(i), " is ",
                             std::to_string(static_cast<int64_t>(ne)), ": must be at least 1"}));
        }
        const std::optional<uint64_t> product = checked_mul(elements, ne);
        if (!product || *product > INT64_MAX) {
            return bad(join(
                {tensor_text(tensor), ": element count of ", shape_text(tensor), " overflows"}));
        }
        elements = *product;
    }
    return {};
}

Result<void> GgufShardParser::measure(GgufTensor& tensor, uint32_t type) {
    tensor.def = find_type(type);
    if (!tensor.def) {
        return bad(join({tensor_text(tensor), ": type ", std::to_string(type), " is not supported",
                         type_remark(type)}));
    }
    if (tensor.ne[0] % tensor.def->block_elems != 0) {
        return bad(join({tensor_text(tensor), ": row length ", std::to_string(tensor.ne[0]),
                         " is not a multiple of ", std::to_string(tensor.def->block_elems), " (",
                         tensor.def->name, ")"}));
    }
    const std::optional<uint64_t> bytes =
        checked_mul(tensor.elements() / tensor.def->block_elems, tensor.def->block_bytes);
    if (!bytes || *bytes > INT64_MAX) {
        return bad(join({tensor_text(tensor), ": size of ", shape_text(tensor), " ",
                         tensor.def->name, " overflows"}));
    }
    tensor.bytes = *bytes;
    return {};
}

Result<void> GgufShardParser::place_tensors() {
    const uint64_t after_table = reader_.position();
    const uint64_t start =
        (after_table + alignment - 1) & ~(alignment - 1);  // < 2^64: a file is < 2^63
    for (size_t i = 0; i < tensors.size(); i++) {
        GgufTensor& tensor = tensors[i];
        if (start > map_.size()) {
            return bad(join({tensor_text(tensor), ": no data section: it would start at byte ",
                             std::to_string(start), ", file has ", std::to_string(map_.size())}));
        }
        const uint64_t available = map_.size() - start;
        if (offsets_[i] > available || tensor.bytes > available - offsets_[i]) {
            return bad(join({tensor_text(tensor), ": ", std::to_string(tensor.bytes),
                             " bytes at offset ", std::to_string(offsets_[i]), " exceed the data (",
                             std::to_string(available), " bytes; truncated file?)"}));
        }
        tensor.data = map_.data() + start + offsets_[i];
    }
    return {};
}

Result<void> GgufShardParser::refuse_overlaps() const {
    std::vector<uint32_t> order(tensors.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return offsets_[a] != offsets_[b] ? offsets_[a] < offsets_[b] : a < b;
    });
    for (size_t i = 1; i < order.size(); i++) {
        const GgufTensor& before = tensors[order[i - 1]];
        const GgufTensor& tensor = tensors[order[i]];
        if (tensor.data < before.data + before.bytes) {
            return bad(join({tensor_text(tensor), ": offset ", std::to_string(offsets_[order[i]]),
                             " overlaps ", tensor_text(before)}));
        }
    }
    return {};
}

}  // namespace nib
