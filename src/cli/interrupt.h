// SPDX-License-Identifier: MIT
// Ctrl-C. While an Interruptible lives, the first SIGINT ends the engine's running generate() and
// the second ends the program with 130. Otherwise SIGINT does what the system does.
#pragma once

namespace nib {

class Engine;

inline constexpr int kInterruptedExit = 130;

class Interruptible {
  public:
    explicit Interruptible(Engine* engine);  // null: only the second signal counts
    ~Interruptible();
    Interruptible(const Interruptible&) = delete;
    Interruptible& operator=(const Interruptible&) = delete;
    // Whether a signal has come since the object was made.
    bool interrupted() const;
};

}  // namespace nib
