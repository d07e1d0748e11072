// SPDX-License-Identifier: MIT
// KV memory that remembers for each slot which tokens led to it, so that a block that was shared,
// copied or written wrongly is seen: a slot holds the hash of all tokens up to its own. Driver
// uses a KvCache as the engine does, writing before each commit, and looks at what its sequences
// can see.
#pragma once
#include "src/kv/kv_cache.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace nib::test {

inline constexpr uint64_t kUndefined = 0;

class FakeKv : public KvMemory {
  public:
    explicit FakeKv(int32_t n_blocks)
        : n_blocks_(n_blocks), slots_(static_cast<size_t>(n_blocks) * kBlockTokens) {}
    size_t block_bytes() const override { return 1000; }
    int32_t n_blocks() const override { return n_blocks_; }
    void copy(int32_t from, int32_t to, int32_t n_tokens) override {
        for (int32_t i = 0; i < kBlockTokens; i++)
            slot(to, i) = i < n_tokens ? slot(from, i) : kUndefined;
    }
    void read(int32_t block, int32_t n_tokens, uint8_t* to) const override {
        std::memset(to, 0, block_bytes());
        std::memcpy(to, &slots_.at(static_cast<size_t>(block) * kBlockTokens),
                    static_cast<size_t>(n_tokens) * sizeof(uint64_t));
    }
    void write(int32_t block, int32_t n_tokens, const uint8_t* from) override {
        for (int32_t i = 0; i < kBlockTokens; i++)
            slot(block, i) = kUndefined;
        std::memcpy(&slot(block, 0), from, static_cast<size_t>(n_tokens) * sizeof(uint64_t));
    }
    uint64_t& slot(int32_t block, int64_t i) {
        return slots_.at(static_cast<size_t>(block * int64_t{kBlockTokens} + i));
    }

  private:
    int32_t n_blocks_;
    std::vector<uint64_t> slots_;
};

class FakeBackend : public Backend {
  public:
    std::string description() const override { return "fake"; }
    uint64_t memory_available() const override { return 0; }
    bool supports(const Graph&, const Node&) const override { return false; }
    size_t workspace(const Plan&) const override { return 0; }
    Result<std::unique_ptr<WeightStore>> load(std::span<const Weight>,
                                              const LoadProgress&) override {
        return Error{Status::Unsupported, "fake"};
    }
    Result<std::unique_ptr<KvMemory>> make_kv(const KvGroupSpec&, int32_t n_blocks) override {
        if (n_blocks > most_blocks) return Error{Status::OutOfMemory, "fake"};
        return std::unique_ptr<KvMemory>(std::make_unique<FakeKv>(n_blocks));
    }
    Result<std::unique_ptr<Executor>> prepare(std::shared_ptr<const Plan>,
                                              const WeightStore&,
                                              std::span<const KvGroupSpec>) override {
        return Error{Status::Unsupported, "fake"};
    }

    int32_t most_blocks = 1000000;
};

using Tokens = std::vector<int32_t>;

// n tokens that depend on the seed and on their place.
inline Tokens text(int64_t n, uint32_t seed = 1) {
    Tokens tokens;
    for (int64_t i = 0; i < n; i++)
        tokens.push_back(static_cast<int32_t>((uint64_t(i) * 2654435761u + seed * 40503u) % 50000));
    return tokens;
}

