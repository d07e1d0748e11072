// SPDX-License-Identifier: MIT
// Small model files for the tests of quantization, and the program on them.
#pragma once
#include "ggml-like/files/gguf.h"
#include "tests/support/tiny_model.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nib::test {

inline std::string float_bytes(const std::vector<float>& values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

// A file with one matrix of two rows and nothing else.
inline std::string matrix_file(const std::vector<float>& values) {
    GgufBytes file;
    file.add_string("general.architecture", "llama");
    file.tensor("blk.0.attn_q.weight", {values.size() / 2, 2}, 0, 0);
    file.data = float_bytes(values);
    return file.bytes();
}

// A llama whose rows fit blocks of 256.
inline std::string wide_model(const TinyOptions& options = {}) {
    static constexpr TinyKey kKeys[] = {
        {"block_count", 2},
        {"embedding_length", 256},
        {"feed_forward_length", 512},
        {"context_length", 512},
        {"attention.head_count", 4},
        {"attention.head_count_kv", 2},
        {"rope.freq_base", 1e4, true},
        {"attention.layer_norm_rms_epsilon", 1e-5, true},
    };
    ArchDef arch = *find_arch("llama");
    arch.tiny = kKeys;
    return tiny_gguf(arch, options);
}

class Quantize : public testing::Test {
  protected:
    ProcessResult nib(std::vector<std::string> args) const {
        args.insert(args.begin(), nib_path());
        return run_process(args, {},
                           {{"XDG_CACHE_HOME", dir.path()}, {"XDG_STATE_HOME", dir.path()}});
    }
    ProcessResult quantize(std::vector<std::string> args) const {
        args.insert(args.begin(), "quantize");
        return nib(std::move(args));
    }
    std::string write(std::string_view name, std::string_view bytes) const {
        write_file(dir.file(name), bytes);
        return dir.file(name);
    }
    std::shared_ptr<GgufFile> open(const std::string& path) const {
        auto file = GgufFile::open(path);
        if (file.ok()) return std::move(file).value();
        ADD_FAILURE() << file.error().message;
        return nullptr;
    }
    std::vector<float> values_of(const GgufFile& file, std::string_view name) const {
        const GgufTensor* tensor = file.find_tensor(name);
        if (!tensor) return {};
        std::vector<float> values(tensor->elements());
        tensor->def->decode(tensor->data, values.data(), values.size());
        return values;
    }

    TempDir dir;
};

}  // namespace nib::test
