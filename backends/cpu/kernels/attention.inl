// SPDX-License-Identifier: MIT
// Attention of one token's q heads over the pages of their KV head, and writing K and V into pages.
//
// Positions go in chunks of 512 and pages of 64, both aligned to absolute positions. Within a
// chunk, page after page: scores (lanes = tokens, one chain over head_dim), online softmax, then P
// times V (lanes = head_dim, one chain over the tokens in order). Finished chunks are merged in
// order. The numbers depend only on the position and on what it sees: not on other tokens, on
// threads or on how the cache was filled. Slots outside begin .. end may hold anything, NaN
// included: their scores are replaced, their V is not read.
#pragma once
#include "backends/cpu/kernels.h"
#include "backends/cpu/kernels/math.inl"

namespace nib::cpu {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();

// In scratch; arrays over the q heads of the group.
struct AttentionState {
    float* p;      // [64] scores, then weights of the page
    float* o;      // [head_dim] of the chunk
    float* total;  // [head_dim] of all chunks so far
    float* m;      // largest score of the chunk
    float* l;      // sum of weights of the chunk
    float* total_m;
    float* total_l;
    float* factor;  // what the page's new maximum does to o and l
};
NIB_INLINE AttentionState attention_state(const AttentionRow& r, void* scratch) {
    const size_t group = size_t(r.group), dim = size_t(r.head_dim);
    float* f = static_cast<float*>(scratch);
    AttentionState s;
    s.p = f;
    s.o = s.p + group * kPageTokens;
    s.total = s.o + group * dim;
    s.m = s.total + group * dim;
    s.l = s.m + group;
    s.total_m = s.l + group;
    s.total_l = s.total_m + group;
    s.factor = s.total_l + group;
    return s;
}

// q . k of G heads from `head` on and T tiles of 16 tokens from `tile` on.
template <int G, int T>
NIB_INLINE void score_tiles(
    const AttentionRow& r, const uint16_t* k_tiles, int head, int tile, float* p) {
    VecF acc[T][G];
    NIB_UNROLL for (int t = 0; t < T; t++) {
        NIB_UNROLL for (int g = 0; g < G; g++) acc[t][g] = zero();
    }
    const float* q = r.q + size_t(head) * size_t(r.head_dim);
    const size_t tile_halves = size_t(r.head_dim) * 16;
    const uint16_t* k = k_tiles + size_t(tile) * tile_halves;
    for (int i = 0; i < r.head_dim; i++) {
        NIB_UNROLL for (int t = 0; t < T; t++) {
            const VecF lanes = load_half(k + size_t(t) * tile_halves + size_t(i) * 16);
            NIB_UNROLL for (int g = 0; g < G; g++) {
                acc[t][g] =
                    fma(lanes, set1(q[size_t(g) * size_t(r.head_dim) + size_t(i)]), acc[t][g]);
            }
        }
    }
    NIB_UNROLL for (int t = 0; t < T; t++) {
        NIB_UNROLL for (int g = 0; g < G; g++) {
            store(p + size_t(head + g) * kPageTokens + size_t(tile + t) * 16, acc[t][g]);
        }
    }
}
template <int G>
void score_page(const AttentionRow& r, const uint16_t* page, int head, int lo, int hi, float* p) {
    int tile = lo / 16;
    const int end = (hi + 15) / 16;
    for (; tile + kAttentionWidth <= end; tile += kAttentionWidth) {
        score_tiles<G, kAttentionWidth>(r, page, head, tile, p);
    }
    for (; tile < end; tile++)
        score_tiles<G, 1>(r, page, head, tile, p);
}

// o = o * factor + sum of p[token] * V[token] for G heads and D blocks of 16 values from `block`
// on.
template <int G, int D>
NIB_INLINE void value_blocks(const AttentionRow& r,
                             const AttentionState& s,
                             const uint16_t* v,
                             int head,
                             int block,
                             int lo,
                             int hi) {
    const size_t dim = size_t(r.head_dim);
    VecF acc[D][G];
    float* o = s.o + size_t(head) * dim + size_t(block) * 16;
    NIB_UNROLL for (int d = 0; d < D; d++) {
        NIB_UNROLL for (int g = 0; g < G; g++) {
            acc[d][g] = mul(load(o + size_t(g) * dim + d * 16), set1(s.factor[head + g]));
        }
    }
    const float* p = s.p + size_t(head) * kPageTokens;
    for (int t = lo; t < hi; t++) {
        NIB_UNROLL for (int d = 0; d < D; d++) {
            const VecF lanes = load_half(v + size_t(t) * dim + size_t(block + d) * 16);
            NIB_UNROLL for (int g = 0; g < G; g++) {
                acc[d][g] = fma(set1(p[size_t(g) * kPageTokens + size_t(t)]), lanes, acc[d][g]);
            }
        }
    }
    NIB_UNROLL for (int d = 0; d < D; d++) {
        NIB_UNROLL for (int g = 0; g < G; g++) store(o + size_t(g) * dim + d * 16, acc[d][g]);
    }
}
template <int G>
void value_page(const AttentionRow& r,
                const AttentionState& s,
                const uint16_t* page,
                int head,
                int lo,
                int hi) {
    const uint16_t* v = page + size_t(kPageTokens) * size_t(r.head_dim);
    const int end = r.head_dim / 16;
    int block = 0;
    for (; block + kAttentionWidth <= end; block += kAttentionWidth) {
        value_blocks<G, kAttentionWidth>(r, s, v, head, block, lo, hi);
    }
    for (; block < end; block++)
        value_blocks<G, 1>(r, s, v, head, block, lo, hi);
}

// Scaled scores of a tile; -inf for tokens outside lo .. hi.
NIB_INLINE VecF seen_scores(const AttentionRow& r, const float* p, int tile, int lo, int hi) {
    static const float kLane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    if (hi <= tile * 16 || lo >= tile * 16 + 16) return set1(kMinusInfinity);
    VecF x = mul(load(p + tile * 16), set1(r.scale));
    if (r.softcap > 0.0f) x = softcap_of(x, set1(r.softcap));
    if (lo <= tile * 16 && hi >= tile * 16 + 16) return x;
    const VecF token = add(load(kLane), set1(static_cast<float>(tile * 16)));
    x = select_less(token, set1(static_cast<float>(lo)), set1(kMinusInfinity), x);
    return select_less(token, set1(static_cast<float>(hi)), x, set1(kMinusInfinity));
}
// Scores of tokens lo .. hi of G heads become weights; the others of their tiles become zero. The
// heads are independent chains, so that one fills the waiting of another.
template <int G>
NIB_INLINE void softmax_page(
    const AttentionRow& r, const AttentionState& s, int head, int lo, int hi) {
    VecF score[G][4];
    float now[G];
    NIB_UNROLL for (int g = 0; g < G; g++) {
        const float* p = s.p + size_t(head + g) * kPageTokens;
        for (int t = 0; t < 4; t++)
            score[g][t] = seen_scores(r, p, t, lo, hi);
        const float most =
            reduce_max(max(max(score[g][0], score[g][1]), max(score[g][2], score[g][3])));
        const float before = s.m[head + g];
        now[g] = before > most ? before : most;
    }
    NIB_UNROLL for (int g = 0; g < G; g++) {
        float* p = s.p + size_t(head + g) * kPageTokens;
        NIB_UNROLL for (int t = 0; t < 4; t++) {
            // exp(-inf) is exactly zero, so tokens that are not seen add nothing.
            score[g][t] = exp_of(sub(score[g][t], set1(now[g])));
            store(p + t * 16, score[g][t]);
        }
        const float factor = first_lane(exp_of(set1(s.m[head + g] - now[g])));
        const float sum =
            reduce_add(add(add(score[g][0], score[g][1]), add(score[g][2], score[g][3])));
        s.m[head + g] = now[g];
        s.factor[head + g] = factor;
        s.l[head + g] = __builtin_fmaf(s.l[head + g], factor, sum);
    }
}

template <int G>
NIB_INLINE void page_heads(const AttentionRow& r,
                           const AttentionState& s,
                           const uint16_t* page,
                           int head,
                           int lo,
                           int hi) {
    score_page<G>(r, page, head, lo, hi, s.p);
    softmax_page<G>(r, s, head, lo, hi);
    value_page<G>(r, s, page, head, lo, hi);
}
// Heads of a group share the reads of the page, up to four at a time.
void attend_page(
    const AttentionRow& r, const AttentionState& s, const uint16_t* page, int lo, int hi) {
    int head = 0;
    for (; head + 4 <= r.group; head += 4)
        page_heads<4>(r, s, page, head, lo, hi);
    switch (r.group - head) {
    case 3:
        return page_heads<3>(r, s, page, head, lo, hi);
    case 2:
        return page_heads<2>(r, s, page, head, lo, hi);
    case 1:
        return page_heads<1>(r, s, page, head, lo, hi);
    default:
        return;
    }
}

// total = total * a + o * b with the weights that the larger maximum gives; the same formula for
// every chunk.
void merge_chunk(const AttentionRow& r, const AttentionState& s) {
    for (int g = 0; g < r.group; g++) {
        const float before = s.total_m[g], chunk = s.m[g];
        const float now = before > chunk ? before : chunk;
        const VecF a = exp_of(set1(before - now)), b = exp_of(set1(chunk - now));
        float* total = s.total + size_t(g) * size_t(r.head_dim);
        const float* o = s.o + size_t(g) * size_t(r.head_dim);
        for (int i = 0; i < r.head_dim; i += 16) {
            store(total + i, fma(load(o + i), b, mul(load(total + i), a)));
        }
        s.total_l[g] = first_lane(fma(set1(s.l[g]), b, mul(set1(s.total_l[g]), a)));
        s.total_m[g] = now;
    }
}

NIB_INLINE void clear_state(const AttentionRow& r, float* o, float* m, float* l) {
    const size_t n = size_t(r.group) * size_t(r.head_dim);
    for (size_t i = 0; i < n; i += 16)
        store(o + i, zero());
    for (int g = 0; g < r.group; g++) {
        m[g] = kMinusInfinity;
        l[g] = 0.0f;
    }
}

void attention(const AttentionRow& r, void* scratch) {
    const AttentionState s = attention_state(r, scratch);
    clear_state(r, s.total, s.total_m, s.total_l);
    for (int64_t at = r.begin; at < r.end;) {
        int64_t chunk_end = (at / kChunkTokens + 1) * kChunkTokens;
        if (chunk_end > r.end) chunk_end = r.end;
        clear_state(r, s.o, s.m, s.l);
        while (at < chunk_end) {
            const int64_t page_start = at / kPageTokens * kPageTokens;
            int64_t page_end = page_start + kPageTokens;
            if (page_end > chunk_end) page_end = chunk_end;
            attend_page(r, s, r.pages[page_start / kPageTokens], static_cast<int>(at - page_start),
                        static_cast<int>(page_end - page_start));
            at = page_end;
        }
        merge_chunk(r, s);
    }
    for (int g = 0; g < r.group; g++) {
        const VecF l = set1(s.total_l[g]);
        const size_t row = size_t(g) * size_t(r.head_dim);
        for (int i = 0; i < r.head_dim; i += 16) {
            store(r.out + row + i, div(load(s.total + row + i), l));
        }
    }
}

void kv_store(const float* k, const float* v, int head_dim, int slot, uint16_t* page) {
    uint16_t* k_lane = page + size_t(slot / 16) * size_t(head_dim) * 16 + size_t(slot % 16);
    uint16_t* v_row = page + size_t(kPageTokens + slot) * size_t(head_dim);
    for (int i = 0; i < head_dim; i += 16) {
        uint16_t halves[16];
        store_half(halves, load(k + i));
        for (int j = 0; j < 16; j++)
            k_lane[size_t(i + j) * 16] = halves[j];
        store_half(v_row + i, load(v + i));
    }
}

}  // namespace
}  // namespace nib::cpu
