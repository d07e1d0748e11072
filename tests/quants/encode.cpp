// SPDX-License-Identifier: MIT
// What is encoded: the exact bytes of the reference for the simple formats, small errors for the K
// formats, and nothing that breaks on extreme values.
#include "ggml-like/quant.h"
#include "tests/quants/hex.h"
#include "tests/quants/vectors.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace nib {
namespace {

using test::from_hex;
using test::to_hex;

std::vector<uint8_t> encode(const QuantDef& def, const std::vector<float>& values) {
    std::vector<uint8_t> blocks(row_bytes(def, values.size()));
    def.encode(values.data(), blocks.data(), values.size());
    return blocks;
}

std::vector<float> round_trip(const QuantDef& def, const std::vector<float>& values) {
    std::vector<float> back(values.size());
    def.decode(encode(def, values).data(), back.data(), back.size());
    return back;
}

TEST(Encode, TheReferenceBytes) {
    const std::vector<uint8_t> bytes = from_hex(test::kEncodeValues);
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    for (const test::EncodeVector& vector : test::kEncodeVectors) {
        const QuantDef* def = find_type(std::string_view(vector.type));
        ASSERT_TRUE(def && def->encode) << vector.type;
        EXPECT_EQ(to_hex(encode(*def, values)), vector.blocks) << vector.type;
    }
}

uint64_t hash(const std::vector<uint8_t>& bytes) {
    uint64_t h = 0xcbf29ce484222325;
    for (const uint8_t byte : bytes)
        h = (h ^ byte) * 0x100000001b3;
    return h;
}

// The same with many values, of which the Python package's bytes are kept as their FNV-1a hash.
TEST(Encode, TheReferenceBytesOfManyValues) {
    std::vector<float> values(32 * 512);
    uint32_t state = 12345;
    for (float& v : values) {
        uint32_t sum = 0;
        for (int i = 0; i < 4; i++) {
            state = state * 1664525 + 1013904223;
            sum += state >> 8;
        }
        v = static_cast<float>(static_cast<int32_t>(sum >> 4) - (1 << 21)) * 0x1p-24f;
    }
    EXPECT_EQ(hash(encode(info(Type::Q4_0), values)), 0xa6007fed9c2d682cu);
    EXPECT_EQ(hash(encode(info(Type::Q4_1), values)), 0xde68d2c339f45ba6u);
    EXPECT_EQ(hash(encode(info(Type::Q5_0), values)), 0xdf8e190c44691ae1u);
    EXPECT_EQ(hash(encode(info(Type::Q5_1), values)), 0xc7a0e6535fce37d5u);
    EXPECT_EQ(hash(encode(info(Type::Q8_0), values)), 0x4bd2c9c4af796d48u);
}

TEST(Encode, ARampOfWholeNumbers) {
    std::vector<float> ramp(32);
    for (int i = 0; i < 32; i++)
        ramp[static_cast<size_t>(i)] = static_cast<float>(i - 16);
    EXPECT_EQ(to_hex(encode(info(Type::Q8_0), ramp)),
              "0830818991"
              "99a1a9b1b9c0c8d0d8e0e8f0f800081018202830384047"
              "4f575f676f77");
    EXPECT_EQ(to_hex(encode(info(Type::Q4_0), ramp)),
              "0040"
              "80919"
              "1a2a2b3b3c4c4d5d5e6e6f7f7f8");
    EXPECT_EQ(to_hex(encode(info(Type::Q4_1), ramp)),
              "224000cc"
              "80809191a2a2b3b3c4c4d5d5e6e6f7f7");
}

struct Bound {
    Type type;
    double error;  // root mean square, of Gaussian values with deviation 1
};

TEST(Encode, ErrorsOfGaussianValues) {
    std::mt19937 random(3);
    std::normal_distribution<float> gaussian;
    std::vector<float> values(200 * 256);
    for (float& v : values)
        v = gaussian(random);
    const Bound bounds[] = {{Type::Q4_0, 0.09},   {Type::Q4_1, 0.082},    {Type::Q5_0, 0.045},
                            {Type::Q5_1, 0.040},  {Type::Q8_0, 0.0057},   {Type::Q2_K, 0.268},
                            {Type::Q3_K, 0.1495}, {Type::Q4_K, 0.0708},   {Type::Q5_K, 0.0349},
                            {Type::Q6_K, 0.0177}, {Type::IQ4_NL, 0.0745}, {Type::IQ4_XS, 0.0752},
                            {Type::MXFP4, 0.113}};
    for (const Bound& bound : bounds) {
        const std::vector<float> back = round_trip(info(bound.type), values);
        double error = 0, signal = 0;
        for (size_t i = 0; i < values.size(); i++) {
            error += std::pow(back[i] - values[i], 2);
            signal += std::pow(values[i], 2);
        }
        EXPECT_LT(std::sqrt(error / signal), bound.error) << info(bound.type).name;
    }
}

// A block that the format can hold exactly comes back (nearly) exactly, whatever its layout: this
// finds swapped elements that an average would hide.
TEST(Encode, EveryElementKeepsItsPlace) {
    for (const QuantDef* def : all_types()) {
        if (!def->encode) continue;
        for (size_t peak = 0; peak < 256; peak += 7) {
            std::vector<float> values(256, 0.0f);
            values[peak] = -2.0f;
            const std::vector<float> back = round_trip(*def, values);
            for (size_t i = 0; i < values.size(); i++) {
                EXPECT_NEAR(back[i], values[i], 0.02f)
                    << def->name << " peak " << peak << " at " << i;
            }
        }
    }
}

TEST(Encode, ExtremeValuesStayDefined) {
    const float huge = std::numeric_limits<float>::max();
    const float tiny = std::numeric_limits<float>::denorm_min();
    std::vector<std::vector<float>> rows;
    for (const float v : {0.0f, -0.0f, 1.0f, -1.0f, huge, -huge, tiny, -tiny, 1e-38f, 65504.0f}) {
        rows.emplace_back(256, v);
        rows.emplace_back(256, 0.0f);
        rows.back()[17] = v;
        rows.push_back(rows.back());
        for (size_t i = 0; i < 256; i += 2)
            rows.back()[i] = -v;
    }
    for (const QuantDef* def : all_types()) {
        if (!def->encode) continue;
        for (const std::vector<float>& row : rows) {
            const std::vector<float> back = round_trip(*def, row);
            if (row[17] != huge && row[17] != -huge) {
                for (const float v : back)
                    EXPECT_TRUE(std::isfinite(v)) << def->name;
            }
        }
    }
}

TEST(Encode, ConstantsAndZerosAreKept) {
    for (const QuantDef* def : all_types()) {
        if (!def->encode) continue;
        for (const float v : {0.0f, 0.5f, -0.5f, -3.0f}) {
            for (const float back : round_trip(*def, std::vector<float>(256, v))) {
                EXPECT_NEAR(back, v, 0.02f * std::fabs(v)) << def->name;
            }
        }
    }
}

TEST(Half, EveryHalfComesBack) {
    for (uint32_t half = 0; half < 0x10000; half++) {
        const float value = half_to_float(static_cast<uint16_t>(half));
        if (std::isnan(value)) {
            EXPECT_EQ(half & 0x7c00, 0x7c00u);
            EXPECT_NE(half & 0x03ff, 0u);
            EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
        } else {
            EXPECT_EQ(float_to_half(value), half);
        }
    }
}

TEST(Half, RoundsToTheNearestEven) {
    const auto check = [](uint16_t low) {
        const float a = half_to_float(low), b = half_to_float(static_cast<uint16_t>(low + 1));
        const float middle = static_cast<float>((static_cast<double>(a) + b) / 2);
        EXPECT_EQ(float_to_half(middle), low + (low & 1)) << low;
        EXPECT_EQ(float_to_half(std::nextafter(middle, a)), low) << low;
        EXPECT_EQ(float_to_half(std::nextafter(middle, b)), low + 1) << low;
    };
    for (uint32_t low = 0; low < 0x7bff; low++)
        check(static_cast<uint16_t>(low));
    EXPECT_EQ(float_to_half(65504.0f), 0x7bff);
    EXPECT_EQ(float_to_half(std::nextafter(65520.0f, 0.0f)), 0x7bff);
    EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
    EXPECT_EQ(float_to_half(-1e6f), 0xfc00);
    EXPECT_EQ(float_to_half(6e-8f), 0x0001);
    EXPECT_EQ(float_to_half(2.9e-8f), 0x0000);
    EXPECT_EQ(float_to_half(-0.0f), 0x8000);
}

TEST(Bf16, RoundsToTheNearestEven) {
    const auto rounded = [](uint32_t bits) { return float_to_bf16(std::bit_cast<float>(bits)); };
    EXPECT_EQ(rounded(0x3f808000), 0x3f80);
    EXPECT_EQ(rounded(0x3f818000), 0x3f82);
    EXPECT_EQ(rounded(0x3f808001), 0x3f81);
    EXPECT_EQ(rounded(0x7f7fffff), 0x7f80);
    EXPECT_EQ(rounded(0x80000001), 0x8000);
    EXPECT_EQ(rounded(0x7f800000), 0x7f80);
    EXPECT_EQ(rounded(0x7f800001), 0x7fc0) << "not a number stays so";
    EXPECT_EQ(rounded(0xffffffff), 0xffff);
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        const float value = bf16_to_float(static_cast<uint16_t>(bits));
        if (!std::isnan(value)) {
            EXPECT_EQ(float_to_bf16(value), bits);
        }
    }
}

}  // namespace
}  // namespace nib
