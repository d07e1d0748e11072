// SPDX-License-Identifier: MIT
// The types whose blocks hold 256 values in eight sub-blocks of 32. In the file sub-blocks share
// bytes; in the panel each has vectors of its own (panels.h), which look the same in all types.
#include "backends/cpu/pack_blocks.h"
#include "backends/cpu/pack_words.h"

namespace nib::cpu {

namespace {

// Planes of six-bit numbers a and b of 8 sub-blocks: low bits a | b << 4, high bits of sub-blocks
// 2c and 2c + 1 in one byte. a[0], b[0]: sub-blocks 0..3, one byte each; a[1], b[1]: 4..7.
void store_six_bits(
    uint8_t* low, uint8_t* high, const FourRows& rows, const Words* a, const Words* b) {
    for (int i = 0; i < 2; i++) {
        store_byte_planes(low + i * 4 * kPanelRows, rows, (a[i] & kLow4) | (b[i] & kLow4) << 4);
        // Two bits of a and of b in every byte, then bytes 2c and 2c + 1 together.
        const Words bits = (a[i] >> 4 & kLow2) | (b[i] >> 4 & kLow2) << 2;
        const Words pairs = bits | bits >> 4;
        for (int r = 0; r < 4; r++) {
            for (int c = 0; c < 2; c++) {
                high[(2 * i + c) * kPanelRows + rows.lane + r] =
                    static_cast<uint8_t>(pairs[r] >> 16 * c);
            }
        }
    }
}
struct SixBits {
    int a, b;
};
SixBits load_six_bits(const uint8_t* low, const uint8_t* high, int lane, int s) {
    const int l = low[s * kPanelRows + lane];
    const int h = high[s / 2 * kPanelRows + lane] >> s % 2 * 4;
    return {(l & 15) | (h & 3) << 4, l >> 4 | (h >> 2 & 3) << 4};
}

// Two-bit numbers: in the file sub-block s = 4n + r has bits 2r of 32 bytes per n. vectors(s) is
// where the two vectors of s stand.
template <class F>
void store_two_bits(const FourRows& rows, int at, F vectors) {
    for (int n = 0; n < 2; n++) {
        Words words[8];
        load_words<8>(rows, at + 32 * n, words);
        for (int h = 0; h < 2; h++) {
            transpose_fields(words + 4 * h);
            for (int r = 0; r < 4; r++)
                store_words(vectors(4 * n + r), h, rows, words[4 * h + r]);
        }
    }
}
template <class F>
void load_two_bits(int lane, uint8_t* dst, F vectors) {
    for (int n = 0; n < 2; n++) {
        for (int h = 0; h < 2; h++) {
            uint32_t words[4];
            for (int r = 0; r < 4; r++)
                words[r] = lane_word(vectors(4 * n + r), h, lane);
            transpose_fields(words);
            for (int i = 0; i < 4; i++)
                put_word(dst + 32 * n, 4 * h + i, words[i]);
        }
    }
}

// Single bits: in the file sub-block s has bit s of 32 bytes. vector(s) is where its vector stands.
template <class F>
void store_bits(const FourRows& rows, int at, F vector) {
    Words words[8];
    load_words<8>(rows, at, words);
    transpose_bits(words);
    for (int s = 0; s < 8; s++)
        store_words(vector(s), 0, rows, words[s]);
}
template <class F>
void load_bits(int lane, uint8_t* dst, F vector) {
    uint32_t words[8];
    for (int s = 0; s < 8; s++)
        words[s] = lane_word(vector(s), 0, lane);
    transpose_bits(words);
    for (int i = 0; i < 8; i++)
        put_word(dst, i, words[i]);
}

// Nibbles of two sub-blocks that are the low and the high halves of 32 bytes in the file.
void store_nibbles(const FourRows& rows, int at, uint8_t* of_low, uint8_t* of_high) {
    Words words[8];
    load_words<8>(rows, at, words);
    for (int i = 0; i < 4; i++) {
        store_words(of_low, i, rows, (words[i] & kLow4) | (words[i + 4] & kLow4) << 4);
        store_words(of_high, i, rows, (words[i] >> 4 & kLow4) | (words[i + 4] & kHigh4));
    }
}
void load_nibbles(const uint8_t* of_low, const uint8_t* of_high, int lane, uint8_t* dst) {
    for (int i = 0; i < 4; i++) {
        const uint32_t low = lane_word(of_low, i, lane), high = lane_word(of_high, i, lane);
        put_word(dst, i, (low & kLow4) | (high & kLow4) << 4);
        put_word(dst, i + 4, (low >> 4 & kLow4) | (high & kHigh4));
    }
}

// Q4_K and Q5_K: sub-blocks 2c and 2c + 1 share 32 bytes of nibbles. Sub-block s has six bits of
// scale and minimum in 12 bytes: s < 4 in the low bits of bytes s and s + 4; the others in the
// nibbles of byte s + 4 and the high two bits of bytes s - 4 and s.
template <bool kBits>
struct NibbleBlocks {
    static constexpr size_t kPart = kBits ? kNibblesBit : kNibbles;
    static constexpr size_t kRecord = kScalesEnd + 8 * kPart;
    static constexpr int kNibblesAt = kBits ? 48 : 16;

