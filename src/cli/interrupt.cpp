// SPDX-License-Identifier: MIT
// The handler may only touch lock-free atomics and call cancel(), which is made for it.
#include "src/cli/interrupt.h"

#include "src/engine.h"

#include <atomic>
#include <csignal>

#include <unistd.h>

namespace nib {
namespace {

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): a signal handler has no other
// way in.
std::atomic<Engine*> running_engine{nullptr};
std::atomic<int> signals_seen{0};
struct sigaction previous_action = {};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

void on_interrupt(int) {
    if (signals_seen.fetch_add(1) > 0) _exit(kInterruptedExit);
    if (Engine* engine = running_engine.load()) engine->cancel();
}

}  // namespace

Interruptible::Interruptible(Engine* engine) {
    signals_seen = 0;
    running_engine = engine;
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &previous_action);
}

Interruptible::~Interruptible() {
    sigaction(SIGINT, &previous_action, nullptr);
    running_engine = nullptr;
}

bool Interruptible::interrupted() const {
    return signals_seen > 0;
}

}  // namespace nib
