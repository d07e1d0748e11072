// SPDX-License-Identifier: MIT
// Who may use the server: API keys. A key is compared with all of them, each in a time that does
// not depend on where it differs.
#pragma once
#include "ggml-like/result.h"
#include "src/server/head_check.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nib {

class ApiKeys {
  public:
    // keys: as given. file: one key a line, empty lines and lines with # left out; "" for none.
    // Errors: BadRequest; keys are never shown.
    static Result<ApiKeys> read(const std::vector<std::string>& keys, const std::string& file);

    bool empty() const { return keys_.empty(); }
    size_t size() const { return keys_.size(); }
    bool accepts(std::string_view key) const;

  private:
    std::vector<std::string> keys_;
};

// The key that a request shows: `Authorization: Bearer KEY` (the word in any case) or
// `X-Api-Key: KEY`. Empty if it has none, several, or one of another form; given: it has some.
struct GivenKey {
    bool given = false;
    std::string_view key;
};
GivenKey given_key(const RequestHead& head);

// 64 bits of a text, to tell clients apart without keeping their keys.
uint64_t text_hash(std::string_view text);

}  // namespace nib
