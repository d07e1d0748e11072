// SPDX-License-Identifier: MIT
// Values, look-ups and checked getters of an open GgufFile.
#include "ggml-like/files/gguf.h"

#include "ggml-like/files/mapped_file.h"
#include "ggml-like/files/reader.h"
#include "ggml-like/files/text.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>

namespace nib {
namespace {

bool integer_type(GgufType type) {
    switch (type) {
    case GgufType::U8:
    case GgufType::I8:
    case GgufType::U16:
    case GgufType::I16:
    case GgufType::U32:
    case GgufType::I32:
    case GgufType::U64:
    case GgufType::I64:
        return true;
    default:
        return false;
    }
}

std::string number_text(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}

std::string missing(std::string_view key) {
    return join({"missing key ", printable(key, 100)});
}

std::string type_text(const GgufValue& value) {
    if (value.type != GgufType::Array) return gguf_type_name(value.type);
    return std::string("array of ") + gguf_type_name(value.element);
}

std::string wrong_type(std::string_view key, const char* expected, const GgufValue& value) {
    return join({printable(key, 100), ": expected ", expected, ", file has ", type_text(value)});
}

// The item named `key`, through positions that are sorted by name.
template <class Item, class Name>
const Item* find_sorted(std::span<const Item> items,
                        std::span<const uint32_t> order,
                        std::string_view key,
                        Name name) {
    const auto at =
        std::lower_bound(order.begin(), order.end(), key,
                         [&](uint32_t i, std::string_view k) { return name(items[i]) < k; });
    return at != order.end() && name(items[*at]) == key ? &items[*at] : nullptr;
}

}  // namespace

const char* gguf_type_name(GgufType type) {
    static constexpr const char* kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                             "bool", "string", "array", "u64", "i64", "f64"};
    const auto index = static_cast<uint32_t>(type);
    return index < std::size(kNames) ? kNames[index] : "unknown";
}

bool GgufValue::is_integer() const {
    return integer_type(type);
}

std::optional<int64_t> GgufValue::integer() const {
    if (!integer_type(type)) return std::nullopt;
    if (type == GgufType::U64 && bits > INT64_MAX) return std::nullopt;
    return static_cast<int64_t>(bits);
}

std::optional<double> GgufValue::number() const {
    if (type == GgufType::F32 || type == GgufType::F64) return std::bit_cast<double>(bits);
    if (type == GgufType::U64) return static_cast<double>(bits);
    if (integer_type(type)) return static_cast<double>(static_cast<int64_t>(bits));
    return std::nullopt;
}

std::optional<bool> GgufValue::boolean() const {
    if (type != GgufType::Bool) return std::nullopt;
    return bits != 0;
}

int64_t GgufValue::integer_at(uint64_t i) const {
    if (type != GgufType::Array || !data || i >= count) return 0;
    switch (element) {
    case GgufType::U8:
        return data[i];
    case GgufType::I8:
        return load_unaligned<int8_t>(data + i);
    case GgufType::Bool:
        return data[i] != 0;
    case GgufType::U16:
        return load_unaligned<uint16_t>(data + 2 * i);
    case GgufType::I16:
        return load_unaligned<int16_t>(data + 2 * i);
    case GgufType::U32:
        return load_unaligned<uint32_t>(data + 4 * i);
    case GgufType::I32:
        return load_unaligned<int32_t>(data + 4 * i);
    case GgufType::U64:
        return static_cast<int64_t>(
            std::min<uint64_t>(load_unaligned<uint64_t>(data + 8 * i), INT64_MAX));
    case GgufType::I64:
        return load_unaligned<int64_t>(data + 8 * i);
    default:
        return 0;
    }
}

double GgufValue::number_at(uint64_t i) const {
    if (type == GgufType::Array && data && i < count) {
        if (element == GgufType::F32) return load_unaligned<float>(data + 4 * i);
        if (element == GgufType::F64) return load_unaligned<double>(data + 8 * i);
    }
    return static_cast<double>(integer_at(i));
}

GgufFile::GgufFile() = default;
GgufFile::~GgufFile() = default;

Error GgufFile::bad(std::string message) const {
    return {Status::BadFile, join({printable(path_), ": ", message})};
}

const GgufValue* GgufFile::find(std::string_view key) const {
    const Entry* entry =
        find_sorted<Entry>(entries_, key_order_, key, [](const Entry& e) { return e.key; });
    return entry ? &entry->value : nullptr;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
    return find_sorted<GgufTensor>(tensors_, tensor_order_, name,
                                   [](const GgufTensor& t) { return t.name; });
}

Result<std::string> GgufFile::string(std::string_view key) const {
    const GgufValue* value = find(key);
    if (!value) return bad(missing(key));
    if (value->type != GgufType::String) return bad(wrong_type(key, "a string", *value));
    return std::string(value->text);
}

Result<int64_t> GgufFile::integer(std::string_view key, int64_t low, int64_t high) const {
    const GgufValue* value = find(key);
    if (!value) return bad(missing(key));
    if (!value->is_integer()) return bad(wrong_type(key, "an integer", *value));
    const std::optional<int64_t> number = value->integer();
    if (!number || *number < low || *number > high) {
        const std::string got = number ? std::to_string(*number) : std::to_string(value->bits);
        return bad(join({printable(key, 100), "=", got, ": must be ", std::to_string(low), "..",
                         std::to_string(high)}));
    }
    return *number;
}

Result<int64_t> GgufFile::integer_or(std::string_view key,
                                     int64_t fallback,
                                     int64_t low,
                                     int64_t high) const {
    if (!find(key)) return fallback;
    return integer(key, low, high);
}

Result<double> GgufFile::number(std::string_view key, double low, double high) const {
    const GgufValue* value = find(key);
    if (!value) return bad(missing(key));
    const std::optional<double> number = value->number();
    if (!number) return bad(wrong_type(key, "a number", *value));
    if (!std::isfinite(*number) || *number < low || *number > high) {
        return bad(join({printable(key, 100), "=", number_text(*number), ": must be ",
                         number_text(low), "..", number_text(high)}));
    }
    return *number;
}

Result<double> GgufFile::number_or(std::string_view key,
                                   double fallback,
                                   double low,
                                   double high) const {
    if (!find(key)) return fallback;
    return number(key, low, high);
}

Result<bool> GgufFile::boolean_or(std::string_view key, bool fallback) const {
    const GgufValue* value = find(key);
    if (!value) return fallback;
    const std::optional<bool> answer = value->boolean();
    if (!answer) return bad(wrong_type(key, "a bool", *value));
    return *answer;
}

bool GgufFile::changed() const {
    return std::any_of(maps_.begin(), maps_.end(), [](const auto& map) { return map->changed(); });
}

void GgufFile::drop_pages(const void* data, uint64_t bytes) const {
    for (const auto& map : maps_)
        map->drop_pages(data, bytes);
}

}  // namespace nib
