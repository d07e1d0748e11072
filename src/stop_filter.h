// SPDX-License-Identifier: MIT
// Finds stop texts in a stream of text pieces and holds back whatever could still become one, so
// that no part of a stop text is ever shown.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace nib {

class StopFilter {
  public:
    explicit StopFilter(std::vector<std::string> stops);  // empty ones are ignored

    // What may be shown now. Once a stop text has come, nothing more.
    std::string push(std::string_view piece);
    // What was held back, when the stream ends without a stop text.
    std::string finish();
    bool stopped() const { return stopped_; }
    const std::string& stopping_word() const { return word_; }  // that has come; else empty

  private:
    std::vector<std::string> stops_;
    std::string held_, word_;
    bool stopped_ = false;
};

}  // namespace nib
