// SPDX-License-Identifier: MIT
#include "tests/sample/helpers.h"

#include <cmath>

namespace nib::test {

std::vector<float> logits_of(const std::vector<double>& p) {
    std::vector<float> out;
    for (const double x : p)
        out.push_back(static_cast<float>(std::log(x)));
    return out;
}

std::vector<float> wavy_logits(size_t n, uint32_t salt) {
    std::vector<float> out(n);
    uint32_t state = salt * 2654435761u + 1;
    for (float& x : out) {
        double sum = 0;
        for (int i = 0; i < 4; ++i) {
            state = state * 1664525u + 1013904223u;
            sum += state / 4294967296.0;
        }
        x = static_cast<float>((sum - 2) * 6);
    }
    return out;
}

}  // namespace nib::test