    static void put(const FourRows& rows, int, int block, uint8_t* panel) {
        uint8_t* record = panel + size_t(block) * kRecord;
        store_halves(record, rows, 0);
        store_halves(record + 32, rows, 2);
        const Words x = load_word(rows, 4), y = load_word(rows, 8), z = load_word(rows, 12);
        const Words scale[2] = {x, (z & kLow4) | (x >> 6 & kLow2) << 4};
        const Words min[2] = {y, (z >> 4 & kLow4) | (y >> 6 & kLow2) << 4};
        store_six_bits(record + kScalesLow, record + kScalesHigh, rows, scale, min);
        uint8_t* parts = record + kScalesEnd;
        for (size_t c = 0; c < 4; c++) {
            store_nibbles(rows, kNibblesAt + static_cast<int>(c) * 32, parts + 2 * c * kPart,
                          parts + (2 * c + 1) * kPart);
        }
        if constexpr (kBits) {
            store_bits(rows, 16, [&](int s) { return parts + size_t(s) * kPart + kNibbles; });
        }
    }
    static void get(const uint8_t* panel, int, int block, int lane, uint8_t* dst) {
        const uint8_t* record = panel + size_t(block) * kRecord;
        copy_half(dst, record + lane * 2);
        copy_half(dst + 2, record + 32 + lane * 2);
        SixBits v[8];
        for (int s = 0; s < 8; s++)
            v[s] = load_six_bits(record + kScalesLow, record + kScalesHigh, lane, s);
        for (int s = 0; s < 4; s++) {
            dst[4 + s] = static_cast<uint8_t>(v[s].a | v[s + 4].a >> 4 << 6);
            dst[8 + s] = static_cast<uint8_t>(v[s].b | v[s + 4].b >> 4 << 6);
            dst[12 + s] = static_cast<uint8_t>((v[s + 4].a & 15) | (v[s + 4].b & 15) << 4);
        }
        const uint8_t* parts = record + kScalesEnd;
        for (size_t c = 0; c < 4; c++) {
            load_nibbles(parts + 2 * c * kPart, parts + (2 * c + 1) * kPart, lane,
                         dst + kNibblesAt + c * 32);
        }
        if constexpr (kBits) {
            load_bits(lane, dst + 16, [&](int s) { return parts + size_t(s) * kPart + kNibbles; });
        }
    }
};
static_assert(NibbleBlocks<false>::kRecord == kQ4KRecord &&
              NibbleBlocks<true>::kRecord == kQ5KRecord);

// Q2_K: scale and minimum are the nibbles of a byte, as in the file.
struct Q2K {
    static void put(const FourRows& rows, int, int block, uint8_t* panel) {
        uint8_t* record = panel + size_t(block) * kQ2Record;
        store_halves(record, rows, 80);
        store_halves(record + 32, rows, 82);
        for (int i = 0; i < 16; i += 4) {
            store_byte_planes(record + kQ2Scales + i * kPanelRows, rows, load_word(rows, i));
        }
        store_two_bits(rows, 16, [&](int s) { return record + kQ2Parts + size_t(s) * kQ2Block; });
    }
    static void get(const uint8_t* panel, int, int block, int lane, uint8_t* dst) {
        const uint8_t* record = panel + size_t(block) * kQ2Record;
        copy_half(dst + 80, record + lane * 2);
        copy_half(dst + 82, record + 32 + lane * 2);
        for (int s = 0; s < 16; s++)
            dst[s] = record[kQ2Scales + size_t(s * kPanelRows + lane)];
        load_two_bits(lane, dst + 16,
                      [&](int s) { return record + kQ2Parts + size_t(s) * kQ2Block; });
    }
};

// Q3_K. Six-bit scale i of 16: low bits in byte i % 8 of 8 (low or high nibble by i / 8), high bits
// at bits 2 (i / 4) of byte i % 4 of 4.
struct Q3K {
    static void put(const FourRows& rows, int k, int block, uint8_t* panel) {
        store_halves(panel + size_t(block) * kSuperHead, rows, 108);
        uint8_t* record = panel + head_bytes(k, 256, kSuperHead) + size_t(block) * kQ3Record;
        const Words x = load_word(rows, 96), y = load_word(rows, 100), z = load_word(rows, 104);
        // Scales 4w .. 4w + 3 in the bytes of word w; then even and odd scales apart.
        const Words scale[4] = {(x & kLow4) | (z & kLow2) << 4, (y & kLow4) | (z >> 2 & kLow2) << 4,
                                (x >> 4 & kLow4) | (z >> 4 & kLow2) << 4,
                                (y >> 4 & kLow4) | (z >> 6 & kLow2) << 4};
        Words even[2], odd[2];
        for (int i = 0; i < 2; i++) {
            even[i] = even_bytes(scale[2 * i]) | even_bytes(scale[2 * i + 1]) << 16;
            odd[i] = even_bytes(scale[2 * i] >> 8) | even_bytes(scale[2 * i + 1] >> 8) << 16;
        }
        store_six_bits(record, record + kQ3ScalesHigh, rows, even, odd);
        const auto part = [&](int s) { return record + kQ3Parts + size_t(s) * kQ3Block; };
        store_two_bits(rows, 32, part);
        store_bits(rows, 0, [&](int s) { return part(s) + 2 * kVector; });
    }
    static void get(const uint8_t* panel, int k, int block, int lane, uint8_t* dst) {
        copy_half(dst + 108, panel + size_t(block) * kSuperHead + lane * 2);
        const uint8_t* record = panel + head_bytes(k, 256, kSuperHead) + size_t(block) * kQ3Record;
        std::memset(dst + 96, 0, 12);
        for (int i = 0; i < 16; i++) {
            const SixBits pair = load_six_bits(record, record + kQ3ScalesHigh, lane, i / 2);
            const int scale = i % 2 == 0 ? pair.a : pair.b;
            dst[96 + i % 8] = static_cast<uint8_t>(dst[96 + i % 8] | (scale & 15) << i / 8 * 4);
            dst[104 + i % 4] = static_cast<uint8_t>(dst[104 + i % 4] | scale >> 4 << i / 4 * 2);
        }
        const auto part = [&](int s) { return record + kQ3Parts + size_t(s) * kQ3Block; };
        load_two_bits(lane, dst + 32, part);
        load_bits(lane, dst, [&](int s) { return part(s) + 2 * kVector; });
    }

