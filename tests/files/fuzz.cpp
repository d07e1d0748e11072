// SPDX-License-Identifier: MIT
// Damaged files, thousands of them, from a fixed seed: opening either works or says why not; all
// that an opened file points to lies inside its mapping and can be read.
#include "ggml-like/files/gguf_parser.h"
#include "ggml-like/files/safetensors.h"
#include "tests/files/tiny.h"

#include <random>

#include <sys/mman.h>
#include <unistd.h>

namespace nib {
namespace {

using test::GgufBytes;

// A file without a disk: writing tens of thousands of small real files takes minutes on some
// systems.
class MemoryFile {
  public:
    MemoryFile() : fd_(memfd_create("fuzz", MFD_CLOEXEC)) { EXPECT_GE(fd_, 0); }
    ~MemoryFile() { close(fd_); }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;
    std::string path() const {
        return test::numbered("/proc/self/fd/", static_cast<uint64_t>(fd_));
    }
    void set(const std::string& bytes) const {
        ASSERT_EQ(ftruncate(fd_, 0), 0);
        ASSERT_EQ(pwrite(fd_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    }

  private:
    int fd_;
};

// Small numbers, powers of two and their neighbours, and anything: what breaks parsers.
uint64_t nasty(std::mt19937_64& random) {
    switch (random() % 4) {
    case 0:
        return random() % 70;
    case 1:
        return (uint64_t{1} << random() % 64) - random() % 3;
    case 2:
        return ~uint64_t{0} - random() % 40;
    default:
        return random();
    }
}

std::string damaged(std::string bytes, std::mt19937_64& random) {
    const int edits = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < edits && !bytes.empty(); i++) {
        const size_t at = random() % bytes.size();
        switch (random() % 5) {
        case 0:
            bytes[at] = static_cast<char>(random());
            break;
        case 1:
            bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
            break;
        case 2:
            bytes.resize(at);
            break;
        case 3:
            bytes.erase(at, 1 + random() % 8);
            break;
        default:
            for (size_t b = 0, v = nasty(random); b < 8 && at + b < bytes.size(); b++, v >>= 8) {
                bytes[at + b] = static_cast<char>(v);
            }
        }
    }
    return bytes;
}

GgufBytes rich_gguf() {
    GgufBytes file = test::tiny_gguf();
    file.add_f32("f", 1)
        .add_bool("b", true)
        .add_strings("s", {"ab", "", "c"})
        .add_i32s("i", {1, 2, 3});
    file.add_u32("general.alignment", 32).tensor("q", {32, 2}, 2, 64);
    file.data += std::string(36, '\x33');
    return file;
}

void expect_inside(const MappedFile& map, const void* start, uint64_t bytes) {
    if (bytes == 0) return;
    const auto* first = static_cast<const uint8_t*>(start);
    ASSERT_TRUE(map.contains(first) && bytes <= map.size());
    ASSERT_TRUE(map.contains(first + bytes - 1));
}

void expect_inside(const std::string& path) {
    const auto map = MappedFile::open(path);
    ASSERT_TRUE(map.ok());
    GgufShardParser parsed(path, **map, 0);
    ASSERT_TRUE(parsed.parse().ok());
    for (const GgufFile::Entry& entry : parsed.entries) {
        const GgufValue& value = entry.value;
        expect_inside(**map, entry.key.data(), entry.key.size());
        expect_inside(**map, value.text.data(), value.text.size());
        for (const std::string_view text : value.strings) {
            expect_inside(**map, text.data(), text.size());
        }
        if (value.type == GgufType::Array && value.element != GgufType::String) {
            expect_inside(**map, value.data, value.count * gguf_number_bytes(value.element));
        }
    }
    for (const GgufTensor& tensor : parsed.tensors) {
        expect_inside(**map, tensor.name.data(), tensor.name.size());
        expect_inside(**map, tensor.data, tensor.bytes);
    }
}

void read_everything(const GgufFile& file) {
    volatile double total = 0;  // so that the reads happen
    for (const GgufFile::Entry& entry : file.entries()) {
        const GgufValue& value = entry.value;
        total = total + value.number().value_or(0) + static_cast<double>(value.text.size());
        const uint64_t n = value.type == GgufType::Array ? value.count : 0;
        for (uint64_t i = 0; i < n; i++) {
            total = total + value.number_at(i) + static_cast<double>(value.integer_at(i));
        }
        for (const std::string_view text : value.strings) {
            for (const char c : text)
                total = total + c;
        }
        ASSERT_EQ(file.find(entry.key), &value);
    }
    for (const GgufTensor& tensor : file.tensors()) {
        ASSERT_LT(tensor.elements(), 1000u);
        std::vector<float> values(tensor.elements());
        tensor.def->decode(tensor.data, values.data(), values.size());
        ASSERT_EQ(file.find_tensor(tensor.name), &tensor);
    }
}

template <class Open, class Read>
void expect_calm(const std::string& path, Open open, Read read) {
    const auto opened = open(path);
    if (opened.ok()) {
        read(**opened);
    } else {
        ASSERT_NE(opened.error().message, "");
        ASSERT_EQ(opened.error().message.find('\n'), std::string::npos);
    }
    ASSERT_LT(test::largest_allocation(), size_t{1} << 20);
}

const auto open_gguf = [](const std::string& path) { return GgufFile::open(path); };

TEST(Fuzz, GgufCutAtEveryLength) {
    const MemoryFile file;
    const std::string path = file.path(), whole = rich_gguf().bytes();
    file.set(whole);
    ASSERT_TRUE(GgufFile::open(path).ok()) << GgufFile::open(path).error().message;
    for (size_t n = 0; n < whole.size(); n++) {
        file.set(whole.substr(0, n));
        ASSERT_FALSE(GgufFile::open(path).ok()) << n;
    }
}

TEST(Fuzz, DamagedGguf) {
    const MemoryFile file;
    const std::string path = file.path(), whole = rich_gguf().bytes();
    std::mt19937_64 random(12);
    test::reset_largest_allocation();
    for (int i = 0; i < 20000; i++) {
        file.set(damaged(whole, random));
        expect_calm(path, open_gguf, [&](const GgufFile& opened) {
            expect_inside(path);
            read_everything(opened);
        });
        if (HasFatalFailure()) {
            FAIL() << "iteration " << i;
        }
    }
}

TEST(Fuzz, DamagedSafetensors) {
    const MemoryFile memory;
    const std::string path = memory.path();
    std::string header = R"({"__metadata__":{"format":"pt"},)"
                         R"("a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                         R"("b\u00e9":{"dtype":"BF16","shape":[],"data_offsets":[16,18]}})";
    const std::string whole = GgufBytes::u64(header.size()) + header + std::string(18, '\1');
    memory.set(whole);
    const auto open = [](const std::string& p) { return SafetensorsFile::open(p); };
    ASSERT_TRUE(open(path).ok()) << open(path).error().message;
    std::mt19937_64 random(13);
    test::reset_largest_allocation();
    for (int i = 0; i < 10000; i++) {
        memory.set(damaged(whole, random));
        expect_calm(path, open, [](const SafetensorsFile& file) {
            uint64_t total = 0;
            for (const SafetensorsTensor& tensor : file.tensors()) {
                for (const uint8_t byte : tensor.data)
                    total += byte;
            }
            ASSERT_LT(total, uint64_t{18 * 255});
        });
        if (HasFatalFailure()) {
            FAIL() << "iteration " << i;
        }
    }
}

}  // namespace
}  // namespace nib
