// SPDX-License-Identifier: MIT
#include "src/quantize/quantize.h"

#include "ggml-like/files/text.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <limits>
#include <system_error>
#include <thread>

namespace nib {
namespace {

// A multiple of every block size. 1 MiB as floats: larger pieces save nothing, smaller ones make
// more threads wait for each other.
constexpr uint64_t kPieceValues = uint64_t{1} << 18;
constexpr int kThreadsMax = 128;
constexpr size_t kPiecesPerThread = 2;

// No type has a problem with values up to here (half precision ends at 65504).
constexpr float kSafeSize = 32768;

// Values of one tensor on their way: `first` is their index in it.
struct Piece {
    uint64_t first = 0;
    size_t n = 0;
    std::vector<uint8_t> blocks;
    // The first value that cannot be stored, if any.
    bool bad = false;
    uint64_t bad_index = 0;
    float bad_value = 0;
};

// The index of the first value that is not finite, or n. The loop without an exit is vectorized.
size_t first_not_finite(const float* values, size_t n) {
    bool all = true;
    for (size_t i = 0; i < n; i++)
        all &= std::fabs(values[i]) <= std::numeric_limits<float>::max();
    if (all) return n;
    return static_cast<size_t>(
        std::find_if(values, values + n, [](float v) { return !std::isfinite(v); }) - values);
}

// The index of the first large value that its new type does not hold, or n. `values` is
// overwritten by what the blocks decode to.
size_t first_too_large(const QuantDef& def, const uint8_t* blocks, float* values, size_t n) {
    const std::vector<float> wanted(values, values + n);
    def.decode(blocks, values, n);
    for (size_t i = 0; i < n; i++) {
        if (!std::isfinite(values[i])) return i;
        const bool large = std::fabs(wanted[i]) > kSafeSize;
        if (large && std::fabs(values[i]) < std::fabs(wanted[i]) / 2) {
            // A small neighbour of a huge value may vanish; the largest of a block may not.
            const size_t start = i / def.block_elems * def.block_elems;
            const size_t end = std::min<size_t>(start + def.block_elems, n);
            float largest = 0;
            for (size_t k = start; k < end; k++)
                largest = std::max(largest, std::fabs(wanted[k]));
            if (std::fabs(wanted[i]) == largest) return i;
        }
    }
    return n;
}

void convert_piece(const TensorPlan& plan, Piece& piece, std::vector<float>& values) {
    const QuantDef& from = *plan.source->def;
    const QuantDef& to = *plan.def;
    values.resize(piece.n);
    from.decode(plan.source->data + row_bytes(from, piece.first), values.data(), piece.n);
    size_t bad = first_not_finite(values.data(), piece.n);
    float bad_value = bad < piece.n ? values[bad] : 0;
    if (bad == piece.n) {
        piece.blocks.resize(row_bytes(to, piece.n));
        float largest = 0;
        for (const float v : values)
            largest = std::max(largest, std::fabs(v));
        to.encode(values.data(), piece.blocks.data(), piece.n);
        if (largest > kSafeSize) {
            bad = first_too_large(to, piece.blocks.data(), values.data(), piece.n);
            bad_value = largest;
        }
    }
    piece.bad = bad < piece.n;
    piece.bad_index = piece.first + bad;
    piece.bad_value = bad_value;
}

class Converter {
  public:
    Converter(const GgufFile& file, const QuantPlan& plan, const QuantizeOptions& options)
        : file_(file), plan_(plan), options_(options) {
        scratch_.resize(static_cast<size_t>(std::clamp(options.threads, 1, kThreadsMax)));
        pieces_.resize(scratch_.size() * kPiecesPerThread);
    }

    Result<void> write(GgufWriter& writer) {
        for (const TensorPlan& tensor : plan_.tensors)
            NIB_TRY(tensor.copied() ? copy(tensor, writer) : convert(tensor, writer));
        return {};
    }

  private:
    Result<void> report(uint64_t bytes) {
        written_ += bytes;
        if (file_.changed()) return file_.bad("changed while it was read");
        if (!options_.progress) return {};
        const double share = static_cast<double>(written_) /
                             static_cast<double>(std::max<uint64_t>(plan_.bytes_out, 1));
        if (options_.progress(share)) return {};
        return Error{Status::Cancelled, "cancelled"};
    }

