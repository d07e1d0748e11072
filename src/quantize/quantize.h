// SPDX-License-Identifier: MIT
// Writes a model with other tensor types. The file is walked tensor by tensor in pieces of a few
// hundred thousand values: several threads decode and encode pieces, one writes them in order, and
// the pages that were read are given back. So memory is a few MiB per thread, whatever the model.
//
// The new file appears under its name only when it is whole.
#pragma once
#include "src/quantize/recipe.h"

#include <functional>

namespace nib {

struct QuantizeOptions {
    int threads = 1;
    // Share of the output that is written; return false to give up (Cancelled).
    std::function<bool(double)> progress;
};

// Errors: BadFile that names tensor and index if a weight is not finite, or too large for its new
// type, or if the file changes meanwhile; Io if the output cannot be written.
Result<void> write_quantized(const GgufFile& file,
                             const QuantPlan& plan,
                             const std::string& path,
                             const QuantizeOptions& options);

}  // namespace nib
