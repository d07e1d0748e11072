// SPDX-License-Identifier: MIT
// Attention of the q heads of a few rows over the pages of their KV head, and writing K and V into
// pages.
//
// Positions go in chunks of 512 and pages of 64, both aligned to absolute positions. A head of a
// row is a chain. Within a chunk, page after page: scores (lanes = tokens, one sum over head_dim),
// online softmax, then P times V (lanes = head_dim, one sum over the tokens in order). Finished
// chunks are merged in order. Chains of rows next to each other that see the same page go through
// it together: the numbers depend only on the position and on what it sees, not on other rows, on
// threads or on how the cache was filled. Slots that a row does not see may hold anything, NaN
// included: their scores are replaced, their V is not read for that row.
#pragma once
#include "backends/cpu/kernels/attention_bytes.inl"
#include "backends/cpu/kernels/attention_half.inl"
#include "backends/cpu/kernels/math.inl"

namespace nib::cpu {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();
static_assert(kAttentionChains <= kMostChains);

// In scratch; chain = row * group + head.
struct AttentionState {
    A8 q;          // of all chains, if K is of bytes
    float* o;      // [chains][head_dim] of the chunk
    float* total;  // [chains][head_dim] of all chunks so far
    float* m;      // [chains] largest score of the chunk, in powers of two
    float* l;      // sum of weights of the chunk
    float* total_m;
    float* total_l;
    float* p;  // [kAttentionChains][64] scores, then weights of the page
};
NIB_INLINE AttentionState attention_state(const AttentionRows& r, void* scratch) {
    const size_t chains = size_t(r.rows) * size_t(r.group), dim = size_t(r.shape.head_dim);
    AttentionState s;
    s.q = query_at(scratch, r.rows * r.group, (r.shape.head_dim + kBlock - 1) / kBlock);
    s.o = static_cast<float*>(scratch) + chains * dim;
    s.total = s.o + chains * dim;
    s.m = s.total + chains * dim;
    s.l = s.m + chains;
    s.total_m = s.l + chains;
    s.total_l = s.total_m + chains;
    s.p = s.total_l + chains;
    return s;
}

// Scaled scores of a tile, in powers of two; -inf for tokens outside lo .. hi.
NIB_INLINE VecF seen_scores(const AttentionRows& r, const float* p, int tile, int lo, int hi) {
    constexpr float kLog2E = 1.44269504f;
    static const float kLane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    if (hi <= tile * 16 || lo >= tile * 16 + 16) return set1(kMinusInfinity);
    VecF x = load(p + tile * 16);
    if (r.softcap > 0.0f) {
        x = mul(softcap_of(mul(x, set1(r.scale)), set1(r.softcap)), set1(kLog2E));
    } else {
        x = mul(x, set1(r.scale * kLog2E));
    }
    if (lo <= tile * 16 && hi >= tile * 16 + 16) return x;
    const VecF token = add(load(kLane), set1(static_cast<float>(tile * 16)));
    x = select_less(token, set1(static_cast<float>(lo)), set1(kMinusInfinity), x);
    return select_less(token, set1(static_cast<float>(hi)), x, set1(kMinusInfinity));
}

// What J chains from `first` on see of a page that their rows share.
template <int J>
struct ChainsOfPage {
    const uint8_t* page;
    const uint8_t* next;  // the page after it; the page itself if there is none
    int first;
    int lo[J], hi[J];  // slots, lo < hi
};

// Scores of tokens that a chain sees become weights, the others of the page become zero. factor
// [16]: what the page's new maximum does to o and l.
template <int J>
NIB_INLINE void softmax_page(const AttentionRows& r,
                             const AttentionState& s,
                             const ChainsOfPage<J>& c,
                             float* factor) {
    constexpr int kFours = (J + 3) / 4;
    VecF each[kFours * 4];
    float most[16] = {}, sum[16] = {};
    for (int j = 0; j < J; j++) {
        VecF score[4];
        NIB_UNROLL for (int t = 0; t < 4; t++) {
            float* p = s.p + j * kPageTokens;
            score[t] = seen_scores(r, p, t, c.lo[j], c.hi[j]);
            store(p + t * 16, score[t]);
        }
        each[j] = max(max(score[0], score[1]), max(score[2], score[3]));
    }
    for (int j = J; j < kFours * 4; j++)
        each[j] = each[0];
    NIB_UNROLL for (int j = 0; j < kFours; j++) most_of_four(each + 4 * j, most + 4 * j);
    const VecF before = load_n(s.m + c.first, J), now = max(before, load(most));
    const VecF fall = exp2_of(sub(before, now));
    store_n(s.m + c.first, now, J);
    store(factor, fall);
    for (int j = 0; j < J; j++) {
        VecF weight[4];
        NIB_UNROLL for (int t = 0; t < 4; t++) {
            float* p = s.p + j * kPageTokens + t * 16;
            // Of -inf exactly zero, so tokens that are not seen add nothing.
            weight[t] = exp2_of(sub(load(p), set1(s.m[c.first + j])));
            store(p, weight[t]);
        }
        each[j] = add(add(weight[0], weight[1]), add(weight[2], weight[3]));
    }
    NIB_UNROLL for (int j = 0; j < kFours; j++) sums_of_four(each + 4 * j, sum + 4 * j);
    store_n(s.l + c.first, fma(load_n(s.l + c.first, J), fall, load(sum)), J);
}

// The sums over V of slots lo .. hi; p, factor, o: of the first of J chains.
template <int J>
__attribute__((noinline)) void page_values(const PageShape& shape,
                                           const uint8_t* page,
                                           const uint8_t* next,
                                           const float* p,
                                           const float* factor,
                                           int lo,
                                           int hi,
                                           float* o) {
    const size_t dim = size_t(shape.head_dim);
    const uint8_t *v = page + shape.v, *ahead = next + shape.v;
    if (shape.v_bytes) {
        return value_bytes<J>(p, factor, reinterpret_cast<const int8_t*>(v),
                              reinterpret_cast<const int8_t*>(ahead), dim, lo, hi, o);
    }
    value_halves<J>(p, factor, reinterpret_cast<const uint16_t*>(v),
                    reinterpret_cast<const uint16_t*>(ahead), dim, lo, hi, o);
}
template <int J>
NIB_INLINE void page_scores(const AttentionRows& r,
                            const AttentionState& s,
                            const ChainsOfPage<J>& c,
                            int lo,
                            int hi) {
    if (r.shape.k_bytes)
        return score_bytes<J>(s.q, c.first, r.shape, c.page, c.next, lo, hi, s.p);
    const float* q[J];
    for (int j = 0; j < J; j++) {
        const int row = (c.first + j) / r.group, head = (c.first + j) % r.group;
        q[j] = r.row[row].q + size_t(head) * size_t(r.shape.head_dim);
    }
    score_halves<J>(q, r.shape.head_dim, reinterpret_cast<const uint16_t*>(c.page),
                    reinterpret_cast<const uint16_t*>(c.next), lo, hi, s.p);
}

template <int J>
NIB_INLINE void values_up_to(const PageShape& shape,
                             const uint8_t* page,
                             const uint8_t* next,
                             const float* p,
                             const float* factor,
                             int lo,
                             int hi,
                             float* o,
                             int n) {
    if (n == J) return page_values<J>(shape, page, next, p, factor, lo, hi, o);
    if constexpr (J > 1) values_up_to<J - 1>(shape, page, next, p, factor, lo, hi, o, n);
}

template <int J>
void attend_chains(const AttentionRows& r, const AttentionState& s, const ChainsOfPage<J>& c) {
    int first = c.lo[0], end = c.hi[0], common_first = c.lo[0], common_end = c.hi[0];
    for (int j = 1; j < J; j++) {
        first = c.lo[j] < first ? c.lo[j] : first;
        end = c.hi[j] > end ? c.hi[j] : end;
        common_first = c.lo[j] > common_first ? c.lo[j] : common_first;
        common_end = c.hi[j] < common_end ? c.hi[j] : common_end;
    }
    if (common_first > common_end) common_end = common_first;
    page_scores<J>(r, s, c, first, end);
    float factor[16];
    softmax_page<J>(r, s, c, factor);
    float* o = s.o + size_t(c.first) * size_t(r.shape.head_dim);
    if (first == common_first && end == common_end)
        return page_values<J>(r.shape, c.page, c.next, s.p, factor, first, end, o);
    // Tokens that not all see go row by row; the sums of each chain stay in order.
    const auto row_by_row = [&](int from, int to) {
        for (int j = 0, n = 1; j < J; j += n, n = 1) {
            while (j + n < J && c.lo[j + n] == c.lo[j] && c.hi[j + n] == c.hi[j])
                n++;
            const int lo = c.lo[j] > from ? c.lo[j] : from, hi = c.hi[j] < to ? c.hi[j] : to;
            if (lo >= hi) continue;
            values_up_to<J>(r.shape, c.page, c.next, s.p + j * kPageTokens, factor + j, lo, hi,
                            o + size_t(j) * size_t(r.shape.head_dim), n);
            for (int i = j; i < j + n; i++)
                factor[i] = 1.0f;
        }
    };
    row_by_row(0, common_first);
    page_values<J>(r.shape, c.page, c.next, s.p, factor, common_first, common_end, o);
    for (int j = 0; j < J; j++)
        factor[j] = 1.0f;
    row_by_row(common_end, kPageTokens);
}

// What each row sees of the pages at one place of its list: slots lo .. hi, nothing if lo >= hi.
struct PageView {
    const uint8_t* page[kAttentionRows];
    const uint8_t* next[kAttentionRows];
    int lo[kAttentionRows], hi[kAttentionRows];
};
template <int J>
void attend_some(const AttentionRows& r, const AttentionState& s, const PageView& view, int first) {
    const int row = first / r.group;
    ChainsOfPage<J> c{view.page[row], view.next[row], first, {}, {}};
    for (int j = 0; j < J; j++) {
        c.lo[j] = view.lo[(first + j) / r.group];
        c.hi[j] = view.hi[(first + j) / r.group];
    }
    attend_chains<J>(r, s, c);
}
template <int J>
NIB_INLINE void attend_up_to(
    const AttentionRows& r, const AttentionState& s, const PageView& view, int first, int n) {
    if (n == J) return attend_some<J>(r, s, view, first);
    if constexpr (J > 1) attend_up_to<J - 1>(r, s, view, first, n);
}
void attend_page(const AttentionRows& r, const AttentionState& s, const PageView& view) {
    for (int row = 0; row < r.rows;) {
        if (view.lo[row] >= view.hi[row]) {
            row++;
            continue;
        }
        int end = row + 1;
        while (end < r.rows && view.lo[end] < view.hi[end] && view.page[end] == view.page[row])
            end++;
        // In equal parts, since a few chains use the machine worse.
        const int chains = (end - row) * r.group;
        const int parts = (chains + kAttentionChains - 1) / kAttentionChains;
        for (int i = 0, first = row * r.group; i < parts; i++) {
            const int n = (chains * (i + 1)) / parts - (chains * i) / parts;
            attend_up_to<kAttentionChains>(r, s, view, first, n);
            first += n;
        }
        row = end;
    }
}

// total = total * a + o * b with the weights that the larger maximum gives; the same formula for
// every chunk. A row that sees nothing of a chunk is not touched by it.
void merge_chunk(const AttentionRows& r, const AttentionState& s) {
    for (int at = 0; at < r.rows * r.group; at++) {
        const float before = s.total_m[at], chunk = s.m[at];
        if (chunk == kMinusInfinity && s.l[at] == 0.0f) continue;
        const float now = before > chunk ? before : chunk;
        const VecF a = exp2_of(set1(before - now)), b = exp2_of(set1(chunk - now));
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

// Keys of bytes meet queries of bytes.
void quantize_q(const AttentionRows& r, AttentionState& s) {
    if (!r.shape.k_bytes) return;
    for (int chain = 0; chain < r.rows * r.group; chain++) {
        const float* q = r.row[chain / r.group].q;
        quantize_token(q + size_t(chain % r.group) * size_t(r.shape.head_dim), r.shape.head_dim,
                       nullptr, s.q, size_t(chain), s.q.n);
    }
}

// o, m and l of positions chunk * kChunkTokens on.
void run_chunk(const AttentionRows& r, const AttentionState& s, int64_t chunk) {
    const int64_t start = chunk * kChunkTokens, first = r.first(), last = r.last();
    const int64_t end = start + kChunkTokens < last ? start + kChunkTokens : last;
    const int64_t seen = first > start ? first : start;
    clear_state(r, s.o, s.m, s.l);
    for (int64_t at = seen / kPageTokens * kPageTokens; at < end; at += kPageTokens) {
        PageView view;
        for (int i = 0; i < r.rows; i++) {
            const int64_t lo = r.begin(i) - at, hi = r.end(i) - at;
            view.lo[i] = lo > 0 ? static_cast<int>(lo < kPageTokens ? lo : kPageTokens) : 0;
            view.hi[i] = hi > 0 ? static_cast<int>(hi < kPageTokens ? hi : kPageTokens) : 0;
            if (view.lo[i] >= view.hi[i]) continue;
            const uint8_t* const* page = r.row[i].pages + at / kPageTokens;
            view.page[i] = page[0];
            view.next[i] = hi > kPageTokens && at + kPageTokens < end ? page[1] : page[0];
        }
        attend_page(r, s, view);
    }
}

void write_out(const AttentionRows& r, const AttentionState& s) {
    const size_t dim = size_t(r.shape.head_dim), width = size_t(r.group) * dim;
    for (int row = 0; row < r.rows; row++) {
        for (size_t i = 0; i < width; i += 16) {
            const size_t chain = size_t(row) * size_t(r.group) + i / dim;
            store(r.row[row].out + i,
                  div(load(s.total + size_t(row) * width + i), set1(s.total_l[chain])));
        }
    }
}

void attention(const AttentionRows& r, void* scratch) {
    AttentionState s = attention_state(r, scratch);
    quantize_q(r, s);
    clear_state(r, s.total, s.total_m, s.total_l);
    const int64_t end = r.last();
    for (int64_t chunk = r.first() / kChunkTokens; chunk * kChunkTokens < end; chunk++) {
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
    AttentionState s = state_of_part(r, part, scratch);
    quantize_q(r, s);
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
