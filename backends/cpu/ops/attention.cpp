// SPDX-License-Identifier: MIT
// attention: first every row's k and v go to their places in the KV blocks, then every (16 rows, KV
// head) is a unit. What a row sees depends on its position alone, so a chunk of a prompt and a
// single token of a decode step are the same work.
#include "backends/cpu/op.h"

#include <algorithm>

namespace nib::cpu {
namespace {

// The page of a KV head that holds `position` of a row's sequence.
uint16_t* page(const Instruction& i, const Pass& p, int row, int64_t position, int head) {
    const auto group = static_cast<size_t>(i.group);
    const int32_t* table = p.step->tables[group][static_cast<size_t>(p.step->sequences[row])];
    auto* kv = static_cast<CpuKv*>(p.step->kv[group]);
    return kv->block(table[position / kBlockTokens]) + i.page_offset +
           static_cast<size_t>(head) * page_halves(i.params.attention.head_dim);
}

void store(const Instruction& i, const Pass& p, int first, int end, int) {
    const AttentionSpec& a = i.params.attention;
    for (int r = first; r < end; r++) {
        const int64_t position = p.step->positions[r];
        for (int h = 0; h < a.n_kv_heads; h++) {
            p.kernels->kv_store(i.y.row(p, r) + h * a.head_dim, i.z.row(p, r) + h * a.head_dim,
                                a.head_dim, static_cast<int>(position % kBlockTokens),
                                page(i, p, r, position, h));
        }
    }
}

int tile_heads(const Instruction& i, const Pass& p) {
    return (p.n + kTile - 1) / kTile * i.params.attention.n_kv_heads;
}

// Rows from `row` on, before `end`, that follow each other in one sequence and one page.
int rows_together(const Pass& p, int row, int end) {
    const StepInputs& s = *p.step;
    end = std::min(end, row + kAttentionRows);
    int next = row + 1;
    while (next < end && s.sequences[next] == s.sequences[row] &&
           s.positions[next] == s.positions[next - 1] + 1 &&
           s.positions[next] % kBlockTokens != 0) {
        next++;
    }
    return next - row;
}

void attend_tile(const Instruction& i, const Pass& p, int tile, int head, ThreadScratch& scratch) {
    const AttentionSpec& a = i.params.attention;
    const int group = a.n_heads / a.n_kv_heads;
    const int at = head * group * a.head_dim;
    const int end = std::min(p.n, (tile + 1) * kTile);
    int32_t sequence = -1;
    int64_t known_begin = 0, known_end = 0;  // blocks whose pages are in scratch.pages
    for (int r = tile * kTile; r < end;) {
        AttentionRows rows{.q = i.x.row(p, r) + at,
                           .ldq = static_cast<size_t>(i.x.stride),
                           .rows = rows_together(p, r, end),
                           .group = group,
                           .head_dim = a.head_dim,
                           .pages = scratch.pages.data(),
                           .position = p.step->positions[r],
                           .window = a.window,
                           .scale = a.scale,
                           .softcap = a.softcap,
                           .out = i.out.row(p, r) + at,
                           .ldout = static_cast<size_t>(i.out.stride)};
        const int64_t first_block = rows.begin(0) / kBlockTokens;
        const int64_t end_block = (rows.end(rows.rows - 1) - 1) / kBlockTokens + 1;
        if (sequence != p.step->sequences[r] || first_block < known_begin) {
            sequence = p.step->sequences[r];
            known_begin = known_end = first_block;
        }
        for (known_end = std::max(known_end, first_block); known_end < end_block; known_end++) {
            scratch.pages[static_cast<size_t>(known_end)] =
                page(i, p, r, known_end * kBlockTokens, head);
        }
        p.kernels->attention(rows, scratch.bytes);
        r += rows.rows;
    }
}

void attend(const Instruction& i, const Pass& p, int first, int end, int thread) {
    const int tiles = (p.n + kTile - 1) / kTile;
    for (int u = first; u < end; u++)
        attend_tile(i, p, u % tiles, u / tiles, p.scratch[thread]);
}

int one(const Instruction&, const Pass&) {
    return 1;
}

bool supports(const Graph&, const Node& node) {
    return node.params.attention.head_dim % 16 == 0 && node.params.attention.head_dim <= 1024;
}

void lower(Lowering& l, int32_t index) {
    Instruction i = l.make(index, "kv_store");
    const AttentionSpec& a = i.params.attention;
    l.find_kv(a.layer, i.group, i.page_offset);
    l.need_scratch(attention_scratch(a.n_heads / a.n_kv_heads, a.head_dim));
    i.units = unit_per_row;
    i.row_work = 4 * (i.y.width() + i.z.width());
    i.run = store;
    l.push(i);
    i.name = "attention";
    i.units = tile_heads;
    i.row_work = 0;
    i.most = one;
    i.run = attend;
    l.push(i);
}

}  // namespace

extern const CpuOp cpu_op_attention = {.name = "attention", .supports = supports, .lower = lower};

}  // namespace nib::cpu
