// SPDX-License-Identifier: MIT
#include "src/server/fields.h"

#include "src/option_values.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace nib {
namespace {

std::string number_text(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}

}  // namespace

std::string shown_value(const Json& value) {
    if (value.is_string()) return shown(value.get_ref<const std::string&>());
    if (value.is_array()) return "an array";
    if (value.is_object()) return "an object";
    return dump_json(value);
}

std::optional<int32_t> token_of(const Json& value, int32_t n_vocab) {
    const bool fits = value.is_number_unsigned()
                          ? value.get<uint64_t>() < static_cast<uint64_t>(n_vocab)
                          : value.is_number_integer() && value.get<int64_t>() >= 0 &&
                                value.get<int64_t>() < n_vocab;
    return fits ? std::optional(value.get<int32_t>()) : std::nullopt;
}

Fields::Fields(const Json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {}

const Json* Fields::find(const char* name) const {
    const auto at = object_.find(name);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
}

const char* Fields::first_of(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
        if (find(name)) return name;
    }
    return *names.begin();
}

bool Fields::boolean(const char* name, bool fallback) {
    const Json* value = find(name);
    if (!value) return fallback;
    if (value->is_boolean()) return value->get<bool>();
    fail_value(param(name), "true or false", *value);
    return fallback;
}

int64_t Fields::integer(const char* name, int64_t fallback, int64_t low, int64_t high) {
    const Json* value = find(name);
    if (!value) return fallback;
    const bool too_big =
        value->is_number_unsigned() &&
        value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (value->is_number_integer() && !too_big) {
        const auto n = value->get<int64_t>();
        if (n >= low && n <= high) return n;
    }
    fail_value(param(name),
               "an integer from " + std::to_string(low) + " to " + std::to_string(high), *value);
    return fallback;
}

double Fields::number(const char* name, double fallback, double low, double high) {
    const Json* value = find(name);
    if (!value) return fallback;
    if (value->is_number()) {
        const auto x = value->get<double>();
        if (std::isfinite(x) && x >= low && x <= high) return x;
    }
    fail_value(param(name), "a number from " + number_text(low) + " to " + number_text(high),
               *value);
    return fallback;
}

std::string Fields::text(const char* name, const std::string& fallback, size_t bytes_max) {
    const Json* value = find(name);
    if (!value) return fallback;
    if (value->is_string()) {
        const auto& text = value->get_ref<const std::string&>();
        if (text.size() <= bytes_max) return text;
        fail(param(name), "expected at most " + std::to_string(bytes_max) + " bytes, got " +
                              std::to_string(text.size()));
        return fallback;
    }
    fail_value(param(name), "a string", *value);
    return fallback;
}

const Json* Fields::object(const char* name) {
    const Json* value = find(name);
    if (!value || value->is_object()) return value;
    fail_value(param(name), "an object", *value);
    return nullptr;
}

const Json* Fields::array(const char* name, size_t values_max) {
    const Json* value = find(name);
    if (!value) return nullptr;
    if (!value->is_array()) {
        fail_value(param(name), "an array", *value);
        return nullptr;
    }
    if (value->size() <= values_max) return value;
    fail(param(name), "expected at most " + std::to_string(values_max) + " entries, got " +
                          std::to_string(value->size()));
    return nullptr;
}

void Fields::refuse_unless(const char* name, std::initializer_list<const char*> harmless) {
    const Json* value = find(name);
    if (!value) return;
    const std::string text = value->is_structured() && !value->empty() ? "" : dump_json(*value);
    const bool fine = std::any_of(harmless.begin(), harmless.end(),
                                  [&](const char* word) { return text == word; });
    if (fine) return;
    ApiError error;
    error.status = 501;
    error.message = param(name) + ": not supported by this server";
    error.param = param(name);
    error.code = "not_supported";
    fail(std::move(error));
}

void Fields::fail(const std::string& name, const std::string& message) {
    ApiError error;
    error.message = name + ": " + message;
    error.param = name;
    fail(std::move(error));
}

void Fields::fail(ApiError error) {
    if (!error_) error_ = std::move(error);
}

void Fields::fail_value(const std::string& name, const std::string& expected, const Json& got) {
    fail(name, "expected " + expected + ", got " + shown_value(got));
}

}  // namespace nib
