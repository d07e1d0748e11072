// SPDX-License-Identifier: MIT
// Text that came from a file, as error messages show it.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

namespace nib {

// Well formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

// One printable line: control bytes and bytes outside UTF-8 become \xNN, long text is cut.
std::string printable(std::string_view text, size_t max_bytes = 4096);
// The same between single quotes, cut after about 100 bytes.
std::string quoted(std::string_view text);

// The parts in one string. (Chains of + with temporaries make GCC 12 warn about overlapping
// copies.)
std::string join(std::initializer_list<std::string_view> parts);

}  // namespace nib
