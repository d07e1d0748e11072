// SPDX-License-Identifier: MIT
// Random use against a simple model: every sequence must see exactly its own tokens, whatever is
// shared, copied, cut and evicted; the books must add up after every operation; and where nothing
// is ever evicted, what is taken over must be the longest prefix that was ever computed.
#include "tests/kv/fake_kv.h"

#include <algorithm>
#include <random>

namespace nib::test {
namespace {

struct Use {
    const char* name;
    std::vector<int32_t> windows;
    KvOptions options;
    bool exact;  // nothing is evicted, so that the model knows what is there
    int steps = 1500;
};

class RandomUse {
  public:
    explicit RandomUse(const Use& use, uint32_t seed)
        : use_(use), driver_(use.windows, use.options), rng_(seed) {
        const auto stats = driver_.kv->stats();
        total_ = stats.blocks_free;
        EXPECT_EQ(stats.blocks_used + stats.blocks_cached, 0);
    }

    void run() {
        for (int i = 0; i < use_.steps && !testing::Test::HasFailure(); i++) {
            SCOPED_TRACE(std::string(use_.name) + ", step " + std::to_string(i));
            step();
            check();
        }
        while (!open_.empty())
            close(0, true);
        driver_.kv->clear_cached();
        const auto stats = driver_.kv->stats();
        EXPECT_EQ(stats.blocks_free, total_) << use_.name;
        EXPECT_EQ(driver_.kv->check(), "");
    }
    uint64_t evicted() const { return driver_.kv->stats().evicted; }
    uint64_t hit_tokens() const { return driver_.kv->stats().hit_tokens; }

  private:
    struct Known {
        uint64_t salt;
        Tokens tokens;
    };

    uint32_t below(uint32_t n) { return rng_() % n; }
    Tokens& tokens_of(int32_t s) { return driver_.written[static_cast<size_t>(s)]; }

    // Something old up to some place, then something new.
    Tokens prompt() {
        Tokens tokens;
        if (!known_.empty() && below(5)) {
            const Tokens& old = known_[below(static_cast<uint32_t>(known_.size()))].tokens;
            auto cut = static_cast<int64_t>(below(static_cast<uint32_t>(old.size()) + 1));
            if (below(3) == 0) cut = static_cast<int64_t>(old.size());
            tokens = first(old, cut);
        }
        // Few different tokens, so that beginnings agree by chance as well.
        for (uint32_t n = 1 + below(90); n > 0; n--)
            tokens.push_back(static_cast<int32_t>(below(3)));
        tokens.resize(std::min(tokens.size(), static_cast<size_t>(use_.options.context)));
        return tokens;
    }

    int64_t longest(const Tokens& tokens, uint64_t salt) const {
        int64_t best = 0;
        const auto consider = [&](const Tokens& other) {
            const size_t n = std::min(tokens.size(), other.size());
            const auto end = tokens.begin() + static_cast<int64_t>(n);
            best = std::max<int64_t>(
                best, std::mismatch(tokens.begin(), end, other.begin()).first - tokens.begin());
        };
        for (const Known& k : known_) {
            if (k.salt == salt) consider(k.tokens);
        }
        for (const auto& [s, open_salt] : open_) {
            if (open_salt == salt) consider(driver_.written[static_cast<size_t>(s)]);
        }
        return best;
    }

    void step() {
        const uint32_t what = below(16);
        if (open_.empty() || what < 3) return open();
        const auto i = below(static_cast<uint32_t>(open_.size()));
        const int32_t s = open_[i].first;
        if (what == 3) return close(i, use_.exact || below(4) > 0);
        if (what == 4) return cut(i);
        if (what == 5 && below(20) == 0 && !use_.exact) return driver_.kv->clear_cached();
        Tokens more;
        for (uint32_t n = 1 + below(what < 10 ? 64 : 3); n > 0; n--)
            more.push_back(static_cast<int32_t>(below(3)));
        extend(i, s, more);
    }

    void open() {
        const uint64_t salt = below(4) == 0;
        const int32_t s = driver_.kv->open_sequence(salt);
        if (s < 0) {
            ASSERT_EQ(open_.size(), driver_.written.size());
            return close(0, true);
        }
        const Tokens tokens = prompt();
        const int64_t limit = static_cast<int64_t>(tokens.size()) - 1;
        const int64_t expected = driver_.kv->match(tokens, limit, salt);
        const int64_t most = std::min(limit, longest(tokens, salt));
        if (use_.exact)
            ASSERT_EQ(expected, most);
        else
            ASSERT_LE(expected, most);
        tokens_of(s).clear();
        open_.emplace_back(s, salt);
        const int64_t n = driver_.attach(s, tokens);
        // Without a block for the copy it is less.
        ASSERT_TRUE(n == expected || (!use_.exact && n < expected && n % 64 == 0));
        if (below(4)) extend(open_.size() - 1, s, {tokens.begin() + n, tokens.end()});
    }