  private:
    // Bytes 0 and 2 as the low two bytes.
    static Words even_bytes(Words w) { return (w & 0xff) | (w >> 8 & 0xff00); }
};

// Q6_K. In the file sub-blocks 4n + r and 4n + r + 2 (r < 2) share 32 bytes of low nibbles, and
// the high bits of all are two-bit numbers.
struct Q6K {
    static void put(const FourRows& rows, int k, int block, uint8_t* panel) {
        store_halves(panel + size_t(block) * kSuperHead, rows, 208);
        uint8_t* record = panel + head_bytes(k, 256, kSuperHead) + size_t(block) * kQ6Record;
        for (int i = 0; i < 16; i += 4)
            store_byte_planes(record + i * kPanelRows, rows, load_word(rows, 192 + i));
        const auto part = [&](int s) { return record + kScalesEnd + size_t(s) * kQ6Block; };
        for (int i = 0; i < 4; i++) {
            const int s = i / 2 * 4 + i % 2;
            store_nibbles(rows, 32 * i, part(s), part(s + 2));
        }
        store_two_bits(rows, 128, [&](int s) { return part(s) + kNibbles; });
    }
    static void get(const uint8_t* panel, int k, int block, int lane, uint8_t* dst) {
        copy_half(dst + 208, panel + size_t(block) * kSuperHead + lane * 2);
        const uint8_t* record = panel + head_bytes(k, 256, kSuperHead) + size_t(block) * kQ6Record;
        for (int s = 0; s < 16; s++)
            dst[192 + s] = record[s * kPanelRows + lane];
        const auto part = [&](int s) { return record + kScalesEnd + size_t(s) * kQ6Block; };
        for (int i = 0; i < 4; i++) {
            const int s = i / 2 * 4 + i % 2;
            load_nibbles(part(s), part(s + 2), lane, dst + 32 * i);
        }
        load_two_bits(lane, dst + 128, [&](int s) { return part(s) + kNibbles; });
    }
};

// IQ4_XS: everything is in the order of the panel already.
struct Iq4Xs {
    static void put(const FourRows& rows, int, int block, uint8_t* panel) {
        uint8_t* record = panel + size_t(block) * kIq4XsRecord;
        store_halves(record, rows, 0);
        store_byte_planes(record + kIq4ScalesLow, rows, load_word(rows, 4));
        for (int i = 0; i < 2; i++)
            store_bytes(record + kIq4ScalesHigh + i * kPanelRows, rows, 2 + i);
        Words words[32];
        load_words<32>(rows, 8, words);
        for (int i = 0; i < 32; i++)
            store_words(record + kIq4Parts, i, rows, words[i]);
    }
    static void get(const uint8_t* panel, int, int block, int lane, uint8_t* dst) {
        const uint8_t* record = panel + size_t(block) * kIq4XsRecord;
        copy_half(dst, record + lane * 2);
        for (int i = 0; i < 2; i++)
            dst[2 + i] = record[kIq4ScalesHigh + size_t(i * kPanelRows + lane)];
        for (int i = 0; i < 4; i++)
            dst[4 + i] = record[kIq4ScalesLow + size_t(i * kPanelRows + lane)];
        for (int i = 0; i < 32; i++)
            put_word(dst + 8, i, lane_word(record + kIq4Parts, i, lane));
    }
};

constexpr PanelType kSuperTypes[] = {
    {Type::Q2_K, 256, kQ2Record, 0, put_rows<Q2K>, Q2K::get},
    {Type::Q3_K, 256, kQ3Record, kSuperHead, put_rows<Q3K>, Q3K::get},
    {Type::Q4_K, 256, kQ4KRecord, 0, put_rows<NibbleBlocks<false>>, NibbleBlocks<false>::get},
    {Type::Q5_K, 256, kQ5KRecord, 0, put_rows<NibbleBlocks<true>>, NibbleBlocks<true>::get},
    {Type::Q6_K, 256, kQ6Record, kSuperHead, put_rows<Q6K>, Q6K::get},
    {Type::IQ4_XS, 256, kIq4XsRecord, 0, put_rows<Iq4Xs>, Iq4Xs::get},
};

}  // namespace

std::span<const PanelType> super_panel_types() {
    return kSuperTypes;
}

}  // namespace nib::cpu
