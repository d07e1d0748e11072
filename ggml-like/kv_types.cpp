// SPDX-License-Identifier: MIT
// The types that keys and values are kept in: their names and sizes, the same for every backend.
#include "ggml-like/backend.h"

namespace nib {
namespace {

constexpr Type kKvTypes[] = {Type::F16, Type::Q8_0};

Error unknown(const std::string& got) {
    std::string names;
    for (const Type type : kKvTypes)
        names += (names.empty() ? "" : "|") + std::string(info(type).name);
    return {Status::BadRequest, "KV cache type: expected " + names + ", got " + got};
}

// Of one head of one token. The rest of a head after its last 32 values has a scale too.
size_t head_bytes(Type type, size_t head_dim) {
    if (type == Type::F16) return head_dim * sizeof(uint16_t);
    return head_dim + (head_dim + 31) / 32 * sizeof(uint16_t);
}

}  // namespace

Result<Type> kv_type(std::string_view name) {
    for (const Type type : kKvTypes) {
        if (name == info(type).name) return type;
    }
    return unknown("'" + std::string(name) + "'");
}

Result<void> check_kv_types(const KvGroupSpec& group) {
    for (const Type type : {group.type_k, group.type_v}) {
        const QuantDef* def = find_type(static_cast<uint32_t>(type));
        NIB_TRY(kv_type(def ? def->name : "no type"));
    }
    return {};
}

size_t kv_token_bytes(const KvGroupSpec& group) {
    size_t bytes = 0;
    for (const AttentionSpec& a : group.layers) {
        const auto dim = static_cast<size_t>(a.head_dim);
        bytes += static_cast<size_t>(a.n_kv_heads) *
                 (head_bytes(group.type_k, dim) + head_bytes(group.type_v, dim));
    }
    return bytes;
}

}  // namespace nib
