// SPDX-License-Identifier: MIT
// attention: first every row's k and v go to their places in the KV blocks, then every (set of
// rows, KV head) is a unit. A set is a few rows that mostly see the same blocks: tokens of a prompt
// that follow each other, or sequences that continue one prefix. What a row sees depends on its
// position alone, so a chunk of a prompt and a single token of a decode step are the same work.
// Where a step has few rows with long contexts, every 512 positions of a set are a unit, and their
// results are merged afterwards: the kernel does the same in one call, so the bits are the same.
#include "backends/cpu/op.h"

#include <algorithm>
#include <span>
#include <utility>

namespace nib::cpu {
namespace {

// The page of a KV head that holds `position` of a row's sequence.
uint8_t* page(const Instruction& i, const Pass& p, int row, int64_t position, int head) {
    const auto group = static_cast<size_t>(i.group);
    const int32_t* table = p.step->tables[group][static_cast<size_t>(p.step->sequences[row])];
    auto* kv = static_cast<CpuKv*>(p.step->kv[group]);
    return kv->block(table[position / kBlockTokens]) + i.page_offset +
           static_cast<size_t>(head) * i.page.bytes;
}

void store(const Instruction& i, const Pass& p, int first, int end, int) {
    const AttentionSpec& a = i.params.attention;
    for (int r = first; r < end; r++) {
        const int64_t position = p.step->positions[r];
        for (int h = 0; h < a.n_kv_heads; h++) {
            p.kernels->kv_store(i.y.row(p, r) + h * a.head_dim, i.z.row(p, r) + h * a.head_dim,
                                i.page, static_cast<int>(position % kBlockTokens),
                                page(i, p, r, position, h));
        }
    }
}

// What the kernel needs for a set and a KV head. Pages of positions first .. end are found.
AttentionRows rows_of(const Instruction& i,
                      const Pass& p,
                      const AttentionWork::Set& set,
                      int head,
                      int64_t first,
                      int64_t end,
                      ThreadScratch& scratch) {
    const AttentionSpec& a = i.params.attention;
    const int group = a.n_heads / a.n_kv_heads;
    const int at = head * group * a.head_dim;
    AttentionRows rows{.row = {},
                       .rows = set.rows,
                       .group = group,
                       .shape = i.page,
                       .window = a.window,
                       .scale = a.scale,
                       .softcap = a.softcap};
    for (int r = 0; r < set.rows; r++) {
        const int row = set.row[r];
        rows.row[r] = {.q = i.x.row(p, row) + at,
                       .out = i.out.row(p, row) + at,
                       .pages = nullptr,
                       .position = p.step->positions[row]};
    }
    const size_t most = scratch.pages.size() / kAttentionRows;
    for (int r = 0; r < set.rows; r++) {
        // Rows of one sequence have one list, made for the last of them, which sees the most.
        const int32_t sequence = p.step->sequences[set.row[r]];
        const int64_t from = std::max(first, rows.begin(r));
        if (r > 0 && p.step->sequences[set.row[r - 1]] == sequence) {
            rows.row[r].pages = rows.row[r - 1].pages;
        } else {
            const uint8_t** pages = scratch.pages.data() + static_cast<size_t>(r) * most;
            rows.row[r].pages = pages;
            int64_t to = rows.end(r);
            for (int o = r + 1; o < set.rows && p.step->sequences[set.row[o]] == sequence; o++)
                to = std::max(to, rows.end(o));
            to = std::min(end, to);
            for (int64_t b = from / kBlockTokens; b * kBlockTokens < to; b++)
                pages[b] = page(i, p, set.row[r], b * kBlockTokens, head);
        }
    }
    return rows;
}

float* part_of(const Instruction& i, AttentionWork& w, int piece, int head, int rows) {
    const AttentionSpec& a = i.params.attention;
    // Parts of a set and a head follow each other.
    const AttentionWork::Set& set = w.sets[static_cast<size_t>(w.pieces[size_t(piece)].set)];
    const size_t size = attention_part_floats(rows, a.n_heads / a.n_kv_heads, a.head_dim);
    const size_t most = attention_part_floats(kAttentionRows, a.n_heads / a.n_kv_heads, a.head_dim);
    const auto first = static_cast<size_t>(set.first_piece) * static_cast<size_t>(a.n_kv_heads);
    const auto skipped = static_cast<size_t>(set.pieces) * static_cast<size_t>(head);
    return w.parts.data() + first * most +
           (skipped + static_cast<size_t>(piece - set.first_piece)) * size;
}

void attend(const Instruction& i, const Pass& p, int first, int end, int thread) {
    AttentionWork& w = p.attention[i.group];
    ThreadScratch& scratch = p.scratch[thread];
    const int heads = i.params.attention.n_kv_heads;
    for (int u = first; u < end; u++) {
        const AttentionWork::Piece& piece = w.pieces[static_cast<size_t>(u / heads)];
        const AttentionWork::Set& set = w.sets[static_cast<size_t>(piece.set)];
        const int head = u % heads;
        if (piece.chunk < 0) {
            const AttentionRows rows = rows_of(i, p, set, head, 0, INT64_MAX, scratch);
            p.kernels->attention(rows, scratch.bytes);
        } else {
            const int64_t start = piece.chunk * kChunkTokens;
            const AttentionRows rows =
                rows_of(i, p, set, head, start, start + kChunkTokens, scratch);
            p.kernels->attention_chunk(rows, piece.chunk, part_of(i, w, u / heads, head, set.rows),
                                       scratch.bytes);
        }
    }
}

int pieces(const Instruction& i, const Pass& p) {
    return static_cast<int>(p.attention[i.group].pieces.size()) * i.params.attention.n_kv_heads;
}

// About 20 us at 30 GMAC/s, as for a matmul.
int pieces_of_a_claim(const Instruction& i, const Pass& p) {
    const AttentionSpec& a = i.params.attention;
    const double macs =
        2.0 * static_cast<double>(p.attention[i.group].seen) * a.n_heads * a.head_dim;
    return static_cast<int>(std::clamp(20 * 30e3 * pieces(i, p) / macs, 1.0, 65535.0));
}

void merge(const Instruction& i, const Pass& p, int first, int end, int thread) {
    AttentionWork& w = p.attention[i.group];
    ThreadScratch& scratch = p.scratch[thread];
    const int heads = i.params.attention.n_kv_heads;
    for (int u = first; u < end; u++) {
        const AttentionWork::Set& set = w.sets[static_cast<size_t>(u / heads)];
        const AttentionRows rows = rows_of(i, p, set, u % heads, 0, 0, scratch);
        p.kernels->attention_merge(rows, part_of(i, w, set.first_piece, u % heads, set.rows),
                                   set.pieces, scratch.bytes);
    }
}

int merges(const Instruction& i, const Pass& p) {
    const AttentionWork& w = p.attention[i.group];
    return w.split ? static_cast<int>(w.sets.size()) * i.params.attention.n_kv_heads : 0;
}

bool supports(const Graph&, const Node& node) {
    return node.params.attention.head_dim % 16 == 0 && node.params.attention.head_dim <= 1024;
}

void lower(Lowering& l, int32_t index) {
    Instruction i = l.make(index, "kv_store");
    const AttentionSpec& a = i.params.attention;
    l.find_kv(a.layer, i);
    l.need_scratch(attention_scratch(a.n_heads / a.n_kv_heads, a.head_dim));
    i.row_work = 4 * (i.y.width() + i.z.width());
    i.run = store;
    const Value out = std::exchange(i.out, {});  // it writes the KV blocks
    l.push(i);
    i.name = "attention";
    i.out = out;
    i.units = pieces;
    i.row_work = 0;
    i.most = pieces_of_a_claim;
    i.run = attend;
    l.push(i);
    i.name = "attention_merge";
    i.units = merges;
    i.row_work = 2 * i.out.width();
    i.most = nullptr;
    i.run = merge;
    l.push(i);
}

int64_t first_seen(const StepInputs& step, const KvGroupSpec& group, int row) {
    return group.window ? std::max<int64_t>(0, step.positions[row] - group.window + 1) : 0;
}

// The blocks that a row sees.
struct Seen {
    const int32_t* table;
    int64_t first, end;
};
// Whether two rows see so many blocks together that they should read them together: at least half
// of what the one sees that sees more.
bool share_blocks(const Seen& a, const Seen& b) {
    const int64_t first = std::max(a.first, b.first), end = std::min(a.end, b.end);
    const int64_t wanted = (std::max(a.end - a.first, b.end - b.first) + 1) / 2;
    if (end - first < wanted) return false;
    if (a.table == b.table) return true;
    // Sequences that share blocks share those of a beginning.
    const auto differ = std::mismatch(a.table + first, a.table + end, b.table + first).first;
    return differ - (a.table + first) >= wanted;
}

// Sets are looked through from the newest back, these many at most.
constexpr size_t kOpenSets = 32;

void make_sets(const StepInputs& step,
               const KvGroupSpec& group,
               const std::vector<const int32_t*>& tables,
               int threads,
               AttentionWork& w) {
    // Two units for each thread are worth more than shared reads.
    const int units = step.n_rows * group.layers.front().n_kv_heads;
    const int most = std::clamp(units / (2 * threads), 1, kAttentionRows);
    const auto seen = [&](int row) {
        return Seen{tables[static_cast<size_t>(step.sequences[row])],
                    first_seen(step, group, row) / kBlockTokens,
                    step.positions[row] / kBlockTokens + 1};
    };
    for (int row = 0; row < step.n_rows; row++) {
        const Seen now = seen(row);
        w.seen += step.positions[row] + 1 - first_seen(step, group, row);
        const size_t open = std::min(kOpenSets, w.sets.size());
        const auto set = std::find_if(w.sets.rbegin(), w.sets.rbegin() + long(open),
                                      [&](const AttentionWork::Set& s) {
                                          return s.rows < most &&
                                                 share_blocks(seen(s.row[s.rows - 1]), now);
                                      });
        if (set != w.sets.rbegin() + long(open)) {
            set->row[set->rows++] = row;
        } else {
            w.sets.push_back({.row = {row}, .rows = 1});
        }
    }
}

}  // namespace

void plan_attention(const StepInputs& step,
                    const KvGroupSpec& group,
                    const std::vector<const int32_t*>& tables,
                    int threads,
                    AttentionWork& w) {
    w.sets.clear();
    w.pieces.clear();
    w.seen = 0;
    if (group.layers.empty()) return;
    const AttentionSpec& a = group.layers.front();
    make_sets(step, group, tables, threads, w);
    // Enough units for every thread to end at about the same time.
    w.split = threads > 1 && w.sets.size() * static_cast<size_t>(a.n_kv_heads) <
                                 size_t{4} * static_cast<size_t>(threads);
    for (size_t s = 0; s < w.sets.size(); s++) {
        AttentionWork::Set& set = w.sets[s];
        int64_t first = INT64_MAX, last = 0;
        for (const int row : std::span(set.row, static_cast<size_t>(set.rows))) {
            first = std::min(first, first_seen(step, group, row) / kChunkTokens);
            last = std::max(last, step.positions[row] / kChunkTokens);
        }
        set.first_piece = static_cast<int>(w.pieces.size());
        set.pieces = w.split ? static_cast<int>(last - first + 1) : 1;
        for (int c = 0; c < set.pieces; c++)
            w.pieces.push_back({static_cast<int>(s), w.split ? first + c : -1});
    }
    // Nothing to gain if every set has one chunk only.
    if (w.split && w.pieces.size() == w.sets.size()) {
        w.split = false;
        for (AttentionWork::Piece& piece : w.pieces)
            piece.chunk = -1;
    }
    if (!w.split) return;
    size_t floats = 0;
    for (const AttentionSpec& layer : group.layers) {
        const int heads = layer.n_heads / layer.n_kv_heads;
        floats = std::max(floats, attention_part_floats(kAttentionRows, heads, layer.head_dim) *
                                      static_cast<size_t>(layer.n_kv_heads));
    }
    if (w.parts.size() < floats * w.pieces.size()) w.parts.resize(2 * floats * w.pieces.size());
}

extern const CpuOp cpu_op_attention = {.name = "attention", .supports = supports, .lower = lower};

}  // namespace nib::cpu
