// SPDX-License-Identifier: MIT
// The types whose blocks hold 32 values. Their nibbles and bytes go to the panel as they are (Q8_0:
// with the sign bit flipped, so that a byte is q + 128); only fifth bits are regrouped. panels.h
// says where things lie.
#include "backends/cpu/pack_blocks.h"

#include "backends/cpu/pack_words.h"

namespace nib::cpu {

namespace {

// Types with d only: two blocks share a record that starts with both d. kWords vectors of words,
// and the fifth bits if kBits.
template <int kWords, bool kBits, uint32_t kFlip>
struct Pairs {
    static constexpr size_t kPart = size_t(kWords + (kBits ? 1 : 0)) * kVector;
    static constexpr size_t kRecord = 64 + 2 * kPart;
    static constexpr int kWordsAt = kBits ? 6 : 2;

    static void put(const FourRows& rows, int, int block, uint8_t* panel) {
        uint8_t* record = panel + size_t(block / 2) * kRecord;
        store_halves(record + block % 2 * 32, rows, 0);
        uint8_t* part = record + 64 + size_t(block % 2) * kPart;
        Words words[kWords];
        load_words<kWords>(rows, kWordsAt, words);
        for (int i = 0; i < kWords; i++)
            store_words(part, i, rows, words[i] ^ kFlip);
        if constexpr (kBits) store_words(part, kWords, rows, spread_bits(load_word(rows, 2)));
    }
    static void get(const uint8_t* panel, int, int block, int lane, uint8_t* dst) {
        const uint8_t* record = panel + size_t(block / 2) * kRecord;
        copy_half(dst, record + block % 2 * 32 + lane * 2);
        const uint8_t* part = record + 64 + size_t(block % 2) * kPart;
        for (int i = 0; i < kWords; i++)
            put_word(dst + kWordsAt, i, lane_word(part, i, lane) ^ kFlip);
        if constexpr (kBits) put_word(dst + 2, 0, gather_bits(lane_word(part, kWords, lane)));
    }
};
using PairsQ8_0 = Pairs<8, false, 0x80808080>;
using PairsQ4_0 = Pairs<4, false, 0>;  // and IQ4_NL, whose nibbles are numbers of a table
using PairsQ5_0 = Pairs<4, true, 0>;
static_assert(PairsQ8_0::kRecord == kQ8Record && PairsQ4_0::kRecord == kQ40Record &&
              PairsQ5_0::kRecord == kQ50Record);

// Types with d and m: every block is a part of its own.
template <bool kBits>
struct Singles {
    static constexpr size_t kPart = 64 + (kBits ? kNibblesBit : kNibbles);
    static constexpr int kWordsAt = kBits ? 8 : 4;

    static void put(const FourRows& rows, int, int block, uint8_t* panel) {
        uint8_t* part = panel + size_t(block) * kPart;
        store_halves(part, rows, 0);
        store_halves(part + 32, rows, 2);
        Words words[4];
        load_words<4>(rows, kWordsAt, words);
        for (int i = 0; i < 4; i++)
            store_words(part + 64, i, rows, words[i]);
        if constexpr (kBits) store_words(part + 64, 4, rows, spread_bits(load_word(rows, 4)));
    }
    static void get(const uint8_t* panel, int, int block, int lane, uint8_t* dst) {
        const uint8_t* part = panel + size_t(block) * kPart;
        copy_half(dst, part + lane * 2);
        copy_half(dst + 2, part + 32 + lane * 2);
        for (int i = 0; i < 4; i++)
            put_word(dst + kWordsAt, i, lane_word(part + 64, i, lane));
        if constexpr (kBits) put_word(dst + 4, 0, gather_bits(lane_word(part + 64, 4, lane)));
    }
};
static_assert(Singles<false>::kPart == kQ41Block && Singles<true>::kPart == kQ51Block);

// MXFP4: the exponents of all blocks stand at the head, so that a block is whole vectors.
struct Mxfp4 {
    static void put(const FourRows& rows, int k, int block, uint8_t* panel) {
        store_bytes(panel + block * kPanelRows, rows, 0);
        uint8_t* part = panel + head_bytes(k, 32, kMxfp4Head) + size_t(block) * kNibbles;
        Words words[4];
        load_words<4>(rows, 1, words);
        for (int i = 0; i < 4; i++)
            store_words(part, i, rows, words[i]);
    }
    static void get(const uint8_t* panel, int k, int block, int lane, uint8_t* dst) {
        dst[0] = panel[block * kPanelRows + lane];
        const uint8_t* part = panel + head_bytes(k, 32, kMxfp4Head) + size_t(block) * kNibbles;
        for (int i = 0; i < 4; i++)
            put_word(dst + 1, i, lane_word(part, i, lane));
    }
};

constexpr PanelType kPanelTypes[] = {
    {Type::Q8_0, 64, kQ8Record, 0, put_rows<PairsQ8_0>, PairsQ8_0::get},
    {Type::Q4_0, 64, kQ40Record, 0, put_rows<PairsQ4_0>, PairsQ4_0::get},
    {Type::IQ4_NL, 64, kQ40Record, 0, put_rows<PairsQ4_0>, PairsQ4_0::get},
    {Type::Q5_0, 64, kQ50Record, 0, put_rows<PairsQ5_0>, PairsQ5_0::get},
    {Type::Q4_1, 64, 2 * kQ41Block, 0, put_rows<Singles<false>>, Singles<false>::get},
    {Type::Q5_1, 64, 2 * kQ51Block, 0, put_rows<Singles<true>>, Singles<true>::get},
    {Type::MXFP4, 64, 2 * kNibbles, kMxfp4Head, put_rows<Mxfp4>, Mxfp4::get},
};

}  // namespace

const PanelType* find_panel_type(Type type) {
    for (const PanelType& t : kPanelTypes) {
        if (t.type == type) return &t;
    }
    for (const PanelType& t : super_panel_types()) {
        if (t.type == type) return &t;
    }
    return nullptr;
}

}  // namespace nib::cpu
