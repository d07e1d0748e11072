// SPDX-License-Identifier: MIT
// How byte-level vocabularies spell bytes: the printable bytes of Latin-1 stand for themselves, the
// other 68 take the characters from U+0100 on, in their order. Every byte is one visible character.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace nib {

struct ByteAlphabet {
    static constexpr uint32_t kCodes = 0x144;  // all characters of the alphabet are below

    std::array<uint16_t, 256> code{};    // of a byte
    std::array<int16_t, kCodes> byte{};  // of a character, -1 if it stands for none

    constexpr ByteAlphabet() {
        byte.fill(-1);
        uint16_t next = 0x100;
        for (int b = 0; b < 256; ++b) {
            const bool printable =
                (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
            code[static_cast<size_t>(b)] = printable ? static_cast<uint16_t>(b) : next++;
            byte[code[static_cast<size_t>(b)]] = static_cast<int16_t>(b);
        }
    }
};

inline constexpr ByteAlphabet kByteAlphabet;

}  // namespace nib
