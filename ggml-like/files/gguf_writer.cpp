// SPDX-License-Identifier: MIT
// The writer: metadata and tensor table are built in memory and written when the first data comes,
// the data goes straight to the hidden file. A mistake in an add_ call is reported by the next call
// that can fail.
#include "ggml-like/files/atomic_file.h"
#include "ggml-like/files/gguf.h"
#include "ggml-like/files/gguf_parser.h"
#include "ggml-like/files/reader.h"
#include "ggml-like/files/text.h"

#include <bit>
#include <optional>
#include <set>

namespace nib {
namespace {

template <class T>
void append(std::string& out, T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    out.append(bytes, sizeof value);
}

void append_text(std::string& out, std::string_view text) {
    append(out, uint64_t{text.size()});
    out += text;
}

// A scalar as the file has it; `bits` is the widened form of GgufValue.
void append_scalar(std::string& out, GgufType type, uint64_t bits) {
    switch (type) {
    case GgufType::U8:
    case GgufType::I8:
    case GgufType::Bool:
        return append(out, static_cast<uint8_t>(bits));
    case GgufType::U16:
    case GgufType::I16:
        return append(out, static_cast<uint16_t>(bits));
    case GgufType::U32:
    case GgufType::I32:
        return append(out, static_cast<uint32_t>(bits));
    case GgufType::F32:
        return append(out, static_cast<float>(std::bit_cast<double>(bits)));
    default:
        return append(out, bits);
    }
}

}  // namespace

struct GgufWriter::Impl {
    std::unique_ptr<AtomicFile> file;
    uint64_t alignment = 32;
    std::string entries, table;
    uint64_t n_entries = 0;
    std::set<std::string, std::less<>> keys, names;
    std::vector<uint64_t> sizes;  // of the tensors, bytes
    uint64_t data_bytes = 0;      // with padding, of the tensors so far
    bool header_written = false;
    size_t tensor = 0;  // the one that is being written
    uint64_t done = 0;  // bytes of it
    std::optional<Error> fault;

    void fail(const std::string& what) {
        if (!fault) fault = Error{Status::BadRequest, join({printable(file->path()), ": ", what})};
    }

    // Begins an entry; false if the key cannot be written.
    bool begin_entry(std::string_view key, GgufType type) {
        if (header_written) fail("metadata after the first data");
        if (key.empty() || key.size() > GgufLimits::kKeyBytes || !is_utf8(key))
            fail(join({"bad key ", quoted(key)}));
        if (!keys.insert(std::string(key)).second) fail(join({"duplicate key ", quoted(key)}));
        if (fault) return false;
        append_text(entries, key);
        append(entries, static_cast<uint32_t>(type));
        n_entries++;
        return true;
    }

    void add_scalar(std::string_view key, GgufType type, uint64_t bits) {
        if (begin_entry(key, type)) append_scalar(entries, type, bits);
    }

    bool begin_array(std::string_view key, GgufType element, uint64_t count) {
        if (!begin_entry(key, GgufType::Array)) return false;
        append(entries, static_cast<uint32_t>(element));
        append(entries, count);
        return true;
    }

    Result<void> pad(uint64_t bytes) {
        const std::string zeros((alignment - bytes % alignment) % alignment, '\0');
        return file->write(zeros.data(), zeros.size());
    }

    Result<void> write_header() {
        std::string start = "GGUF";
        append(start, uint32_t{3});
        append(start, uint64_t{sizes.size()});
        append(start, n_entries);
        header_written = true;
        for (const std::string* part : {&start, &entries, &table}) {
            NIB_TRY(file->write(part->data(), part->size()));
        }
        return pad(file->bytes());
    }

