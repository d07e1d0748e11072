// SPDX-License-Identifier: MIT
// Every type decodes to exactly the bits of the reference, the list of types is complete and
// consistent, and no bit pattern of a block is a problem.
#include "ggml-like/quant.h"
#include "tests/quants/hex.h"
#include "tests/quants/vectors.h"

#include <cctype>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace nib {
namespace {

using test::from_hex;

std::vector<float> decode(const QuantDef& def, const std::vector<uint8_t>& blocks) {
    std::vector<float> values(blocks.size() / def.block_bytes * def.block_elems);
    def.decode(blocks.data(), values.data(), values.size());
    return values;
}

std::vector<uint8_t> with_half(std::vector<uint8_t> block, size_t at, float value) {
    const uint16_t half = float_to_half(value);
    block[at] = static_cast<uint8_t>(half);
    block[at + 1] = static_cast<uint8_t>(half >> 8);
    return block;
}

class DecodeVectors : public testing::TestWithParam<test::DecodeVector> {};

TEST_P(DecodeVectors, EqualTheReference) {
    const QuantDef* def = find_type(std::string_view(GetParam().type));
    ASSERT_TRUE(def);
    const std::vector<uint8_t> blocks = from_hex(GetParam().blocks);
    const std::vector<uint8_t> expected = from_hex(GetParam().values);
    const std::vector<float> values = decode(*def, blocks);
    ASSERT_EQ(values.size() * 4, expected.size());
    for (size_t i = 0; i < values.size(); i++) {
        uint32_t got = 0, want = 0;
        std::memcpy(&got, &values[i], 4);
        std::memcpy(&want, &expected[4 * i], 4);
        ASSERT_EQ(got, want) << def->name << " element " << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Types,
                         DecodeVectors,
                         testing::ValuesIn(test::kDecodeVectors),
                         [](const auto& each) { return std::string(each.param.type); });

TEST(Decode, HandMadeBlocks) {
    // q1_0: bit e of the bytes decides the sign.
    std::vector<uint8_t> q1 = with_half(std::vector<uint8_t>(18, 0), 0, 1.5f);
    q1[2] = 0b101;
    q1[17] = 0x80;
    const std::vector<float> bits = decode(info(Type::Q1_0), q1);
    for (size_t e = 0; e < 128; e++) {
        EXPECT_EQ(bits[e], e == 0 || e == 2 || e == 127 ? 1.5f : -1.5f) << e;
    }
    // q2_0: four numbers per byte, low bits first, 1 is zero.
    std::vector<uint8_t> q2 = with_half(std::vector<uint8_t>(18, 0b11100100), 0, 0.5f);
    const std::vector<float> quarters = decode(info(Type::Q2_0), q2);
    for (size_t e = 0; e < 64; e++) {
        EXPECT_EQ(quarters[e], 0.5f * static_cast<float>(static_cast<int>(e % 4) - 1)) << e;
    }
    // q8_1: the sum at byte 2 is no part of the values.
    std::vector<uint8_t> q81 = with_half(with_half(std::vector<uint8_t>(36, 0), 0, 0.25f), 2, 99);
    q81[4] = 127, q81[35] = 0x80;
    const std::vector<float> bytes = decode(info(Type::Q8_1), q81);
    EXPECT_EQ(bytes[0], 31.75f);
    EXPECT_EQ(bytes[1], 0.0f);
    EXPECT_EQ(bytes[31], -32.0f);
    // q8_k: the scale is a float.
    std::vector<uint8_t> q8k(292, 0);
    const float scale = 0.1f;
    std::memcpy(q8k.data(), &scale, 4);
    q8k[4] = 3, q8k[259] = 0xff;
    const std::vector<float> wide = decode(info(Type::Q8_K), q8k);
    EXPECT_EQ(wide[0], scale * 3);
    EXPECT_EQ(wide[255], -scale);
}

template <class T>
std::vector<float> decode_plain(Type type, const std::vector<T>& values) {
    std::vector<uint8_t> bytes(values.size() * sizeof(T) + 1);
    std::memcpy(bytes.data() + 1, values.data(), bytes.size() - 1);  // unaligned, as in a file
    std::vector<float> out(values.size());
    info(type).decode(bytes.data() + 1, out.data(), out.size());
    return out;
}

TEST(Decode, PlainNumbers) {
    using Floats = std::vector<float>;
    EXPECT_EQ(decode_plain<int8_t>(Type::I8, {-128, 0, 127}), (Floats{-128, 0, 127}));
    EXPECT_EQ(decode_plain<int16_t>(Type::I16, {-32768, 32767}), (Floats{-32768, 32767}));
    EXPECT_EQ(decode_plain<int32_t>(Type::I32, {-5, 16777217}), (Floats{-5, 16777216}));
    EXPECT_EQ(decode_plain<int64_t>(Type::I64, {-5, int64_t{1} << 40}), (Floats{-5, 0x1p40f}));
    EXPECT_EQ(decode_plain<float>(Type::F32, {0.1f, -2}), (Floats{0.1f, -2}));
    const float inf = std::numeric_limits<float>::infinity();
    EXPECT_EQ(decode_plain<double>(Type::F64, {0.5, 1e300, -1e300, 0x1.ffffffp127, 0x1.fffffep127}),
              (Floats{0.5f, inf, -inf, inf, 0x1.fffffep127f}));
}

class AllTypes : public testing::TestWithParam<const QuantDef*> {};

TEST_P(AllTypes, AnyBitsDecode) {
    const QuantDef& def = *GetParam();
    std::mt19937 random(7);
    std::vector<uint8_t> blocks(def.block_bytes * 200);
    for (uint8_t& byte : blocks)
        byte = static_cast<uint8_t>(random());
    std::vector<float> values(200 * def.block_elems + 1, 42.0f);
    def.decode(blocks.data(), values.data(), values.size() - 1);
    EXPECT_EQ(values.back(), 42.0f) << "wrote behind the end";
    for (const uint8_t fill : {0x00, 0xff, 0x7f, 0x80}) {
        std::fill(blocks.begin(), blocks.end(), fill);
        def.decode(blocks.data(), values.data(), values.size() - 1);
    }
    def.decode(blocks.data(), values.data(), 0);
}

TEST_P(AllTypes, IsFoundByIdAndName) {
    const QuantDef* def = GetParam();
    EXPECT_EQ(find_type(static_cast<uint32_t>(def->type)), def);
    EXPECT_EQ(find_type(std::string_view(def->name)), def);
    std::string upper = def->name;
    for (char& c : upper)
        c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    EXPECT_EQ(find_type(std::string_view(upper)), def);
    EXPECT_GT(def->block_elems, 0u);
    EXPECT_GT(def->block_bytes, 0u);
    EXPECT_TRUE(def->decode);
}

INSTANTIATE_TEST_SUITE_P(Types,
                         AllTypes,
                         testing::ValuesIn(all_types().begin(), all_types().end()),
                         [](const auto& each) { return std::string(each.param->name); });

TEST(Types, AreAllThere) {
    std::set<uint32_t> ids;
    for (const QuantDef* def : all_types())
        ids.insert(static_cast<uint32_t>(def->type));
    const std::set<uint32_t> expected = {0,  1,  2,  3,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                         20, 23, 24, 25, 26, 27, 28, 30, 34, 35, 39, 40, 41, 42};
    EXPECT_EQ(ids, expected);
}

TEST(Types, UnknownOnesAreNotFound) {
    for (const uint32_t id :
         {4u, 5u, 16u, 31u, 32u, 33u, 36u, 37u, 38u, 43u, 63u, 64u, 9999u, 0xffffffffu}) {
        EXPECT_EQ(find_type(id), nullptr) << id;
    }
    for (const std::string_view name : {"", "q4", "q4_k ", "q9_k", "f3"}) {
        EXPECT_EQ(find_type(name), nullptr) << name;
    }
}

TEST(Types, RowBytes) {
    EXPECT_EQ(row_bytes(info(Type::Q4_K), 512), 288u);
    EXPECT_EQ(row_bytes(info(Type::F16), 5), 10u);
    EXPECT_EQ(row_bytes(info(Type::Q8_0), 0), 0u);
}

}  // namespace
}  // namespace nib
