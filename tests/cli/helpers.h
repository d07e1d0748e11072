// SPDX-License-Identifier: MIT
// Runs the real program with folders of its own, so that a test neither finds nor changes anything
// of the person who runs it.
#pragma once
#include "tests/support/support.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nib::test {

class Cli : public testing::Test {
  protected:
    ProcessResult nib(std::vector<std::string> args,
                      std::string_view input = {},
                      std::vector<std::pair<std::string, std::string>> env = {}) const;
    // The same through a shell, for redirections; `rest` follows the program's name.
    ProcessResult shell(const std::string& before, const std::string& rest) const;
    // A file in the test's folder.
    std::string write(std::string_view name, std::string_view bytes) const;
    // A vocabulary-only file: SentencePiece, ids 0-2 <unk> <s> </s>, 3-258 bytes, then a few
    // pieces.
    std::string vocabulary() const;
    const std::string& folder() const { return folder_.path(); }

  private:
    TempDir folder_;
};

// The model that the tests with a model use; empty if it is not in the cache.
std::string test_model();

}  // namespace nib::test
