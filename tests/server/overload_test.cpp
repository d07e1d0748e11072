// SPDX-License-Identifier: MIT
// Four times the requests that the server takes at once: each has an answer, the queue is bounded,
// and what was refused leaves no memory behind.
#include "tests/server/fixture.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace nib::test {
namespace {

constexpr int kParallel = 4, kQueue = 4;
constexpr int kClients = 4 * (kParallel + kQueue);
// Of 500 requests: what the allocator of each thread keeps.
constexpr long kGrowthKibMax = 4 << 10;

TinyServer::Setup small_queue() {
    TinyServer::Setup setup;
    setup.engine.parallel = kParallel;
    setup.engine.queue_limit = kQueue;
    return setup;
}

struct Counts {
    std::atomic<int> good{0}, busy{0}, wrong{0};
};

// n requests of kClients clients, each of which asks again as soon as it has its answer.
void storm(const TinyServer& server, int n, Counts& counts) {
    std::atomic<int> next{0};
    std::vector<std::thread> clients;
    for (int c = 0; c < kClients; c++) {
        clients.emplace_back([&] {
            for (int i; (i = next++) < n;) {
                const HttpAnswer answer =
                    server.post("/v1/completions", {{"prompt", "request " + std::to_string(i)},
                                                    {"max_tokens", 12},
                                                    {"ignore_eos", true}});
                const bool busy = answer.status == 429 || answer.status == 503;
                if (answer.status == 200 && answer.whole) {
                    counts.good++;
                } else if (busy && std::atoi(answer.header("retry-after").c_str()) > 0) {
                    counts.busy++;
                } else {
                    counts.wrong++;
                }
            }
        });
    }
    for (auto& client : clients)
        client.join();
}

TEST(Overload, EachOfAThousandRequestsIsServedOrToldWhenToComeBack) {
    TinyServer server(small_queue());
    Counts counts;
    storm(server, 1000, counts);
    ASSERT_TRUE(server.comes_to_rest());
    EXPECT_EQ(counts.wrong, 0);
    EXPECT_GT(counts.good, kParallel);
    EXPECT_GT(counts.busy, 0);
    EXPECT_EQ(counts.good + counts.busy, 1000);
    EXPECT_EQ(server.get("/health").status, 200);
}

TEST(Overload, TheSecondHalfTakesNoMoreMemoryThanTheFirst) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "skipped: a sanitizer keeps memory that was given back";
#endif
    TinyServer server(small_queue());
    Counts counts;
    storm(server, 500, counts);
    ASSERT_TRUE(server.comes_to_rest());
    const long before = resident_kib();
    storm(server, 500, counts);
    ASSERT_TRUE(server.comes_to_rest());
    EXPECT_EQ(counts.wrong, 0);
    EXPECT_LE(resident_kib() - before, kGrowthKibMax);
}

}  // namespace
}  // namespace nib::test
