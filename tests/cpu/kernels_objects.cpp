// SPDX-License-Identifier: MIT
// A weak symbol in an object built for one level could be taken by the linker for the whole
// program, which then fails on other machines. The objects of isa/ must not define any.
#include "tests/support/support.h"

#include <filesystem>
#include <sstream>

#include <gtest/gtest.h>

namespace nib::cpu::test {
namespace {

std::vector<std::string> level_objects() {
    std::vector<std::string> found;
    std::error_code error;
    std::filesystem::recursive_directory_iterator at(NIB_BUILD_DIR, error), end;
    for (; !error && at != end; at.increment(error)) {
        const std::filesystem::path& p = at->path();
        if (p.extension() == ".o" && p.parent_path().filename() == "isa")
            found.push_back(p.string());
    }
    return found;
}

TEST(Objects, LevelsDefineNoSharedSymbols) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "skipped: a sanitizer adds symbols of its own";
#endif
    const std::string nm = "/usr/bin/nm";
    if (!nib::test::file_exists(nm)) GTEST_SKIP() << "skipped: no nm";
    const std::vector<std::string> objects = level_objects();
    ASSERT_GE(objects.size(), 3u) << "no objects of isa/ below " << NIB_BUILD_DIR;
    for (const std::string& object : objects) {
        const nib::test::ProcessResult r = nib::test::run_process({nm, object});
        ASSERT_EQ(r.exit_code, 0) << r.err;
        std::istringstream lines(r.out);
        bool table = false;
        for (std::string line; std::getline(lines, line);) {
            table = table || line.find("kernels_") != std::string::npos;
            // The pointer to the C++ runtime's unwinder that builds without optimization need.
            if (line.find("DW.ref.__gxx_personality") != std::string::npos) continue;
            std::istringstream words(line);
            std::string address, kind;
            words >> address >> kind;
            EXPECT_TRUE(kind != "W" && kind != "V" && kind != "u") << object << ": " << line;
        }
        EXPECT_TRUE(table) << object;
    }
}

}  // namespace
}  // namespace nib::cpu::test
