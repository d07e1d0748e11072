// SPDX-License-Identifier: MIT
// Attention of the q heads of a few rows over the pages of their KV head, and writing K and V into
// pages.
//
// Positions go in chunks of 512 and pages of 64, both aligned to absolute positions. Within a
// chunk, page after page: scores (lanes = tokens, one chain over head_dim), online softmax, then P
// times V (lanes = head_dim, one chain over the tokens in order). Finished chunks are merged in
// order. Rows that follow each other share the reads of a page, each with chains of its own: the
// numbers depend only on the position and on what it sees, not on other rows, on threads or on how
// the cache was filled. Slots that a row does not see may hold anything, NaN included: their scores
// are replaced, their V is not read for that row.
#pragma once
#include "backends/cpu/kernels/attention_bytes.inl"
#include "backends/cpu/kernels/attention_half.inl"
#include "backends/cpu/kernels/math.inl"

namespace nib::cpu {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();
constexpr int kHeads = 4;  // heads of a group that share the reads of a page

// In scratch. Heads are taken in blocks of kHeads; the last one may be smaller.
struct AttentionState {
    // In the order of use: [block][head_dim][rows][heads of the block]; for K of bytes query_at of
    // each block instead.
    float* q;
    float* o;      // [rows][group][head_dim] of the chunk
    float* total;  // [rows][group][head_dim] of all chunks so far
    float* m;      // [rows][group] largest score of the chunk
    float* l;      // sum of weights of the chunk
    float* total_m;
    float* total_l;
    float* p;  // [rows][heads of the block][64] scores, then weights of the page
};
NIB_INLINE AttentionState attention_state(const AttentionRows& r, void* scratch) {
    const size_t heads = size_t(r.rows) * size_t(r.group), dim = size_t(r.shape.head_dim);
    AttentionState s;
    s.q = static_cast<float*>(scratch);
    s.o = s.q + heads * dim;
    s.total = s.o + heads * dim;
    s.m = s.total + heads * dim;
    s.l = s.m + heads;
    s.total_m = s.l + heads;
    s.total_l = s.total_m + heads;
    s.p = s.total_l + heads;
    return s;
}

// Scaled scores of a tile; -inf for tokens outside lo .. hi.
NIB_INLINE VecF seen_scores(const AttentionRows& r, const float* p, int tile, int lo, int hi) {
    static const float kLane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    if (hi <= tile * 16 || lo >= tile * 16 + 16) return set1(kMinusInfinity);
    VecF x = mul(load(p + tile * 16), set1(r.scale));
    if (r.softcap > 0.0f) x = softcap_of(x, set1(r.softcap));
    if (lo <= tile * 16 && hi >= tile * 16 + 16) return x;
    const VecF token = add(load(kLane), set1(static_cast<float>(tile * 16)));
    x = select_less(token, set1(static_cast<float>(lo)), set1(kMinusInfinity), x);
    return select_less(token, set1(static_cast<float>(hi)), x, set1(kMinusInfinity));
}
// Scores of tokens lo .. hi of G heads become weights; the others of their tiles become zero.
// factor: what the page's new maximum does to o and l. The heads are independent chains, so that
// one fills the waiting of another.
template <int G>
NIB_INLINE void softmax_page(
    const AttentionRows& r, float* p, float* m, float* l, float* factor, int lo, int hi) {
    VecF score[G][4];
    float now[G];
    NIB_UNROLL for (int g = 0; g < G; g++) {
        for (int t = 0; t < 4; t++)
            score[g][t] = seen_scores(r, p + g * kPageTokens, t, lo, hi);
        const float most =
            reduce_max(max(max(score[g][0], score[g][1]), max(score[g][2], score[g][3])));
        now[g] = m[g] > most ? m[g] : most;
    }
    NIB_UNROLL for (int g = 0; g < G; g++) {
        NIB_UNROLL for (int t = 0; t < 4; t++) {
            // exp(-inf) is exactly zero, so tokens that are not seen add nothing.
            score[g][t] = exp_of(sub(score[g][t], set1(now[g])));
            store(p + g * kPageTokens + t * 16, score[g][t]);
        }
        factor[g] = first_lane(exp_of(set1(m[g] - now[g])));
        const float sum =
            reduce_add(add(add(score[g][0], score[g][1]), add(score[g][2], score[g][3])));
        m[g] = now[g];
        l[g] = __builtin_fmaf(l[g], factor[g], sum);
    }
}

// What each row sees of a page: slots lo .. hi, none if lo >= hi.
struct PageView {
    const uint8_t* page;
    const uint8_t* next;  // the page after it; the page itself if there is none
    int lo[kAttentionRows], hi[kAttentionRows];
};

// The int8 numbers of a block of heads within what arrange_q made.
NIB_INLINE A8 query_of(const AttentionRows& r, float* q, int head, int heads) {
    const int blocks = (r.shape.head_dim + kBlock - 1) / kBlock;
    uint8_t* memory = reinterpret_cast<uint8_t*>(q);
    const size_t before = size_t(head) * size_t(r.rows) * size_t(blocks) * kQueryBlockBytes;
    return query_at(memory + before, r.rows * heads, blocks);
}
// Scores of G heads from `head` on of R rows from `row` on.
template <int R, int G>
NIB_INLINE void page_scores(const AttentionRows& r,
                            const AttentionState& s,
                            const PageView& view,
                            int row,
                            int head,
                            int lo,
                            int hi) {
    constexpr bool kFetch = R == 1;
    if (r.shape.k_bytes) {
        const A8 q = query_of(r, s.q, head, G);
        return score_bytes<R * G, kFetch>(q, row * G, r.shape, view.page, view.next, lo, hi, s.p);
    }
    const float* q = s.q + size_t(head) * size_t(r.rows) * size_t(r.shape.head_dim) + row * G;
    score_halves<R * G, kFetch>(q, size_t(r.rows) * G, r.shape.head_dim,
                                reinterpret_cast<const uint16_t*>(view.page),
                                reinterpret_cast<const uint16_t*>(view.next), lo, hi, s.p);
}
// Their sums over V of slots lo .. hi; p, factor, o: of the first row.
template <int R, int G, bool kFetch = false>
NIB_INLINE void page_values(const AttentionRows& r,
                            const PageView& view,
                            const float* p,
                            const float* factor,
                            int lo,
                            int hi,
                            float* o) {
    const size_t dim = size_t(r.shape.head_dim), ldo = size_t(r.group) * dim;
    const uint8_t *v = view.page + r.shape.v, *next = view.next + r.shape.v;
    if (r.shape.v_bytes) {
        return value_bytes<R, G, kFetch>(p, factor, reinterpret_cast<const int8_t*>(v),
                                         reinterpret_cast<const int8_t*>(next), dim, lo, hi, o,
                                         ldo);
    }
    value_halves<R, G, kFetch>(p, factor, reinterpret_cast<const uint16_t*>(v),
                               reinterpret_cast<const uint16_t*>(next), dim, lo, hi, o, ldo);
}

// G heads from `head` on of R rows from `row` on; every row sees something.
template <int R, int G>
NIB_INLINE void page_heads(
    const AttentionRows& r, const AttentionState& s, const PageView& view, int row, int head) {
    const size_t dim = size_t(r.shape.head_dim), ldo = size_t(r.group) * dim;
    const int *lo = view.lo + row, *hi = view.hi + row;
    int first = lo[0], end = hi[0], common_first = lo[0], common_end = hi[0];
    for (int i = 1; i < R; i++) {
        first = lo[i] < first ? lo[i] : first;
        end = hi[i] > end ? hi[i] : end;
        common_first = lo[i] > common_first ? lo[i] : common_first;
        common_end = hi[i] < common_end ? hi[i] : common_end;
    }
    page_scores<R, G>(r, s, view, row, head, first, end);
    float factor[R * G];
    for (int i = 0; i < R; i++) {
        const size_t at = size_t(row + i) * size_t(r.group) + size_t(head);
        softmax_page<G>(r, s.p + i * G * kPageTokens, s.m + at, s.l + at, factor + i * G, lo[i],
                        hi[i]);
    }
    float* o = s.o + (size_t(row) * size_t(r.group) + size_t(head)) * dim;
    if constexpr (R == 1) return page_values<1, G, true>(r, view, s.p, factor, lo[0], hi[0], o);
    if (common_first > common_end) common_end = common_first;
    // Tokens that not all rows see go row by row; the chain of each stays in order.
    for (int i = 0; i < R; i++) {
        if (lo[i] >= common_first) continue;
        const int stop = hi[i] < common_first ? hi[i] : common_first;
        page_values<1, G>(r, view, s.p + i * G * kPageTokens, factor + i * G, lo[i], stop,
                          o + size_t(i) * ldo);
        for (int g = 0; g < G; g++)
            factor[i * G + g] = 1.0f;
    }
    page_values<R, G>(r, view, s.p, factor, common_first, common_end, o);
    for (int i = 0; i < R; i++) {
        const int start = lo[i] > common_end ? lo[i] : common_end;
        if (start >= hi[i]) continue;
        const float one[kHeads] = {1.0f, 1.0f, 1.0f, 1.0f};
        page_values<1, G>(r, view, s.p + i * G * kPageTokens, one, start, hi[i],
                          o + size_t(i) * ldo);
    }
}
template <int R>
void page_rows(const AttentionRows& r, const AttentionState& s, const PageView& view, int row) {
    int head = 0;
    for (; head + kHeads <= r.group; head += kHeads)
        page_heads<R, kHeads>(r, s, view, row, head);
    switch (r.group - head) {
    case 3:
        return page_heads<R, 3>(r, s, view, row, head);
    case 2:
        return page_heads<R, 2>(r, s, view, row, head);
    case 1:
        return page_heads<R, 1>(r, s, view, row, head);
    default:
        return;
    }
}
void attend_page(const AttentionRows& r, const AttentionState& s, const PageView& view) {
    int seeing = 0;
    for (int row = 0; row < r.rows; row++)
        seeing += view.lo[row] < view.hi[row];
    if constexpr (kAttentionTogether) {
        if (seeing == kAttentionRows) return page_rows<kAttentionRows>(r, s, view, 0);
    }
    for (int row = 0; row < r.rows; row++) {
        if (view.lo[row] < view.hi[row]) page_rows<1>(r, s, view, row);
    }
}

// total = total * a + o * b with the weights that the larger maximum gives; the same formula for
// every chunk. A row that sees nothing of a chunk is not touched by it.
void merge_chunk(const AttentionRows& r, const AttentionState& s) {
    for (int at = 0; at < r.rows * r.group; at++) {
        const float before = s.total_m[at], chunk = s.m[at];
        if (chunk == kMinusInfinity && s.l[at] == 0.0f) continue;
        const float now = before > chunk ? before : chunk;
        const VecF a = exp_of(set1(before - now)), b = exp_of(set1(chunk - now));
        float* total = s.total + size_t(at) * size_t(r.shape.head_dim);
        const float* o = s.o + size_t(at) * size_t(r.shape.head_dim);
        for (int i = 0; i < r.shape.head_dim; i += 16) {
            store(total + i, fma(load(o + i), b, mul(load(total + i), a)));
        }
        s.total_l[at] = first_lane(fma(set1(s.l[at]), b, mul(set1(s.total_l[at]), a)));
        s.total_m[at] = now;
    }
}

NIB_INLINE void clear_state(const AttentionRows& r, float* o, float* m, float* l) {
    const size_t heads = size_t(r.rows) * size_t(r.group), n = heads * size_t(r.shape.head_dim);
    for (size_t i = 0; i < n; i += 16)
        store(o + i, zero());
    for (size_t i = 0; i < heads; i++) {
        m[i] = kMinusInfinity;
        l[i] = 0.0f;
    }
}

void quantize_q(const AttentionRows& r, float* q, int head, int heads) {
    A8 a = query_of(r, q, head, heads);
    for (int row = 0; row < r.rows; row++) {
        for (int g = 0; g < heads; g++) {
            const float* from =
                r.q + size_t(row) * r.ldq + size_t(head + g) * size_t(r.shape.head_dim);
            quantize_token(from, r.shape.head_dim, nullptr, a, size_t(row * heads + g), a.n);
        }
    }
}
// q in the order in which the scores are made.
void arrange_q(const AttentionRows& r, float* q) {
    const size_t dim = size_t(r.shape.head_dim);
    for (int head = 0; head < r.group; head += kHeads) {
        const int heads = r.group - head < kHeads ? r.group - head : kHeads;
        if (r.shape.k_bytes) {
            quantize_q(r, q, head, heads);
            continue;
        }
        for (int i = 0; i < r.shape.head_dim; i++) {
            for (int row = 0; row < r.rows; row++) {
                const float* from = r.q + size_t(row) * r.ldq + size_t(head) * dim + i;
                for (int g = 0; g < heads; g++)
                    *q++ = from[size_t(g) * dim];
            }
        }
    }
}

// o, m and l of positions chunk * kChunkTokens on.
void run_chunk(const AttentionRows& r, const AttentionState& s, int64_t chunk) {
    const int64_t start = chunk * kChunkTokens, last = r.end(r.rows - 1);
    const int64_t end = start + kChunkTokens < last ? start + kChunkTokens : last;
    const int64_t seen = r.begin(0) > start ? r.begin(0) : start;
    clear_state(r, s.o, s.m, s.l);
    for (int64_t at = seen / kPageTokens * kPageTokens; at < end; at += kPageTokens) {
        PageView view;
        view.page = r.pages[at / kPageTokens];
        view.next = at + kPageTokens < end ? r.pages[at / kPageTokens + 1] : view.page;
        for (int row = 0; row < r.rows; row++) {
            const int64_t lo = r.begin(row) - at, hi = r.end(row) - at;
            view.lo[row] = lo > 0 ? static_cast<int>(lo < kPageTokens ? lo : kPageTokens) : 0;
            view.hi[row] = static_cast<int>(hi < kPageTokens ? hi : kPageTokens);
        }
        attend_page(r, s, view);
    }
}

void write_out(const AttentionRows& r, const AttentionState& s) {
    for (int row = 0; row < r.rows; row++) {
        for (int g = 0; g < r.group; g++) {
            const size_t at = size_t(row) * size_t(r.group) + size_t(g);
            const VecF l = set1(s.total_l[at]);
            float* out = r.out + size_t(row) * r.ldout + size_t(g) * size_t(r.shape.head_dim);
            for (int i = 0; i < r.shape.head_dim; i += 16) {
                store(out + i, div(load(s.total + at * size_t(r.shape.head_dim) + i), l));
            }
        }
    }
}

void attention(const AttentionRows& r, void* scratch) {
    const AttentionState s = attention_state(r, scratch);
    arrange_q(r, s.q);
    clear_state(r, s.total, s.total_m, s.total_l);
    const int64_t end = r.end(r.rows - 1);
    for (int64_t chunk = r.begin(0) / kChunkTokens; chunk * kChunkTokens < end; chunk++) {
        run_chunk(r, s, chunk);
        merge_chunk(r, s);
    }
    write_out(r, s);
}

// The state with o, m and l in a part.
AttentionState state_of_part(const AttentionRows& r, float* part, void* scratch) {
    const size_t heads = size_t(r.rows) * size_t(r.group);
    AttentionState s = attention_state(r, scratch);
    s.o = part;
    s.m = part + heads * size_t(r.shape.head_dim);
    s.l = s.m + heads;
    return s;
}

void attention_chunk(const AttentionRows& r, int64_t chunk, float* part, void* scratch) {
    const AttentionState s = state_of_part(r, part, scratch);
    arrange_q(r, s.q);
    run_chunk(r, s, chunk);
}

void attention_merge(const AttentionRows& r, const float* parts, int n, void* scratch) {
    const size_t size = attention_part_floats(r.rows, r.group, r.shape.head_dim);
    const AttentionState s = attention_state(r, scratch);
    clear_state(r, s.total, s.total_m, s.total_l);
    for (int i = 0; i < n; i++) {
        merge_chunk(r, state_of_part(r, const_cast<float*>(parts) + size_t(i) * size, scratch));
    }
    write_out(r, s);
}

void kv_store(const float* k, const float* v, const PageShape& shape, int slot, uint8_t* page) {
    const int dim = shape.head_dim;
    if (shape.k_bytes) {
        auto* scales = reinterpret_cast<uint16_t*>(page + shape.k_scales);
        store_k_bytes(k, dim, slot, page, scales);
    } else {
        store_k_halves(k, dim, slot, reinterpret_cast<uint16_t*>(page));
    }
    if (shape.v_bytes) {
        auto* scales = reinterpret_cast<uint16_t*>(page + shape.v_scales);
        store_v_bytes(v, dim, slot, page + shape.v, scales);
    } else {
        store_v_halves(v, dim, slot, reinterpret_cast<uint16_t*>(page + shape.v));
    }
}

}  // namespace
}  // namespace nib::cpu
