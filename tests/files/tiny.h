// SPDX-License-Identifier: MIT
// The small valid files that the tests spoil one field at a time, and what opening a spoiled one
// must be like.
#pragma once
#include "ggml-like/files/gguf.h"
#include "tests/files/allocations.h"
#include "tests/support/support.h"

#include <chrono>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nib::test {

// A name with a number.
inline std::string numbered(std::string_view name, uint64_t number) {
    return std::string(name).append(std::to_string(number));
}

// Two keys, two tensors of 32 bytes each.
inline GgufBytes tiny_gguf() {
    GgufBytes file;
    file.add_string("general.architecture", "llama").add_u32("llama.block_count", 1);
    file.tensor("a.weight", {4, 2}, 0, 0).tensor("b.weight", {8}, 0, 32);
    for (int i = 0; i < 16; i++)
        file.data += GgufBytes::f32(static_cast<float>(i));
    return file;
}

// Keys only, then one tensor of the given kind with 64 bytes of data.
inline GgufBytes one_tensor(const std::vector<uint64_t>& ne, uint32_t type, uint64_t offset = 0) {
    GgufBytes file;
    file.add_string("general.architecture", "llama").tensor("t", ne, type, offset);
    file.data = std::string(64, '\1');
    return file;
}

// Runs `open` and expects an error: one line that starts with the path and holds the given words,
// in less than a second, without an allocation that the small file cannot explain.
template <class Open>
void expect_refused(const std::string& path, const std::vector<std::string>& words, Open open) {
    const auto start = std::chrono::steady_clock::now();
    reset_largest_allocation();
    const auto opened = open(path);
    const size_t largest = largest_allocation();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    ASSERT_FALSE(opened.ok()) << "was accepted; expected an error about " << words.front();
    const Error& error = opened.error();
    EXPECT_EQ(exit_code(error.status), 2) << error.message;
    EXPECT_THAT(error.message, testing::StartsWith(path.substr(0, path.rfind('/'))));
    EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
    for (const std::string& word : words)
        EXPECT_THAT(error.message, testing::HasSubstr(word));
    EXPECT_LT(largest, size_t{1} << 20) << error.message;
    EXPECT_LT(passed.count(), 1.0) << error.message;
}

// The same by the library and by the program.
inline void expect_gguf_path_refused(const std::string& path,
                                     const std::vector<std::string>& words) {
    expect_refused(path, words, [](const std::string& p) { return GgufFile::open(p); });
    expect_program_refuses({"run", "-m", path, "-p", "x"}, words);
}

inline void expect_gguf_refused(std::string_view bytes, const std::vector<std::string>& words) {
    TempDir folder;
    const std::string path = folder.file("m.gguf");
    write_file(path, bytes);
    expect_gguf_path_refused(path, words);
}

}  // namespace nib::test
