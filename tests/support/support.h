// SPDX-License-Identifier: MIT
// What the suites share: temporary folders, files, child processes, optional data, and a writer of
// GGUF bytes that can lie (for files that no writer of ours would make).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nib::test {

// A folder that is removed with everything in it when the object dies.
class TempDir {
  public:
    TempDir();
    ~TempDir();
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    const std::string& path() const { return path_; }
    std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

  private:
    std::string path_;
};

std::string read_file(const std::string& path);  // fails the test if it cannot
void write_file(const std::string& path, std::string_view bytes);
bool file_exists(const std::string& path);

// Optional reference data beside the checkout, or $NIB_TEST_DATA; empty if there is none (the test
// then says `skipped: no reference data`).
std::string shared_data(std::string_view relative);

struct ProcessResult {
    int exit_code = -1;  // 128 + signal if it was killed
    std::string out, err;
    double seconds = 0;
    long peak_kib = 0;
};
// Runs a program (argv[0] is its path) with stdin bytes; killed after `timeout_s`. env: added
// variables.
ProcessResult run_process(const std::vector<std::string>& argv,
                          std::string_view input = {},
                          const std::vector<std::pair<std::string, std::string>>& env = {},
                          double timeout_s = 60);
// The nib program of this build.
std::string nib_path();

// One line that begins with "error: " and holds `part`, and nothing on stdout.
void expect_error(const ProcessResult& result, int exit_code, std::string_view part);
// Bad input as a person meets it: the program ends with exit code 2 and one line with all words,
// in less than a second and 64 MiB (sanitizers need more of both).
void expect_program_refuses(const std::vector<std::string>& args,
                            const std::vector<std::string>& words);

// GGUF bytes, piece by piece; nothing is checked.
struct GgufBytes {
    std::string kv, tensors, data;
    uint64_t n_kv = 0, n_tensors = 0;
    uint32_t version = 3, alignment = 32;
    std::string magic = "GGUF";

    static std::string u32(uint32_t v);
    static std::string u64(uint64_t v);
    static std::string f32(float v);
    static std::string str(std::string_view s);
    GgufBytes& raw_kv(std::string_view key, uint32_t type, std::string_view value_bytes);
    GgufBytes& add_u32(std::string_view key, uint32_t v) { return raw_kv(key, 4, u32(v)); }
    GgufBytes& add_i32(std::string_view key, int32_t v) {
        return raw_kv(key, 5, u32(static_cast<uint32_t>(v)));
    }
    GgufBytes& add_f32(std::string_view key, float v) { return raw_kv(key, 6, f32(v)); }
    GgufBytes& add_bool(std::string_view key, bool v) {
        return raw_kv(key, 7, std::string(1, v ? 1 : 0));
    }
    GgufBytes& add_string(std::string_view key, std::string_view v) {
        return raw_kv(key, 8, str(v));
    }
    GgufBytes& add_strings(std::string_view key, const std::vector<std::string>& v);
    GgufBytes& add_f32s(std::string_view key, const std::vector<float>& v);
    GgufBytes& add_i32s(std::string_view key, const std::vector<int32_t>& v);
    // ne innermost first; offset from the data start as given. Data bytes are appended by the
    // caller.
    GgufBytes& tensor(std::string_view name,
                      const std::vector<uint64_t>& ne,
                      uint32_t type,
                      uint64_t offset);
    std::string bytes() const;
};

}  // namespace nib::test
