// SPDX-License-Identifier: MIT
#include "src/stop_filter.h"

#include <algorithm>

namespace nib {

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
    std::erase_if(stops_, [](const std::string& s) { return s.empty(); });
}

std::string StopFilter::push(std::string_view piece) {
    if (stopped_) return {};
    held_ += piece;
    size_t first = std::string::npos;
    for (const std::string& s : stops_) {
        const size_t at = held_.find(s);
        if (at >= first) continue;
        first = at;
        word_ = s;
    }
    if (first != std::string::npos) {
        stopped_ = true;
        std::string shown = held_.substr(0, first);
        held_.clear();
        return shown;
    }
    // The longest tail that begins a stop text stays.
    size_t keep = 0;
    for (const std::string& s : stops_) {
        for (size_t n = std::min(held_.size(), s.size() - 1); n > keep; n--) {
            if (held_.compare(held_.size() - n, n, s, 0, n) == 0) keep = n;
        }
    }
    std::string shown = held_.substr(0, held_.size() - keep);
    held_.erase(0, held_.size() - keep);
    return shown;
}

std::string StopFilter::finish() {
    std::string shown;
    shown.swap(held_);
    return shown;
}

}  // namespace nib
