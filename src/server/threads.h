// SPDX-License-Identifier: MIT
// Threads that come when there is work and go when there is none: each job gets a parked thread or
// a new one, up to a cap. Jobs never wait for each other.
#pragma once
#include <functional>
#include <memory>

namespace nib {

class ElasticThreads {
  public:
    explicit ElasticThreads(int cap);
    ~ElasticThreads();  // join()
    ElasticThreads(const ElasticThreads&) = delete;
    ElasticThreads& operator=(const ElasticThreads&) = delete;
    // False if the cap is reached or the system gives no thread; the job does not run then.
    bool run(std::function<void()> job);
    // Waits until every job is done and every thread has ended.
    void join();

  private:
    struct Impl;
    static void* main(void* impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace nib
