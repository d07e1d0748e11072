// SPDX-License-Identifier: MIT
#include "src/server/threads.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include <pthread.h>

namespace nib {
namespace {

// Rendering a template recurses up to its depth limit; pages that are not touched cost nothing.
constexpr size_t kStackBytes = 4u << 20;
constexpr auto kParked = std::chrono::seconds(5);

}  // namespace

struct ElasticThreads::Impl {
    const int cap;
    std::mutex mutex;
    std::condition_variable work, ended;
    std::deque<std::function<void()>> jobs;
    int live = 0, parked = 0;
    bool closing = false;

    explicit Impl(int n) : cap(n) {}
    void serve();
};

ElasticThreads::ElasticThreads(int cap) : impl_(std::make_unique<Impl>(cap)) {}

ElasticThreads::~ElasticThreads() {
    join();
}

void ElasticThreads::Impl::serve() {
    std::unique_lock lock(mutex);
    while (true) {
        while (!jobs.empty()) {
            std::function<void()> job = std::move(jobs.front());
            jobs.pop_front();
            lock.unlock();
            job();
            job = nullptr;
            lock.lock();
        }
        if (closing) break;
        parked++;
        const bool woken = work.wait_for(lock, kParked, [&] { return closing || !jobs.empty(); });
        parked--;
        if (!woken) break;
    }
    live--;
    ended.notify_all();
}

void* ElasticThreads::main(void* impl) {
    static_cast<Impl*>(impl)->serve();
    return nullptr;
}

bool ElasticThreads::run(std::function<void()> job) {
    const std::lock_guard lock(impl_->mutex);
    Impl& t = *impl_;
    if (t.closing) return false;
    if (t.parked > static_cast<int>(t.jobs.size())) {
        t.jobs.push_back(std::move(job));
        t.work.notify_one();
        return true;
    }
    if (t.live >= t.cap) return false;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    t.jobs.push_back(std::move(job));
    t.live++;
    pthread_t thread;
    const int failed = pthread_create(&thread, &attributes, main, &t);
    pthread_attr_destroy(&attributes);
    if (failed != 0) {
        t.jobs.pop_back();
        t.live--;
    }
    return failed == 0;
}

void ElasticThreads::join() {
    std::unique_lock lock(impl_->mutex);
    impl_->closing = true;
    impl_->work.notify_all();
    impl_->ended.wait(lock, [&] { return impl_->live == 0; });
}

}  // namespace nib
