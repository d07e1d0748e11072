// SPDX-License-Identifier: MIT
// Unicode normalisation of text that is valid UTF-8, in time that grows with n log n whatever the
// text (a library's own ordering of combining marks is quadratic on rows of marks made for it).
#pragma once
#include <string>
#include <string_view>

namespace nib {

// True if the text is in form NFC for sure: it has only characters that neither change nor combine.
bool is_plainly_nfc(std::string_view text);
std::string to_nfc(std::string_view text);

}  // namespace nib
