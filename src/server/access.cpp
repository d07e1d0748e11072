// SPDX-License-Identifier: MIT
#include "src/server/access.h"

#include "src/server/limits.h"

#include <fstream>

namespace nib {
namespace {

// Looks at every byte of `given`, whatever `key` is.
bool same_text(std::string_view key, std::string_view given) {
    volatile unsigned differences = key.size() == given.size() ? 0 : 1;
    for (size_t i = 0; i < given.size(); i++) {
        const char c = key.empty() ? '\0' : key[i % key.size()];
        differences = differences | static_cast<unsigned char>(c ^ given[i]);
    }
    return differences == 0;
}

Result<void> check_key(std::string_view key) {
    const bool printable = key.find_first_not_of(
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "!#$%&'()*+-./:;<=>?@[]^_`{|}~\"\\,") == std::string_view::npos;
    if (!key.empty() && key.size() <= kApiKeyMax && printable) return {};
    return Error{Status::BadRequest, "expected a key of 1 to " + std::to_string(kApiKeyMax) +
                                         " printable characters without blanks"};
}

// The KEY of "Bearer KEY"; empty if it is something else.
std::string_view bearer_key(std::string_view authorization) {
    constexpr std::string_view kWord = "bearer ";
    if (authorization.size() <= kWord.size()) return {};
    for (size_t i = 0; i < kWord.size(); i++) {
        const char c = authorization[i];
        const char small = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        if (small != kWord[i]) return {};
    }
    return authorization.substr(kWord.size());
}

}  // namespace

Result<ApiKeys> ApiKeys::read(const std::vector<std::string>& keys, const std::string& file) {
    ApiKeys all;
    for (const std::string& key : keys) {
        const auto checked = check_key(key);
        if (!checked) return Error{Status::BadRequest, "--api-key: " + checked.error().message};
        all.keys_.push_back(key);
    }
    if (file.empty()) return all;
    std::ifstream in(file);
    if (!in) return Error{Status::BadRequest, "--api-key-file: cannot read " + file};
    std::string line;
    for (int n = 1; std::getline(in, line); n++) {
        while (!line.empty() && (line.back() == '\r' || line.back() == ' '))
            line.pop_back();
        if (line.empty() || line[0] == '#') continue;
        const auto checked = check_key(line);
        if (!checked) {
            return Error{Status::BadRequest, "--api-key-file: " + file + ", line " +
                                                 std::to_string(n) + ": " +
                                                 checked.error().message};
        }
        all.keys_.push_back(line);
    }
    if (all.keys_.empty()) {
        return Error{Status::BadRequest, "--api-key-file: " + file + " holds no key"};
    }
    return all;
}

bool ApiKeys::accepts(std::string_view key) const {
    if (key.empty() || key.size() > kApiKeyMax) return false;
    bool found = false;
    for (const std::string& ours : keys_) {
        const bool same = same_text(ours, key);
        found = found || same;
    }
    return found;
}

GivenKey given_key(const RequestHead& head) {
    int n = 0;
    std::string_view key;
    for (const auto& [name, value] : head.headers) {
        if (name == "authorization") {
            key = bearer_key(value);
        } else if (name == "x-api-key") {
            key = value;
        } else {
            continue;
        }
        n++;
    }
    return {n > 0, n == 1 ? key : std::string_view()};
}

uint64_t text_hash(std::string_view text) {
    uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const char c : text) {
        hash ^= static_cast<unsigned char>(c);
        hash *= 0x100000001b3;
    }
    return hash;
}

}  // namespace nib
