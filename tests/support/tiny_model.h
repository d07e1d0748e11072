// SPDX-License-Identifier: MIT
// A tiny random model of any architecture, as the bytes of a GGUF file: its tiny config, its tensor
// table, and a byte-level vocabulary, so that everything that loads models can be tested without a
// download.
#pragma once
#include "src/arch.h"
#include "tests/support/support.h"

#include <string>
#include <vector>

namespace nib::test {

struct TinyOptions {
    const char* type = "f32";  // of matrices; rows that do not fit its blocks become q8_0
    uint32_t seed = 1;
    int n_vocab = 300;
    bool tied = false;       // no output.weight
    bool copy_head = false;  // output.weight is a copy of the table
    // Changes of the config: key without the prefix. NaN removes an integer key, infinity a float
    // key.
    std::vector<TinyKey> keys = {};
    std::string without_tensor = {};  // left out
    std::string extra_key = {};       // a key "ARCH.extra_key" = 7 that nobody knows
    std::string chat_template = {};
    bool chat_template_is_number = false;
};

std::string tiny_gguf(const ArchDef& arch, const TinyOptions& options = {});

}  // namespace nib::test
