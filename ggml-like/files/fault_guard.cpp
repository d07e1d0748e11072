// SPDX-License-Identifier: MIT
#include "ggml-like/files/fault_guard.h"

#include <cerrno>
#include <csignal>
#include <mutex>
#include <new>

#include <sys/mman.h>
#include <unistd.h>

namespace nib {
namespace {

std::atomic<FaultRange*> first_range{nullptr};
std::mutex ranges_mutex;  // for guard_range and release_range; the handler takes no lock
struct sigaction previous_action;
uintptr_t page_bytes;

// Zero pages from the fault to the end of the range: after a cut everything behind it is gone as
// well, and one mapping per range cannot run into the system's limit of mappings.
bool cover(uintptr_t address) {
    for (FaultRange* r = first_range.load(std::memory_order_acquire); r; r = r->next) {
        const uintptr_t begin = r->begin.load(), end = r->end.load();
        if (address < begin || address >= end) continue;
        const uintptr_t page = address & ~(page_bytes - 1);
        void* zeros = mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (zeros == MAP_FAILED) return false;
        r->hit.store(true);
        return true;
    }
    return false;
}

void pass_on(int signal, siginfo_t* info, void* context) {
    if (previous_action.sa_flags & SA_SIGINFO) {
        previous_action.sa_sigaction(signal, info, context);
    } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
        previous_action.sa_handler(signal);
    } else if (previous_action.sa_handler == SIG_DFL || info->si_code > 0) {
        // The default action: a fault comes again as soon as we return, a sent signal is sent
        // again. A fault cannot be ignored, only a sent signal can.
        ::signal(signal, SIG_DFL);
        if (info->si_code <= 0) raise(signal);
    }
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
    const int saved = errno;
    const bool fault = info->si_code > 0;
    if (!fault || !cover(reinterpret_cast<uintptr_t>(info->si_addr)))
        pass_on(signal, info, context);
    errno = saved;
}

void install_once() {
    static std::once_flag once;
    std::call_once(once, [] {
        page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
        struct sigaction action {};
        action.sa_sigaction = on_bus_error;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        sigaction(SIGBUS, &action, &previous_action);
    });
}

}  // namespace

FaultRange* guard_range(uintptr_t begin, uintptr_t end) {
    install_once();
    const std::lock_guard lock(ranges_mutex);
    FaultRange* range = first_range.load();
    while (range && range->used.load())
        range = range->next;
    if (!range) {
        range = new (std::nothrow) FaultRange;
        if (!range) return nullptr;
        range->next = first_range.load();
        first_range.store(range, std::memory_order_release);
    }
    range->used.store(true);
    range->hit.store(false);
    range->end.store(end);
    range->begin.store(begin);
    return range;
}

void release_range(FaultRange* range) {
    const std::lock_guard lock(ranges_mutex);
    range->begin.store(UINTPTR_MAX);
    range->end.store(0);
    range->used.store(false);
}

}  // namespace nib
