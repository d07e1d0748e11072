// SPDX-License-Identifier: MIT
// nib inspect: what a GGUF file says: metadata, tensors, sizes, and the memory that running it
// takes; or what a safetensors checkpoint holds. Strings of the file are shown without control
// characters; long arrays are cut except with --get.
#include "ggml-like/files/gguf.h"
#include "ggml-like/files/safetensors.h"
#include "src/cli/model.h"
#include "src/cli/output.h"
#include "src/command.h"
#include "src/json/json.h"
#include "src/option_values.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

namespace nib {
namespace {

constexpr uint64_t kArrayShown = 4;
constexpr size_t kTextShown = 100;

Json element(const GgufValue& value, uint64_t i) {
    switch (value.element) {
    case GgufType::String:
        return value.strings[i];
    case GgufType::F32:
    case GgufType::F64:
        return value.number_at(i);
    case GgufType::Bool:
        return value.integer_at(i) != 0;
    case GgufType::U64:
        return static_cast<uint64_t>(value.integer_at(i));
    default:
        return value.integer_at(i);
    }
}

// A value as JSON; of an array the first `most` elements.
Json as_json(const GgufValue& value, uint64_t most) {
    if (value.type == GgufType::String) return value.text;
    if (value.type == GgufType::Array) {
        Json list = Json::array();
        for (uint64_t i = 0; i < std::min(value.count, most); ++i)
            list.push_back(element(value, i));
        return list;
    }
    if (const auto b = value.boolean()) return *b;
    if (value.type == GgufType::U64) return value.bits;
    if (const auto i = value.integer()) return *i;
    if (const auto n = value.number()) return *n;
    return nullptr;
}

std::string type_text(const GgufValue& value) {
    if (value.type != GgufType::Array) return gguf_type_name(value.type);
    return std::string(gguf_type_name(value.element)) + "[" + std::to_string(value.count) + "]";
}

std::string shape_text(const GgufTensor& tensor) {
    std::string text = "[";
    for (uint32_t i = 0; i < tensor.n_dims; ++i) {
        text += (i > 0 ? ", " : "") + std::to_string(tensor.ne[i]);
    }
    return text + "]";
}

std::string mib(uint64_t bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
    return text;
}

struct Sizes {
    uint64_t weights = 0, parameters = 0;
    uint64_t kv_per_token = 0;  // 16-bit keys and values; 0: the metadata does not say
    uint64_t context = 0;
    std::map<std::string, std::pair<uint64_t, uint64_t>> by_type;  // tensors, bytes
};

// A size from the metadata, or 0 if it is missing or makes no sense.
uint64_t size_key(const GgufFile& file, const std::string& key) {
    const auto value = file.integer_or(key, 0, 0, 1 << 24);
    return value ? static_cast<uint64_t>(value.value()) : 0;
}

Sizes measure(const GgufFile& file) {
    Sizes sizes;
    for (const GgufTensor& tensor : file.tensors()) {
        sizes.weights += tensor.bytes;
        sizes.parameters += tensor.elements();
        auto& [count, bytes] = sizes.by_type[tensor.def->name];
        ++count;
        bytes += tensor.bytes;
    }
    const auto arch = file.string("general.architecture");
    if (!arch) return sizes;
    const auto key = [&](const char* name) { return size_key(file, arch.value() + "." + name); };
    sizes.context = key("context_length");
    const uint64_t heads = key("attention.head_count"), layers = key("block_count");
    uint64_t kv_heads = key("attention.head_count_kv");
    if (kv_heads == 0) kv_heads = heads;
    const uint64_t head = heads > 0 ? key("embedding_length") / heads : 0;
    uint64_t k = key("attention.key_length"), v = key("attention.value_length");
    if (k == 0) k = head;
    if (v == 0) v = head;
    // Bounded factors: 2^24 each, three of them with the layers fit 72 bits only in theory;
    // saturate.
    const double product = static_cast<double>(layers) * static_cast<double>(kv_heads) *
                           static_cast<double>(k + v) * 2;
    sizes.kv_per_token = product < 1e15 ? static_cast<uint64_t>(product) : 0;
    return sizes;
}

std::string text_report(const GgufFile& file) {
    std::string out = file.path() + ": GGUF version " + std::to_string(file.version()) + ", " +
                      mib(file.file_bytes()) + ", alignment " + std::to_string(file.alignment()) +
                      "\n\nmetadata:\n";
    for (const auto& [key, value] : file.entries()) {
        std::string text = dump_json(as_json(value, kArrayShown));
        if (value.type == GgufType::Array && value.count > kArrayShown) {
            text.insert(text.size() - 1, ",...");
        }
        if (text.size() > kTextShown) text = text.substr(0, kTextShown) + "...";
        out += "  " + std::string(key) + " (" + type_text(value) + ") " + text + "\n";
    }
    out += "\ntensors:\n";
    for (const GgufTensor& tensor : file.tensors()) {
        out += "  " + std::string(tensor.name) + " " + shape_text(tensor) + " " + tensor.def->name +
               " " + std::to_string(tensor.bytes) + "\n";
    }
    const Sizes sizes = measure(file);
    out += "\nsizes:\n  parameters " + std::to_string(sizes.parameters) + "\n  weights " +
           mib(sizes.weights) + "\n";
    for (const auto& [type, sum] : sizes.by_type) {
        out += "    " + type + ": " + std::to_string(sum.first) + " tensors, " + mib(sum.second) +
               "\n";
    }
    if (sizes.kv_per_token > 0) {
        out += "  context memory " + std::to_string(sizes.kv_per_token) + " bytes per token, " +
               mib(sizes.kv_per_token * sizes.context) + " for " + std::to_string(sizes.context) +
               " tokens\n  estimated memory " +
               mib(sizes.weights + sizes.kv_per_token * sizes.context) + "\n";
    }
    return printable(out);
}

Json json_report(const GgufFile& file) {
    const Sizes sizes = measure(file);
    Json metadata = Json::object(), tensors = Json::array(), types = Json::object();
    for (const auto& [key, value] : file.entries()) {
        Json entry = {{"type", type_text(value)}, {"value", as_json(value, kArrayShown)}};
        if (value.type == GgufType::Array) entry["count"] = value.count;
        metadata[std::string(key)] = std::move(entry);
    }
    for (const GgufTensor& tensor : file.tensors()) {
        Json shape = Json::array();
        for (uint32_t i = 0; i < tensor.n_dims; ++i)
            shape.push_back(tensor.ne[i]);
        tensors.push_back({{"name", tensor.name},
                           {"shape", std::move(shape)},
                           {"type", tensor.def->name},
                           {"bytes", tensor.bytes}});
    }
    for (const auto& [type, sum] : sizes.by_type) {
        types[type] = {{"tensors", sum.first}, {"bytes", sum.second}};
    }
    return {{"path", file.path()},
            {"version", file.version()},
            {"file_bytes", file.file_bytes()},
            {"alignment", file.alignment()},
            {"parameters", sizes.parameters},
            {"weight_bytes", sizes.weights},
            {"kv_bytes_per_token", sizes.kv_per_token},
            {"context", sizes.context},
            {"memory_bytes_estimate", sizes.weights + sizes.kv_per_token * sizes.context},
            {"types", std::move(types)},
            {"metadata", std::move(metadata)},
            {"tensors", std::move(tensors)}};
}

// A folder, or a file that its name says to be one.
bool is_safetensors(const std::string& path) {
    std::error_code ignored;
    return path.ends_with(".safetensors") || std::filesystem::is_directory(path, ignored);
}

Result<void> inspect_safetensors(const Options& options) {
    NIB_ASSIGN(const auto file, SafetensorsFile::open(options.model));
    Json metadata = Json::object(), tensors = Json::array();
    for (const auto& [key, value] : file->metadata())
        metadata[key] = value;
    uint64_t parameters = 0;
    std::string lines;
    for (const SafetensorsTensor& tensor : file->tensors()) {
        parameters += tensor.elements();
        tensors.push_back({{"name", tensor.name},
                           {"shape", tensor.shape},
                           {"type", tensor.dtype},
                           {"bytes", tensor.data.size()}});
        lines += "  " + tensor.name + " " + dump_json(tensor.shape) + " " + tensor.dtype + " " +
                 std::to_string(tensor.data.size()) + "\n";
    }
    if (!options.get_key.empty()) {
        if (!metadata.contains(options.get_key)) {
            return Error{Status::BadFile, file->path() + ": key " + shown(options.get_key) +
                                              " is not in the metadata"};
        }
        const Json& value = metadata[options.get_key];
        return write_stdout((options.json ? dump_json(value) : value.get<std::string>()) + "\n");
    }
    if (options.json) {
        return write_stdout(dump_json({{"path", file->path()},
                                       {"file_bytes", file->file_bytes()},
                                       {"parameters", parameters},
                                       {"metadata", std::move(metadata)},
                                       {"tensors", std::move(tensors)}},
                                      2) +
                            "\n");
    }
    std::string out =
        file->path() + ": safetensors, " + mib(file->file_bytes()) + "\n\nmetadata:\n";
    for (const auto& [key, value] : file->metadata())
        out += "  " + key + " " + value + "\n";
    return write_stdout(printable(out + "\ntensors (shapes outermost first):\n" + lines +
                                  "\nsizes:\n  parameters " + std::to_string(parameters) + "\n"));
}

Result<void> inspect(Options options) {
    if (!options.args.empty()) {
        options.model = options.args[0];
        options.default_model = false;
    }
    NIB_TRY(check_model_exists(options));
    if (is_safetensors(options.model)) return inspect_safetensors(options);
    NIB_ASSIGN(const auto file, GgufFile::open(options.model, {.need_tensors = false}));
    if (!options.get_key.empty()) {
        const GgufValue* value = file->find(options.get_key);
        if (!value) return file->bad("key " + shown(options.get_key) + " is not in the file");
        const Json json = as_json(*value, value->count);
        if (options.json || !json.is_string()) return write_stdout(dump_json(json) + "\n");
        return write_stdout(json.get<std::string>() + "\n");
    }
    if (options.json) return write_stdout(dump_json(json_report(*file), 2) + "\n");
    return write_stdout(text_report(*file));
}

int run(const Options& options) {
    return finish(inspect(options));
}

}  // namespace

extern const CommandDef command_inspect = {
    .name = "inspect",
    .aliases = "",
    .summary = "show metadata, tensors and sizes of a model file",
    .usage = "[FILE|FOLDER]",
    .args_max = 1,
    .flags = kModelFlags | kJsonFlags | kInspectFlags,
    .run = run,
};

}  // namespace nib
