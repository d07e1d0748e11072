// SPDX-License-Identifier: MIT
// References move here: each use of a block by a sequence is one count in its pool, the index's use
// is one more. A block is taken over in two steps: its holder is told to the index, then counted.
#include "src/kv/kv_cache.h"

#include "src/kv/kv_sizes.h"

#include <algorithm>

namespace nib {
namespace {

std::vector<int32_t> windows_of(std::span<const KvGroupSpec> groups) {
    std::vector<int32_t> windows;
    for (const KvGroupSpec& g : groups)
        windows.push_back(g.window);
    return windows;
}

}  // namespace

Result<std::unique_ptr<KvCache>> KvCache::create(Backend& backend,
                                                 std::vector<KvGroupSpec> groups,
                                                 const KvOptions& options) {
    std::vector<uint64_t> block_bytes;
    for (const KvGroupSpec& g : groups) {
        NIB_ASSIGN(const auto one, backend.make_kv(g, 1));
        block_bytes.push_back(std::max<uint64_t>(one->block_bytes(), 1));
    }
    const std::vector<int32_t> blocks = blocks_of_groups(groups, block_bytes, options);
    std::vector<Group> memories;
    for (size_t g = 0; g < groups.size(); g++) {
        NIB_ASSIGN(auto memory, backend.make_kv(groups[g], blocks[g]));
        memories.push_back({.memory = std::move(memory),
                            .pool = BlockPool(blocks[g]),
                            .nodes = std::vector<int32_t>(size_t(blocks[g]), PrefixIndex::kNone)});
    }
    return std::unique_ptr<KvCache>(new KvCache(std::move(groups), std::move(memories), options));
}

KvCache::KvCache(std::vector<KvGroupSpec> groups,
                 std::vector<Group> memories,
                 const KvOptions& options)
    : groups_(std::move(groups)),
      memories_(std::move(memories)),
      sequences_(static_cast<size_t>(options.max_sequences)),
      index_(windows_of(groups_), options.policy),
      options_(options) {
    for (Sequence& s : sequences_) {
        s.tables.resize(groups_.size());
        s.first.resize(groups_.size());
        for (auto& table : s.tables)
            table.reserve(static_cast<size_t>(blocks_for(options.context)));
    }
}

KvCache::~KvCache() = default;

// --- references

int32_t KvCache::take(size_t group) {
    if (memories_[group].pool.n_free() == 0 && index_.evict(group, given_up_)) {
        counts_.evicted += given_up_.size();
        drop_given_up();
    }
    return memories_[group].pool.take();
}

void KvCache::share(size_t group, int32_t block) {
    memories_[group].pool.share(block);
    const int32_t node = memories_[group].nodes[static_cast<size_t>(block)];
    if (node != PrefixIndex::kNone) index_.hold(node, group);
}

void KvCache::give(size_t group, int32_t block) {
    const int32_t node = memories_[group].nodes[static_cast<size_t>(block)];
    if (node != PrefixIndex::kNone) index_.release(node, group);
    memories_[group].pool.give(block);
}

void KvCache::drop_given_up() {
    for (const auto [group, block] : given_up_) {
        memories_[group].nodes[static_cast<size_t>(block)] = PrefixIndex::kNone;
        memories_[group].pool.give(block);
    }
    given_up_.clear();
}

// Leaves the sequence its first blocks only.
void KvCache::cut(Sequence& s, int64_t n_blocks) {
    for (size_t g = 0; g < groups_.size(); g++) {
        std::vector<int32_t>& table = s.tables[g];
        while (static_cast<int64_t>(table.size()) > n_blocks) {
            if (table.back() >= 0) give(g, table.back());
            table.pop_back();
        }
    }
}

// The sequence holds the blocks of `node` and above that a token at position n sees. Its tables
// are long enough; what it holds already stays.
void KvCache::take_over(Sequence& s, int32_t node, int64_t n) {
    for (size_t g = 0; g < groups_.size(); g++)
        s.first[g] = first_block_seen(groups_[g].window, n);
    for (; index_.depth(node) >= 0; node = index_.parent(node)) {
        const int64_t depth = index_.depth(node);
        for (size_t g = 0; g < groups_.size(); g++) {
            int32_t& block = s.tables[g][static_cast<size_t>(depth)];
            if (block >= 0 || depth < s.first[g]) continue;
            block = index_.block(node, g);
            share(g, block);
        }
    }
}

// The last block of the tables becomes the sequence's own copy of its first tokens. If there is no
// block for it in some group, nothing is changed.
bool KvCache::own_last_block(Sequence& s, int32_t n_tokens) {
    std::vector<int32_t> fresh;
    for (size_t g = 0; g < groups_.size(); g++) {
        fresh.push_back(take(g));
        if (fresh.back() >= 0) continue;
        for (size_t taken = 0; taken < g; taken++)
            memories_[taken].pool.give(fresh[taken]);
        return false;
    }
    for (size_t g = 0; g < groups_.size(); g++) {
        int32_t& block = s.tables[g].back();
        memories_[g].memory->copy(block, fresh[g], n_tokens);
        give(g, block);
        block = fresh[g];
    }
    counts_.copies++;
    return true;
}

// --- sequences

int32_t KvCache::open_sequence(uint64_t salt, int32_t wanted) {
    const auto is_free = [](const Sequence& s) { return !s.open; };
    auto place = std::find_if(sequences_.begin(), sequences_.end(), is_free);
    if (place == sequences_.end()) return -1;
    if (wanted >= 0 && static_cast<size_t>(wanted) < sequences_.size() && is_free(sequence(wanted)))
        place = sequences_.begin() + wanted;
    place->open = true;
    place->node = index_.enter(salt);
    place->prompt = -1;
    return static_cast<int32_t>(place - sequences_.begin());
}

void KvCache::close_sequence(int32_t sequence, bool keep) {
    close(this->sequence(sequence), keep);
    verify();
}

void KvCache::close(Sequence& s, bool keep) {
    NIB_ASSERT(s.open);
    index_.tick();
    if (keep) {
        publish_tail(s);
        for (int32_t n = s.node; index_.depth(n) >= 0; n = index_.parent(n))
            index_.touch(n, false);
    }
    cut(s, 0);
    if (keep) {
        index_.leave(s.node);
    } else {
        index_.forget(s.node, given_up_);
        drop_given_up();
    }
    s.open = false;
    s.length = 0;
    s.node = PrefixIndex::kNone;
    std::fill(s.first.begin(), s.first.end(), 0);
}

int64_t KvCache::length(int32_t sequence) const {
    return this->sequence(sequence).length;
}

// [sequence]: a closed one is behind no node.
std::vector<PrefixIndex::Tail> KvCache::tails() const {
    std::vector<PrefixIndex::Tail> tails;
    for (const Sequence& s : sequences_)
        tails.push_back({.node = s.node, .tokens = s.tail_tokens()});
    return tails;
}

std::span<const int32_t> KvCache::matchable(std::span<const int32_t> tokens, int64_t limit) const {
    const auto n = std::min({limit, static_cast<int64_t>(tokens.size()), options_.context});
    return tokens.first(static_cast<size_t>(std::max<int64_t>(n, 0)));
}

int64_t KvCache::match(std::span<const int32_t> tokens, int64_t limit, uint64_t salt) const {
    return index_.find(index_.find_root(salt), matchable(tokens, limit), tails(), true).n;
}

int64_t KvCache::attach(int32_t sequence, std::span<const int32_t> tokens, int64_t limit) {
    Sequence& s = this->sequence(sequence);
    NIB_ASSERT(s.open && s.length == 0);
    cut(s, 0);
    tokens = matchable(tokens, limit);
    s.prompt = static_cast<int64_t>(tokens.size());
    index_.tick();
    const auto found = tails();
    if (!attach_match(s, index_.find(s.node, tokens, found, true), tokens))
        attach_match(s, index_.find(s.node, tokens, found, false), tokens);
    if (s.length > 0) counts_.hits++;
    counts_.hit_tokens += static_cast<uint64_t>(s.length);
    verify();
    return s.length;
}

// False, with nothing changed, if there is no block for the copy.
bool KvCache::attach_match(Sequence& s,
                           const PrefixIndex::Match& match,
                           std::span<const int32_t> tokens) {
    const int32_t root = s.node;
    const int32_t last = match.source != PrefixIndex::kNone ? match.source : match.node;
    for (auto& table : s.tables)
        table.resize(static_cast<size_t>(blocks_for(match.n)), -1);
    index_.move_user(root, s.node = match.node);
    take_over(s, last, match.n);
    for (size_t g = 0; match.tail >= 0 && g < groups_.size(); g++)
        share(g, s.tables[g].back() = sequence(match.tail).tail_block(g));
    if (match.n_copied > 0 && !own_last_block(s, match.n_copied)) {
        cut(s, 0);
        index_.move_user(match.node, s.node = root);
        return false;
    }
    const auto copied = tokens.subspan(static_cast<size_t>(match.n - match.n_copied));
    std::copy_n(copied.begin(), match.n_copied, s.tail.begin());
    s.length = match.n;
    for (int32_t n = last; index_.depth(n) >= 0; n = index_.parent(n))
        index_.touch(n, true);
    if (index_.depth(last) >= 0) index_.mark_end(last);
    return true;
}

Result<void> KvCache::reserve(int32_t sequence, int32_t n) {
    Sequence& s = this->sequence(sequence);
    if (s.length + n > options_.context) {
        return Error{Status::TooLong, "the context holds " + std::to_string(options_.context) +
                                          " tokens, " + std::to_string(s.length + n) +
                                          " are needed"};
    }
    const int64_t end = blocks_for(s.length + n);
    for (size_t g = 0; g < groups_.size(); g++) {
        const auto missing = end - static_cast<int64_t>(s.tables[g].size());
        if (missing > blocks_available(g)) {
            return Error{Status::OutOfMemory,
                         "KV cache: " + std::to_string(missing) + " blocks are needed, " +
                             std::to_string(blocks_available(g)) + " are free or cached"};
        }
    }
    for (size_t g = 0; g < groups_.size(); g++) {
        while (static_cast<int64_t>(s.tables[g].size()) < end) {
            const int32_t block = take(g);
            NIB_ASSERT(block >= 0);
            s.tables[g].push_back(block);
        }
    }
    return {};
}

void KvCache::commit(int32_t sequence, std::span<const int32_t> tokens) {
    Sequence& s = this->sequence(sequence);
    for (const int32_t token : tokens) {
        s.tail[static_cast<size_t>(s.length % kBlockTokens)] = token;
        s.length++;
        if (s.length % kBlockTokens == 0) publish(s);
    }
    for (size_t g = 0; g < groups_.size(); g++) {
        NIB_ASSERT(blocks_for(s.length) <= static_cast<int64_t>(s.tables[g].size()));
        const int64_t first = first_block_seen(groups_[g].window, s.length);
        for (; s.first[g] < first; s.first[g]++) {
            int32_t& block = s.tables[g][static_cast<size_t>(s.first[g])];
            give(g, block);
            block = -1;
        }
    }
    verify();
}

// The last block has become full: the index gets it. If another sequence has computed the same, the
// sequence goes on with that one, which has the same bits, and gives its own back; only where a
// window group has lost it, its own takes the place.
void KvCache::publish(Sequence& s) {
    index_.tick();
    const auto depth = static_cast<size_t>(s.length / kBlockTokens - 1);
    int32_t node = index_.find_child(s.node, s.tail);
    if (node == PrefixIndex::kNone) {
        node = index_.add(s.node, s.tail, given_up_);
        drop_given_up();
    } else {
        index_.touch(node, true);
    }
    for (size_t g = 0; g < groups_.size(); g++) {
        int32_t& block = s.tables[g][depth];
        if (block < 0) continue;  // a restored sequence has no more than its window
        if (const int32_t known = index_.block(node, g); known >= 0) {
            share(g, known);
            give(g, block);
            block = known;
        } else {
            index_.set_block(node, g, block);
            memories_[g].nodes[static_cast<size_t>(block)] = node;
            share(g, block);  // one use is the index's from now on
        }
    }
    index_.move_user(s.node, node);
    s.node = node;
    if (s.prompt >= 0 && s.prompt / kBlockTokens == index_.depth(node)) index_.mark_end(node);
}

// The sequence ends: the index takes its last block over, full or not.
void KvCache::publish_tail(Sequence& s) {
    const auto tokens = s.tail_tokens();
    if (tokens.empty()) {
        if (s.length > 0) index_.mark_end(s.node);
        return;
    }
    int32_t node = index_.find_covering(s.node, tokens);
    if (node == PrefixIndex::kNone) {
        node = index_.add(s.node, tokens, given_up_);
        drop_given_up();
        for (size_t g = 0; g < groups_.size(); g++) {
            int32_t& block = s.tables[g][static_cast<size_t>(index_.depth(node))];
            index_.set_block(node, g, block);
            memories_[g].nodes[static_cast<size_t>(block)] = node;
            block = -1;
        }
    }
    index_.touch(node, false);
    index_.mark_end(node);
}

int64_t KvCache::keep_prefix(int32_t sequence, int64_t n) {
    Sequence& s = this->sequence(sequence);
    index_.tick();
    n = std::clamp<int64_t>(n, 0, s.length);
    for (;; n -= n % kBlockTokens) {
        n = index_.usable(s.node, n);
        const bool shared = shorten(s, n);
        if (!shared || own_last_block(s, static_cast<int32_t>(n % kBlockTokens))) break;
    }
    verify();
    return n;
}

// True if the last block is one of the index's and not full: it may not be written.
bool KvCache::shorten(Sequence& s, int64_t n) {
    int32_t last = s.node;
    while (index_.depth(last) >= blocks_for(n))
        last = index_.parent(last);
    take_over(s, last, n);
    cut(s, blocks_for(n));
    const bool shared = n % kBlockTokens != 0 && index_.depth(last) == n / kBlockTokens;
    if (shared) {
        std::copy_n(index_.tokens(last).begin(), n % kBlockTokens, s.tail.begin());
        last = index_.parent(last);
    }
    index_.move_user(s.node, last);
    s.node = last;
    s.length = n;
    return shared;
}

void KvCache::clear_cached() {
    for (size_t g = 0; g < groups_.size(); g++) {
        while (index_.evict(g, given_up_))
            drop_given_up();
    }
    verify();
}

// --- numbers

int64_t KvCache::blocks_needed(size_t group, int64_t have, int64_t n) const {
    const KvGroupSpec& g = groups_[group];
    const int64_t first = first_block_seen(g.window, have);
    const int64_t most = blocks_for(have + n) - first;
    return std::max<int64_t>(0,
                             std::min(most, most_blocks(g, options_)) - (blocks_for(have) - first));
}

int64_t KvCache::blocks_available(size_t group) const {
    return memories_[group].pool.n_free() + index_.n_idle(group);
}

void KvCache::fill(StepInputs& step) const {
    step.kv.resize(groups_.size());
    step.tables.resize(groups_.size());
    for (size_t g = 0; g < groups_.size(); g++) {
        step.kv[g] = memories_[g].memory.get();
        step.tables[g].resize(sequences_.size());
        for (size_t s = 0; s < sequences_.size(); s++)
            step.tables[g][s] = sequences_[s].tables[g].data();
    }
}

KvCache::Stats KvCache::stats() const {
    Stats stats = counts_;
    for (size_t g = 0; g < groups_.size(); g++) {
        const BlockPool& pool = memories_[g].pool;
        const int32_t cached = index_.n_idle(g), used = pool.n_used() - cached;
        const uint64_t block_bytes = memories_[g].memory->block_bytes();
        stats.blocks_used += used;
        stats.blocks_cached += cached;
        stats.blocks_free += pool.n_free();
        stats.bytes_used += static_cast<uint64_t>(used) * block_bytes;
        stats.bytes_cached += static_cast<uint64_t>(cached) * block_bytes;
        stats.bytes_total += static_cast<uint64_t>(pool.n_blocks()) * block_bytes;
    }
    return stats;
}

}  // namespace nib
