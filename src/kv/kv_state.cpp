// SPDX-License-Identifier: MIT
// Sequences that leave the cache and come back: what the index has of some tokens is copied out of
// the device, and copied in again as blocks of a sequence that is closed at once. The order of the
// bytes depends on the number of tokens only.
#include "src/kv/kv_cache.h"

#include <algorithm>
#include <exception>

namespace nib {

// visit(group, block of the sequence, its tokens, where its bytes begin), in the order of the
// bytes.
template <class Visit>
void KvCache::visit_state(int64_t n_tokens, Visit visit) const {
    size_t at = 0;
    for (size_t g = 0; g < groups_.size(); g++) {
        for (int64_t b = first_block_seen(groups_[g].window, n_tokens); b < blocks_for(n_tokens);
             b++, at += block_bytes(g)) {
            const int64_t tokens = std::min<int64_t>(n_tokens - b * kBlockTokens, kBlockTokens);
            visit(g, b, static_cast<int32_t>(tokens), at);
        }
    }
}

uint64_t KvCache::state_bytes(int64_t n_tokens) const {
    uint64_t bytes = 0;
    for (size_t g = 0; g < groups_.size(); g++)
        bytes += static_cast<uint64_t>(state_blocks(groups_[g].window, n_tokens)) * block_bytes(g);
    return bytes;
}

Result<KvState> KvCache::save(std::span<const int32_t> tokens, uint64_t salt) const {
    const auto all = static_cast<int64_t>(tokens.size());
    const auto match = index_.find(index_.find_root(salt), matchable(tokens, all), {}, true);
    KvState state;
    try {
        state.tokens.assign(tokens.begin(), tokens.begin() + match.n);
        state.bytes.resize(state_bytes(match.n));
    } catch (const std::exception&) {
        return Error{Status::OutOfMemory, "no memory for a state of " + std::to_string(match.n) +
                                              " tokens, " + std::to_string(state_bytes(match.n)) +
                                              " bytes"};
    }
    if (match.n == 0) return state;
    std::vector<int32_t> nodes(static_cast<size_t>(blocks_for(match.n)));
    int32_t node = match.n_copied > 0 ? match.source : match.node;
    for (size_t b = nodes.size(); b-- > 0; node = index_.parent(node))
        nodes[b] = node;
    visit_state(match.n, [&](size_t g, int64_t b, int32_t n, size_t at) {
        const int32_t block = index_.block(nodes[static_cast<size_t>(b)], g);
        memories_[g].memory->read(block, n, state.bytes.data() + at);
    });
    return state;
}

// The sequence gets blocks for the whole state; false if there are not enough.
bool KvCache::take_blocks(Sequence& s, const KvState& state) {
    const auto n = static_cast<int64_t>(state.tokens.size());
    s.tables.assign(groups_.size(), std::vector<int32_t>(static_cast<size_t>(blocks_for(n)), -1));
    s.first.assign(groups_.size(), 0);
    bool complete = true;
    visit_state(n, [&](size_t g, int64_t b, int32_t tokens, size_t at) {
        int32_t& block = s.tables[g][static_cast<size_t>(b)];
        if (complete) block = take(g);
        complete = complete && block >= 0;
        if (complete) memories_[g].memory->write(block, tokens, state.bytes.data() + at);
    });
    return complete;
}

Result<void> KvCache::restore(const KvState& state, uint64_t salt) {
    const auto n = static_cast<int64_t>(state.tokens.size());
    NIB_ASSERT(state.bytes.size() == state_bytes(n));
    if (n > options_.context) {
        return Error{Status::TooLong, "the state has " + std::to_string(n) +
                                          " tokens, the context holds " +
                                          std::to_string(options_.context)};
    }
    index_.tick();
    Sequence s;  // never runs, so it needs no place among the others
    s.open = true;
    s.node = index_.enter(salt);
    const bool complete = take_blocks(s, state);
    for (int64_t i = 0; complete && i < n; i++) {
        s.tail[static_cast<size_t>(i % kBlockTokens)] = state.tokens[static_cast<size_t>(i)];
        s.length = i + 1;
        if (s.length % kBlockTokens == 0) publish(s);
    }
    close(s, complete);
    verify();
    if (complete) return {};
    return Error{Status::OutOfMemory,
                 "KV cache: no room for a state of " + std::to_string(n) + " tokens now"};
}

int64_t KvCache::erase(std::span<const int32_t> tokens, uint64_t salt) {
    const auto all = static_cast<int64_t>(tokens.size());
    const auto match = index_.find(index_.find_root(salt), matchable(tokens, all), {}, true);
    if (match.n == 0) return 0;
    // The end of the sequence is a node of its own; one that only begins like it is somebody
    // else's.
    const bool own = match.n_copied > 0 && match.n == all &&
                     static_cast<int32_t>(index_.tokens(match.source).size()) == match.n_copied;
    const int64_t n = index_.erase(own ? match.source : match.node, given_up_);
    drop_given_up();
    verify();
    return n;
}

}  // namespace nib