    Result<void> copy(const TensorPlan& tensor, GgufWriter& writer) {
        constexpr uint64_t kCopyBytes = uint64_t{4} << 20;
        for (uint64_t done = 0; done < tensor.bytes;) {
            const uint64_t n = std::min(kCopyBytes, tensor.bytes - done);
            NIB_TRY(writer.write_data(tensor.source->data + done, n));
            file_.drop_pages(tensor.source->data + done, n);
            done += n;
            NIB_TRY(report(n));
        }
        return {};
    }

    Result<void> convert(const TensorPlan& tensor, GgufWriter& writer) {
        const uint64_t total = tensor.source->elements();
        for (uint64_t done = 0; done < total;) {
            const uint64_t start = done;
            size_t used = 0;
            while (used < pieces_.size() && done < total) {
                Piece& piece = pieces_[used++];
                piece.first = done;
                piece.n = static_cast<size_t>(std::min(kPieceValues, total - done));
                done += piece.n;
            }
            convert_wave(tensor, used);
            uint64_t bytes = 0;
            for (size_t i = 0; i < used; i++) {
                const Piece& piece = pieces_[i];
                if (piece.bad) return refuse(tensor, piece);
                NIB_TRY(writer.write_data(piece.blocks.data(), piece.blocks.size()));
                bytes += piece.blocks.size();
            }
            file_.drop_pages(tensor.source->data + row_bytes(*tensor.source->def, start),
                             row_bytes(*tensor.source->def, done - start));
            NIB_TRY(report(bytes));
        }
        return {};
    }

    void convert_wave(const TensorPlan& tensor, size_t used) {
        std::atomic<size_t> next = 0;
        const auto work = [&](std::vector<float>& values) {
            for (size_t i = next++; i < used; i = next++)
                convert_piece(tensor, pieces_[i], values);
        };
        std::vector<std::jthread> others;
        try {
            for (size_t t = 1; t < std::min(scratch_.size(), used); t++)
                others.emplace_back(work, std::ref(scratch_[t]));
        } catch (const std::system_error&) {
            // No more threads to be had: those that run do the work.
        }
        work(scratch_[0]);
    }

    Error refuse(const TensorPlan& tensor, const Piece& piece) const {
        char value[48];
        std::snprintf(value, sizeof value, "%g", static_cast<double>(piece.bad_value));
        const bool finite = std::isfinite(piece.bad_value);
        return file_.bad(
            join({printable(tensor.source->name), ": value ", std::to_string(piece.bad_index),
                  ": expected a ", finite ? "size that " : "finite number, got ",
                  finite ? tensor.def->name : value,
                  finite ? join({" can hold, got up to ", value}) : std::string()}));
    }

    const GgufFile& file_;
    const QuantPlan& plan_;
    const QuantizeOptions& options_;
    std::vector<std::vector<float>> scratch_;  // one per thread
    std::vector<Piece> pieces_;
    uint64_t written_ = 0;
};

void add_metadata(const GgufFile& file, const QuantPlan& plan, GgufWriter& writer) {
    constexpr std::string_view kFileType = "general.file_type";
    constexpr std::string_view kVersion = "general.quantization_version";
    constexpr uint32_t kVersionNumber = 2;
    for (const GgufFile::Entry& entry : file.entries()) {
        // A split model becomes one file.
        if (entry.key == kFileType || entry.key == kVersion || entry.key.starts_with("split."))
            continue;
        writer.add_copy(entry.key, entry.value);
    }
    writer.add_u32(kFileType, plan.recipe->file_type);
    const bool quantized =
        std::any_of(plan.tensors.begin(), plan.tensors.end(),
                    [](const TensorPlan& tensor) { return tensor.def->block_elems > 1; });
    if (quantized) writer.add_u32(kVersion, kVersionNumber);
}

}  // namespace

Result<void> write_quantized(const GgufFile& file,
                             const QuantPlan& plan,
                             const std::string& path,
                             const QuantizeOptions& options) {
    NIB_ASSIGN(const auto writer, GgufWriter::create(path, file.alignment()));
    add_metadata(file, plan, *writer);
    for (const TensorPlan& tensor : plan.tensors) {
        writer->add_tensor(tensor.source->name, tensor.def->type,
                           std::span(tensor.source->ne, tensor.source->n_dims));
    }
    Converter converter(file, plan, options);
    NIB_TRY(converter.write(*writer));
    return writer->finish();
}

}  // namespace nib