    Result<void> write_data(const void* bytes, size_t n) {
        if (fault) return *fault;
        if (!header_written) NIB_TRY(write_header());
        if (tensor == sizes.size() || n > sizes[tensor] - done) {
            fail(join({"more data than tensor ", std::to_string(tensor), " has"}));
            return *fault;
        }
        NIB_TRY(file->write(bytes, n));
        done += n;
        if (done < sizes[tensor]) return {};
        done = 0;
        return pad(sizes[tensor++]);
    }
};

GgufWriter::~GgufWriter() = default;

Result<std::unique_ptr<GgufWriter>> GgufWriter::create(const std::string& path,
                                                       uint64_t alignment) {
    if (!std::has_single_bit(alignment) || alignment < GgufLimits::kAlignmentMin ||
        alignment > GgufLimits::kAlignmentMax) {
        return Error{Status::BadRequest,
                     join({printable(path), ": alignment ", std::to_string(alignment),
                           ": must be a power of two in 8..65536"})};
    }
    NIB_ASSIGN(auto file, AtomicFile::create(path));
    std::unique_ptr<GgufWriter> writer(new GgufWriter);
    writer->impl_ = std::make_unique<Impl>();
    writer->impl_->file = std::move(file);
    writer->impl_->alignment = alignment;
    if (alignment != 32) writer->add_u32("general.alignment", static_cast<uint32_t>(alignment));
    return writer;
}

void GgufWriter::add_string(std::string_view key, std::string_view value) {
    if (impl_->begin_entry(key, GgufType::String)) append_text(impl_->entries, value);
}
void GgufWriter::add_u32(std::string_view key, uint32_t value) {
    impl_->add_scalar(key, GgufType::U32, value);
}
void GgufWriter::add_i32(std::string_view key, int32_t value) {
    impl_->add_scalar(key, GgufType::I32, static_cast<uint64_t>(value));
}
void GgufWriter::add_u64(std::string_view key, uint64_t value) {
    impl_->add_scalar(key, GgufType::U64, value);
}
void GgufWriter::add_f32(std::string_view key, float value) {
    impl_->add_scalar(key, GgufType::F32, std::bit_cast<uint64_t>(double{value}));
}
void GgufWriter::add_bool(std::string_view key, bool value) {
    impl_->add_scalar(key, GgufType::Bool, value);
}

void GgufWriter::add_strings(std::string_view key, std::span<const std::string> values) {
    if (!impl_->begin_array(key, GgufType::String, values.size())) return;
    for (const std::string& value : values)
        append_text(impl_->entries, value);
}
void GgufWriter::add_i32s(std::string_view key, std::span<const int32_t> values) {
    if (!impl_->begin_array(key, GgufType::I32, values.size())) return;
    for (const int32_t value : values)
        append(impl_->entries, value);
}
void GgufWriter::add_f32s(std::string_view key, std::span<const float> values) {
    if (!impl_->begin_array(key, GgufType::F32, values.size())) return;
    for (const float value : values)
        append(impl_->entries, value);
}

void GgufWriter::add_copy(std::string_view key, const GgufValue& value) {
    if (key == "general.alignment") return;  // ours was decided by create()
    if (value.type == GgufType::String) return add_string(key, value.text);
    if (value.type != GgufType::Array) return impl_->add_scalar(key, value.type, value.bits);
    if (!impl_->begin_array(key, value.element, value.count)) return;
    for (const std::string_view text : value.strings)
        append_text(impl_->entries, text);
    const uint64_t bytes = value.count * gguf_number_bytes(value.element);
    if (bytes) impl_->entries.append(reinterpret_cast<const char*>(value.data), bytes);
}

void GgufWriter::add_tensor(std::string_view name, Type type, std::span<const uint64_t> ne) {
    Impl& w = *impl_;
    const QuantDef& def = info(type);
    const std::string text = join({"tensor ", quoted(name), ": "});
    if (w.header_written) w.fail(join({text, "added after the first data"}));
    if (name.empty() || name.size() > GgufLimits::kNameBytes || !is_utf8(name))
        w.fail(join({text, "bad name"}));
    if (!w.names.insert(std::string(name)).second) w.fail(join({text, "added twice"}));
    if (ne.empty() || ne.size() > 4 || ne[0] % def.block_elems != 0)
        w.fail(join({text, "bad shape for ", def.name}));
    if (w.fault) return;
    std::optional<uint64_t> bytes = checked_mul(ne[0] / def.block_elems, def.block_bytes);
    for (const uint64_t size : ne.subspan(1)) {
        if (bytes) bytes = checked_mul(*bytes, size);
    }
    const std::optional<uint64_t> padded = bytes ? checked_align(*bytes, w.alignment) : bytes;
    const std::optional<uint64_t> end = padded ? checked_add(w.data_bytes, *padded) : padded;
    if (!end || *bytes == 0) return w.fail(join({text, "size is zero or overflows"}));
    append_text(w.table, name);
    append(w.table, static_cast<uint32_t>(ne.size()));
    for (const uint64_t size : ne)
        append(w.table, size);
    append(w.table, static_cast<uint32_t>(type));
    append(w.table, w.data_bytes);
    w.sizes.push_back(*bytes);
    w.data_bytes = *end;
}

Result<void> GgufWriter::write_data(const void* bytes, size_t n) {
    return impl_->write_data(bytes, n);
}

Result<void> GgufWriter::finish() {
    Impl& w = *impl_;
    if (w.fault) return *w.fault;
    if (!w.header_written) NIB_TRY(w.write_header());
    if (w.tensor != w.sizes.size()) {
        w.fail(join({"data of tensor ", std::to_string(w.tensor), " of ",
                     std::to_string(w.sizes.size()), " is missing"}));
        return *w.fault;
    }
    return w.file->commit();
}

}  // namespace nib