    void extend(size_t i, int32_t s, const Tokens& more) {
        for (size_t from = 0; from < more.size(); from += 64) {
            const Tokens part(
                more.begin() + static_cast<int64_t>(from),
                more.begin() + static_cast<int64_t>(std::min(more.size(), from + 64)));
            const auto before = driver_.kv->stats();
            const auto reserved = driver_.kv->reserve(s, static_cast<int32_t>(part.size()));
            if (!reserved.ok()) {
                const auto after = driver_.kv->stats();
                ASSERT_EQ(before.blocks_used, after.blocks_used);
                ASSERT_EQ(before.blocks_cached, after.blocks_cached);
                ASSERT_EQ(before.evicted, after.evicted);
                if (reserved.error().status == Status::OutOfMemory) {
                    ASSERT_FALSE(use_.exact);
                    ASSERT_GT(open_.size(), 1u) << "one sequence always fits";
                }
                return close(i, true);
            }
            ASSERT_TRUE(driver_.extend(s, part));
        }
    }

    void cut(size_t i) {
        const auto [s, salt] = open_[i];
        const Tokens old = tokens_of(s);
        const auto n = static_cast<int64_t>(below(static_cast<uint32_t>(old.size()) + 1));
        know(salt, first(old, static_cast<int64_t>(old.size()) / 64 * 64));
        const int64_t kept = driver_.keep(s, n);
        ASSERT_TRUE(kept == n || (!use_.exact && kept < n && kept % 64 == 0));
    }

    void close(size_t i, bool keep) {
        const auto [s, salt] = open_[i];
        if (tokens_of(s).size() > 0) know(salt, tokens_of(s));
        driver_.kv->close_sequence(s, keep);
        tokens_of(s).clear();
        open_.erase(open_.begin() + static_cast<int64_t>(i));
    }

    void know(uint64_t salt, Tokens tokens) { known_.push_back({salt, std::move(tokens)}); }

    void check() {
        for (const auto& [s, salt] : open_)
            ASSERT_EQ(driver_.wrong(s), "") << "sequence " << s;
        ASSERT_EQ(driver_.kv->check(), "");
        const auto stats = driver_.kv->stats();
        ASSERT_EQ(stats.blocks_used + stats.blocks_cached + stats.blocks_free, total_);
        ASSERT_EQ(stats.bytes_used + stats.bytes_cached,
                  uint64_t(stats.blocks_used + stats.blocks_cached) * 1000);
    }

    const Use& use_;
    Driver driver_;
    std::mt19937 rng_;
    int32_t total_ = 0;
    std::vector<std::pair<int32_t, uint64_t>> open_;  // sequence, salt
    std::vector<Known> known_;
};

TEST(RandomUse, WithRoomForEverythingTheLongestPrefixIsFound) {
    const Use use = {"full, roomy",
                     {0},
                     {.context = 600, .max_rows = 64, .max_sequences = 5, .bytes = 9000000},
                     true};
    for (uint32_t seed = 1; seed <= 4; seed++) {
        RandomUse random(use, seed);
        random.run();
        EXPECT_EQ(random.evicted(), 0u);
        EXPECT_GT(random.hit_tokens(), 5000u);
    }
}

TEST(RandomUse, WindowsWithRoomForEverything) {
    const Use use = {"windows, roomy",
                     {100, 0, 300},
                     {.context = 600, .max_rows = 64, .max_sequences = 5, .bytes = 90000000},
                     true,
                     1000};
    RandomUse random(use, 3);
    random.run();
    EXPECT_EQ(random.evicted(), 0u);
}

TEST(RandomUse, UnderPressureNothingIsLost) {
    const KvOptions tight = {.context = 600, .max_rows = 64, .max_sequences = 5, .bytes = 1};
    KvOptions slru = tight, middle = tight, default_size = tight;
    slru.policy = CachePolicy::Slru;
    middle.bytes = 120000;
    default_size.bytes = 0;
    const Use uses[] = {
        {"full", {0}, tight, false},
        {"full, slru", {0}, slru, false},
        {"full and window", {0, 100}, tight, false},
        {"windows, middle", {100, 0, 300}, middle, false},
        {"windows, slru", {64, 0, 65}, slru, false},
        {"window only", {100}, tight, false},
        {"windows only, middle", {130, 7}, middle, false},
        {"a window of one", {1, 0}, default_size, false},
        {"two full groups", {0, 0, 100}, middle, false},
    };
    for (const Use& use : uses) {
        RandomUse random(use, 17);
        random.run();
        EXPECT_GT(random.evicted(), 0u) << use.name;
        EXPECT_GT(random.hit_tokens(), 0u) << use.name;
    }
}

}  // namespace
}  // namespace nib::test
