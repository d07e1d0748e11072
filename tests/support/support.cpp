// SPDX-License-Identifier: MIT
#include "tests/support/support.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nib::test {

TempDir::TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "nib-test-XXXXXX").string();
    if (!mkdtemp(name.data())) ADD_FAILURE() << "mkdtemp: " << std::strerror(errno);
    path_ = name;
}

TempDir::~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) {
        ADD_FAILURE() << "cannot read " << path;
        return {};
    }
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

void write_file(const std::string& path, std::string_view bytes) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out) ADD_FAILURE() << "cannot write " << path;
}

bool file_exists(const std::string& path) {
    return access(path.c_str(), F_OK) == 0;
}

std::string shared_data(std::string_view relative) {
    const char* set = std::getenv("NIB_TEST_DATA");
    const std::string base = set ? set : std::string(NIB_TEST_SOURCE_DIR) + "/../shared/data";
    const std::string path = base + "/" + std::string(relative);
    return file_exists(path) ? path : std::string();
}

std::string nib_path() {
    const char* set = std::getenv("NIB_TEST_PROGRAM");
    return set ? set : std::string(NIB_TEST_BUILD_DIR) + "/nib";
}

ProcessResult run_process(const std::vector<std::string>& argv,
                          std::string_view input,
                          const std::vector<std::pair<std::string, std::string>>& env,
                          double timeout_s) {
    ProcessResult result;
    int in[2], out[2], err[2];
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) {
        ADD_FAILURE() << "pipe: " << std::strerror(errno);
        return result;
    }
    const auto start = std::chrono::steady_clock::now();
    std::vector<char*> args;
    for (const std::string& a : argv)
        args.push_back(const_cast<char*>(a.c_str()));
    args.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        dup2(in[0], 0), dup2(out[1], 1), dup2(err[1], 2);
        signal(SIGPIPE, SIG_DFL);
        for (const auto& [name, value] : env)
            setenv(name.c_str(), value.c_str(), 1);
        execv(args[0], args.data());
        _exit(127);
    }
    close(in[0]), close(out[1]), close(err[1]);
    signal(SIGPIPE, SIG_IGN);
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    size_t written = 0;
    bool killed = false;
    pollfd fds[3] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}, {in[1], POLLOUT, 0}};
    if (input.empty()) close(in[1]), fds[2].fd = -1;
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        poll(fds, 3, 50);
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
        if (passed.count() > timeout_s && !killed) kill(child, SIGKILL), killed = true;
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd < 0 || !(fds[i].revents & (POLLIN | POLLHUP))) continue;
            char buffer[65536];
            const ssize_t n = read(fds[i].fd, buffer, sizeof buffer);
            if (n > 0) (i ? result.err : result.out).append(buffer, static_cast<size_t>(n));
            if (n == 0) close(fds[i].fd), fds[i].fd = -1;
        }
        if (fds[2].fd >= 0 && fds[2].revents) {
            const ssize_t n = write(fds[2].fd, input.data() + written, input.size() - written);
            if (n > 0) written += static_cast<size_t>(n);
            if ((n < 0 && errno != EAGAIN) || written == input.size())
                close(fds[2].fd), fds[2].fd = -1;
        }
    }
    if (fds[2].fd >= 0) close(fds[2].fd);
    int status = 0;
    rusage usage{};
    wait4(child, &status, 0, &usage);
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    result.peak_kib = usage.ru_maxrss;
    result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (killed) ADD_FAILURE() << argv[0] << " did not end within " << timeout_s << " s";
    return result;
}

void expect_error(const ProcessResult& result, int exit_code, std::string_view part) {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.err.rfind("error: ", 0), 0u) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_THAT(result.err, testing::HasSubstr(std::string(part)));
    EXPECT_EQ(result.out, "");
}

void expect_program_refuses(const std::vector<std::string>& args,
                            const std::vector<std::string>& words) {
    std::vector<std::string> argv = {nib_path()};
    argv.insert(argv.end(), args.begin(), args.end());
    const TempDir state;  // nothing of the person who runs the tests is found or changed
    const ProcessResult result =
        run_process(argv, {}, {{"XDG_CACHE_HOME", state.path()}, {"XDG_STATE_HOME", state.path()}});
    expect_error(result, 2, "");
    for (const std::string& word : words)
        EXPECT_THAT(result.err, testing::HasSubstr(word));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_LT(result.seconds, 1.0) << result.err;
    EXPECT_LT(result.peak_kib, 64 << 10) << result.err;
#endif
}

namespace {
template <class T>
std::string little(T v) {
    std::string s(sizeof v, '\0');
    std::memcpy(s.data(), &v, sizeof v);
    return s;
}
}  // namespace

std::string GgufBytes::u32(uint32_t v) {
    return little(v);
}
std::string GgufBytes::u64(uint64_t v) {
    return little(v);
}
std::string GgufBytes::f32(float v) {
    return little(v);
}
std::string GgufBytes::str(std::string_view s) {
    return little(uint64_t{s.size()}) + std::string(s);
}

GgufBytes& GgufBytes::raw_kv(std::string_view key, uint32_t type, std::string_view value_bytes) {
    kv += str(key) + u32(type) + std::string(value_bytes);
    n_kv++;
    return *this;
}

GgufBytes& GgufBytes::add_strings(std::string_view key, const std::vector<std::string>& v) {
    std::string s = u32(8) + u64(v.size());
    for (const auto& e : v)
        s += str(e);
    return raw_kv(key, 9, s);
}

GgufBytes& GgufBytes::add_f32s(std::string_view key, const std::vector<float>& v) {
    std::string s = u32(6) + u64(v.size());
    for (float e : v)
        s += f32(e);
    return raw_kv(key, 9, s);
}

GgufBytes& GgufBytes::add_i32s(std::string_view key, const std::vector<int32_t>& v) {
    std::string s = u32(5) + u64(v.size());
    for (int32_t e : v)
        s += u32(static_cast<uint32_t>(e));
    return raw_kv(key, 9, s);
}

GgufBytes& GgufBytes::tensor(std::string_view name,
                             const std::vector<uint64_t>& ne,
                             uint32_t type,
                             uint64_t offset) {
    tensors += str(name) + u32(static_cast<uint32_t>(ne.size()));
    for (uint64_t n : ne)
        tensors += u64(n);
    tensors += u32(type) + u64(offset);
    n_tensors++;
    return *this;
}

std::string GgufBytes::bytes() const {
    std::string s = magic + u32(version) + u64(n_tensors) + u64(n_kv) + kv + tensors;
    s.resize((s.size() + alignment - 1) / alignment * alignment, '\0');
    return s + data;
}

}  // namespace nib::test
