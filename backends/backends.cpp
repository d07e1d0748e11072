// SPDX-License-Identifier: MIT
// The backends of this build, by name.
#include "ggml-like/backend.h"

namespace nib {

const BackendDef* find_backend(const std::string& name) {
    for (const BackendDef* backend : all_backends()) {
        if (backend->name == name) return backend;
    }
    return nullptr;
}

}  // namespace nib
