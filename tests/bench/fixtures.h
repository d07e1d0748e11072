// SPDX-License-Identifier: MIT
// Tiny models for the bench: written to a folder that lives as long as the test.
#pragma once
#include "src/bench/model.h"
#include "tests/support/support.h"
#include "tests/support/tiny_model.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace nib::bench {

class TinyModelTest : public testing::Test {
  protected:
    std::string write(const char* arch = "llama", const char* type = "q8_0") {
        const std::string path = folder_.file(std::string(arch) + ".gguf");
        test::write_file(path, test::tiny_gguf(*find_arch(arch), {.type = type}));
        return path;
    }
    LoadedModel load(ModelRequest request) {
        request.threads = 2;
        auto loaded = load_model(request);
        EXPECT_TRUE(loaded.ok()) << (loaded.ok() ? "" : loaded.error().message);
        return loaded.ok() ? std::move(*loaded) : LoadedModel{};
    }
    test::TempDir folder_;
};

// Limits that make numbers easy to follow.
inline Roofline round_limits() {
    Roofline limits;
    limits.read_bytes_per_s = 1e9;
    limits.int8_macs_per_s = 1e11;
    limits.float_macs_per_s = 1e10;
    return limits;
}

}  // namespace nib::bench
