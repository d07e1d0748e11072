// SPDX-License-Identifier: MIT
// Strict reading of a JSON object's fields: a value has the right type and lies in its range, or
// the request is refused with the field's name, what was expected and what came. null counts as
// absent. The first problem is kept; readers after it give their fallback, so a caller reads
// everything and looks at error() once.
#pragma once
#include "src/json/json.h"
#include "src/server/api_error.h"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace nib {

class Fields {
  public:
    // prefix: of names in errors, such as "stream_options.".
    explicit Fields(const Json& object, std::string prefix = {});

    // The value, or null if it is absent or JSON's null.
    const Json* find(const char* name) const;
    // The first of several names that is there.
    const char* first_of(std::initializer_list<const char*> names) const;

    bool boolean(const char* name, bool fallback);
    int64_t integer(const char* name, int64_t fallback, int64_t low, int64_t high);
    double number(const char* name, double fallback, double low, double high);
    std::string text(const char* name, const std::string& fallback, size_t bytes_max);
    const Json* object(const char* name);
    const Json* array(const char* name, size_t values_max);

    // Refuses the field if it is there and not `harmless` (JSON text): nothing here can do it.
    void refuse_unless(const char* name, std::initializer_list<const char*> harmless);

    void fail(const std::string& param, const std::string& message);
    void fail(ApiError error);
    // expected: "a number from 0 to 1"; the value that came is added.
    void fail_value(const std::string& param, const std::string& expected, const Json& got);

    bool ok() const { return !error_; }
    const ApiError& error() const { return *error_; }
    std::string param(const char* name) const { return prefix_ + name; }

  private:
    const Json& object_;
    std::string prefix_;
    std::optional<ApiError> error_;
};

// The token that a JSON value names; nothing if it is no integer from 0 to n_vocab - 1.
std::optional<int32_t> token_of(const Json& value, int32_t n_vocab);
// A value for a message: numbers and words as they are, text quoted and shortened, else its type.
std::string shown_value(const Json& value);

}  // namespace nib