inline Tokens operator+(Tokens a, const Tokens& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

inline Tokens first(const Tokens& tokens, int64_t n) {
    return {tokens.begin(), tokens.begin() + n};
}

class Driver {
  public:
    // One group for each window, 0: a full one.
    Driver(const std::vector<int32_t>& windows, const KvOptions& options) : windows_(windows) {
        std::vector<KvGroupSpec> groups;
        for (int32_t w : windows)
            groups.push_back({.window = w, .layers = {}});
        auto made = KvCache::create(backend_, groups, options);
        EXPECT_TRUE(made.ok());
        kv = std::move(*made);
        written.resize(static_cast<size_t>(options.max_sequences));
    }

    // Computes tokens at the end of a sequence, in chunks; false if there is no room.
    bool extend(int32_t s, const Tokens& tokens, size_t chunk = 64) {
        for (size_t i = 0; i < tokens.size(); i += chunk) {
            const auto part = std::span(tokens).subspan(i, std::min(chunk, tokens.size() - i));
            if (!kv->reserve(s, static_cast<int32_t>(part.size())).ok()) return false;
            Tokens& known = written[static_cast<size_t>(s)];
            known.insert(known.end(), part.begin(), part.end());
            write(s, static_cast<int64_t>(known.size() - part.size()));
            kv->commit(s, part);
        }
        return true;
    }
    // Opens a sequence, takes over what there is of its prompt, and computes the rest.
    int32_t start(const Tokens& prompt, uint64_t salt = 0) {
        const int32_t s = kv->open_sequence(salt);
        EXPECT_GE(s, 0);
        attached = attach(s, prompt);
        EXPECT_TRUE(extend(s, {prompt.begin() + attached, prompt.end()}));
        return s;
    }
    int64_t attach(int32_t s, const Tokens& prompt) {
        const int64_t n = kv->attach(s, prompt, static_cast<int64_t>(prompt.size()) - 1);
        written[static_cast<size_t>(s)] = first(prompt, n);
        return n;
    }
    int64_t keep(int32_t s, int64_t n) {
        const int64_t kept = kv->keep_prefix(s, n);
        EXPECT_EQ(kept, kv->length(s));
        written[static_cast<size_t>(s)].resize(static_cast<size_t>(kept));
        return kept;
    }
    // A sequence that is computed, closed and kept.
    void remember(const Tokens& tokens, uint64_t salt = 0) {
        kv->close_sequence(start(tokens, salt));
    }
    int64_t match(const Tokens& tokens, uint64_t salt = 0) const {
        return kv->match(tokens, static_cast<int64_t>(tokens.size()), salt);
    }
    // What is wrong with what the next token of the sequence sees, or with the books.
    std::string wrong(int32_t s) {
        if (std::string found = kv->check(); !found.empty()) return found;
        const Tokens& known = written[static_cast<size_t>(s)];
        if (kv->length(s) != static_cast<int64_t>(known.size())) return "has another length";
        StepInputs step;
        kv->fill(step);
        std::vector<uint64_t> hashes = prefix_hashes(known);
        for (size_t g = 0; g < windows_.size(); g++) {
            auto& memory = static_cast<FakeKv&>(*step.kv[g]);
            const auto length = static_cast<int64_t>(known.size());
            const int64_t seen = first_block_seen(windows_[g], length) * kBlockTokens;
            for (int64_t i = seen; i < length; i++) {
                const int32_t block = step.tables[g][static_cast<size_t>(s)][i / kBlockTokens];
                if (block < 0 ||
                    memory.slot(block, i % kBlockTokens) != hashes[static_cast<size_t>(i)])
                    return "group " + std::to_string(g) + " is wrong at " + std::to_string(i);
            }
        }
        return {};
    }

    std::unique_ptr<KvCache> kv;
    std::vector<Tokens> written;  // [sequence]
    int64_t attached = 0;         // by the last start()

  private:
    static std::vector<uint64_t> prefix_hashes(const Tokens& tokens) {
        std::vector<uint64_t> hashes;
        uint64_t h = 1;
        for (int32_t t : tokens) {
            h = (h ^ static_cast<uint64_t>(t)) * 0x9E3779B97F4A7C15u + 1;
            h ^= h >> 29;
            hashes.push_back(h);
        }
        return hashes;
    }
    void write(int32_t s, int64_t from) {
        StepInputs step;
        kv->fill(step);
        const std::vector<uint64_t> hashes = prefix_hashes(written[static_cast<size_t>(s)]);
        for (size_t g = 0; g < windows_.size(); g++) {
            for (auto i = from; i < static_cast<int64_t>(hashes.size()); i++) {
                const int32_t block = step.tables[g][static_cast<size_t>(s)][i / kBlockTokens];
                static_cast<FakeKv&>(*step.kv[g]).slot(block, i % kBlockTokens) =
                    hashes[static_cast<size_t>(i)];
            }
        }
    }

    FakeBackend backend_;
    std::vector<int32_t> windows_;
};

}  // namespace nib::test
