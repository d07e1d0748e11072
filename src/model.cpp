// SPDX-License-Identifier: MIT
// Reading a model: the architecture's config through a reader that remembers which keys were used,
// then its tensor table, row by row, against the tensors of the file.
#include "src/model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

namespace nib {
namespace {

class GgufConfig : public ConfigReader {
  public:
    GgufConfig(const GgufFile& file, const std::string& arch) : file_(file), prefix_(arch + ".") {}

    Result<int64_t> integer(const char* key, int64_t low, int64_t high) override {
        return file_.integer(use(key), low, high);
    }
    Result<int64_t> integer_or(const char* key,
                               int64_t fallback,
                               int64_t low,
                               int64_t high) override {
        const std::string full = use(key);
        const GgufValue* v = file_.find(full);
        if (v && v->type == GgufType::Bool) return int64_t{v->boolean().value_or(false)};
        return file_.integer_or(full, fallback, low, high);
    }
    Result<double> number(const char* key, double low, double high) override {
        return file_.number(use(key), low, high);
    }
    Result<double> number_or(const char* key, double fallback, double low, double high) override {
        return file_.number_or(use(key), fallback, low, high);
    }
    Result<std::string> string_or(const char* key, const char* fallback) override {
        const std::string full = use(key);
        if (!file_.find(full)) return std::string(fallback);
        return file_.string(full);
    }
    Result<std::vector<int64_t>> per_layer(
        const char* key, int64_t fallback, int64_t n_layers, int64_t low, int64_t high) override {
        const std::string full = use(key);
        const GgufValue* v = file_.find(full);
        const auto n = static_cast<size_t>(n_layers);
        if (!v || v->type != GgufType::Array) {
            if (!v && fallback < low) return file_.bad(full + ": the key is missing");
            NIB_ASSIGN(const int64_t one, file_.integer_or(full, fallback, low, high));
            return std::vector<int64_t>(n, one);
        }
        if (v->count < n || v->element == GgufType::String || v->element == GgufType::F32 ||
            v->element == GgufType::F64) {
            return file_.bad(full + ": expected " + std::to_string(n_layers) +
                             " integers, file has " + std::to_string(v->count) + " of type " +
                             gguf_type_name(v->element));
        }
        std::vector<int64_t> values(n);
        for (size_t i = 0; i < n; i++) {
            values[i] = v->integer_at(i);
            if (values[i] < low || values[i] > high) {
                return file_.bad(full + "[" + std::to_string(i) + "]=" + std::to_string(values[i]) +
                                 ": must be " + std::to_string(low) + ".." + std::to_string(high));
            }
        }
        return values;
    }
    bool has(const char* key) const override { return file_.find(prefix_ + key) != nullptr; }
    void ignore(const char* key) override { use(key); }
    Error bad(const char* key, const std::string& what) const override {
        Error e = file_.bad(prefix_ + key + ": " + what);
        e.status = Status::Unsupported;
        return e;
    }

    // Keys that nobody read may change the result.
    Result<void> finish() const {
        for (const GgufFile::Entry& e : file_.entries()) {
            if (!e.key.starts_with(prefix_) || used_.count(std::string(e.key))) continue;
            return Error{Status::Unsupported, file_.path() + ": " + std::string(e.key) +
                                                  " is not known to nib and may change the result"};
        }
        return {};
    }

  private:
    std::string use(const char* key) {
        std::string full = prefix_ + key;
        used_.insert(full);
        return full;
    }

    const GgufFile& file_;
    const std::string prefix_;
    std::set<std::string> used_;
};

std::string known_archs() {
    std::string names;
    for (const ArchDef* a : all_archs())
        names += (names.empty() ? "" : ", ") + std::string(a->name);
    return names;
}

std::string shape_text(const GgufTensor& t) {
    std::string s = "[";
    for (uint32_t d = 0; d < t.n_dims; d++)
        s += (d ? ", " : "") + std::to_string(t.ne[d]);
    return s + "]";
}

class TensorReader {
  public:
    TensorReader(const GgufFile& file, Model& model) : file_(file), model_(model) {}

    Result<void> run() {
        const ModelConfig& c = model_.config;
        model_.fields.layers.resize(static_cast<size_t>(c.n_layers));
        // Pointers into `weights` must stay: room for every row of every layer at once.
        model_.weights.reserve(model_.arch->tensors.size() * static_cast<size_t>(c.n_layers));
        for (const TensorRow& row : model_.arch->tensors) {
            const int32_t layers = row.layer_field ? c.n_layers : 1;
            for (int32_t layer = 0; layer < layers; layer++)
                NIB_TRY(read(row, layer));
        }
        return {};
    }

    std::vector<std::string> unused() const {
        std::vector<std::string> names;
        for (const GgufTensor& t : file_.tensors()) {
            if (!used_.count(std::string(t.name))) names.emplace_back(t.name);
        }
        return names;
    }

  private:
    Result<void> read(const TensorRow& row, int32_t layer) {
        char name[128];
        std::snprintf(name, sizeof name, row.gguf, layer);
        const GgufTensor* t = file_.find_tensor(name);
        if (!t) {
            if (row.need == Need::Optional) return {};
            return file_.bad(std::string(name) + ": the tensor is missing");
        }
        used_.insert(name);
        const auto ne0 = static_cast<uint64_t>(size_of(row.ne0, model_.config));
        const auto ne1 = static_cast<uint64_t>(size_of(row.ne1, model_.config));
        const bool vector = row.ne1 == Dim::One;
        if (t->ne[0] != ne0 || t->ne[1] != ne1 || t->ne[2] != 1 || t->ne[3] != 1) {
            return file_.bad(std::string(name) + ": expected [" + std::to_string(ne0) +
                             (vector ? "" : ", " + std::to_string(ne1)) + "], file has " +
                             shape_text(*t) + " " + t->def->name);
        }
        Weight w{.name = name,
                 .def = t->def,
                 .ne0 = static_cast<int32_t>(ne0),
                 .ne1 = static_cast<int32_t>(ne1),
                 .id = static_cast<int32_t>(model_.weights.size()),
                 .is_vector = vector,
                 .data = t->data};
        model_.n_params += t->elements();
        model_.weights.push_back(std::move(w));
        const Weight* kept = &model_.weights.back();
        if (row.field) model_.fields.*row.field = kept;
        if (row.layer_field)
            model_.fields.layers[static_cast<size_t>(layer)].*row.layer_field = kept;
        return {};
    }

    const GgufFile& file_;
    Model& model_;
    std::set<std::string> used_;
};

// Factors of the file divide the rope frequencies.
Result<void> apply_rope_factors(const GgufFile& file, Model& m, int32_t context) {
    const ModelWeights& f = m.fields;
    const Weight* factors = f.rope_freqs;
    if (f.rope_factors_long || f.rope_factors_short) {
        const bool is_long =
            (context ? context : m.config.n_ctx_train) > m.config.rope.original_context;
        factors = is_long ? f.rope_factors_long : f.rope_factors_short;
        if (!factors) {
            return file.bad(std::string(is_long ? "rope_factors_long" : "rope_factors_short") +
                            ".weight: the tensor is missing");
        }
    }
    if (!factors) return {};
    std::vector<float> values(static_cast<size_t>(factors->ne0));
    factors->def->decode(factors->data, values.data(), values.size());
    for (float v : values) {
        if (!(std::isfinite(v) && v > 0))
            return file.bad(factors->name + ": holds " + std::to_string(v));
    }
    m.config.rope.freq_factors = values;
    if (m.config.rope_window.base == m.config.rope.base) m.config.rope_window.freq_factors = values;
    return {};
}

Result<void> find_non_finite(const GgufFile& file, const Model& m) {
    std::vector<float> row;
    for (const Weight& w : m.weights) {
        row.resize(static_cast<size_t>(w.ne0));
        const size_t stride = row_bytes(*w.def, static_cast<uint64_t>(w.ne0));
        for (int32_t r = 0; r < w.ne1; r++) {
            w.def->decode(w.data + static_cast<size_t>(r) * stride, row.data(), row.size());
            for (size_t i = 0; i < row.size(); i++) {
                if (std::isfinite(row[i])) continue;
                return file.bad("tensor " + w.name + ": value [" + std::to_string(i) + ", " +
                                std::to_string(r) + "] is not finite");
            }
        }
    }
    return {};
}

std::string commonest_type(const Model& m) {
    std::map<std::string, uint64_t> elements;
    for (const Weight& w : m.weights)
        elements[w.def->name] += uint64_t(w.ne0) * uint64_t(w.ne1);
    std::string best;
    uint64_t most = 0;
    for (const auto& [name, n] : elements) {
        if (n > most) best = name, most = n;
    }
    return best;
}

void warn_unused(const TensorReader& reader, const ModelOptions& options) {
    const std::vector<std::string> names = reader.unused();
    if (names.empty() || !options.warn) return;
    options.warn("ignoring " + std::to_string(names.size()) + " tensor" +
                 (names.size() > 1 ? "s" : "") +
                 " that the architecture does not have, the first is " + names[0]);
}

}  // namespace

Result<std::unique_ptr<Model>> read_model(const GgufFile& file, const ModelOptions& options) {
    NIB_ASSIGN(const std::string arch_name, file.string("general.architecture"));
    auto model = std::make_unique<Model>();
    model->arch = find_arch(arch_name);
    if (!model->arch) {
        return Error{Status::Unsupported, file.path() + ": unknown architecture '" + arch_name +
                                              "' (known: " + known_archs() + ")"};
    }
    GgufConfig keys(file, arch_name);
    NIB_ASSIGN(model->config, model->arch->read_config(keys));
    NIB_TRY(keys.finish());
    const GgufTensor* table = file.find_tensor("token_embd.weight");
    if (!table) return file.bad("token_embd.weight: the tensor is missing");
    if (table->ne[1] < 1 || table->ne[1] > static_cast<uint64_t>(kMaxVocab)) {
        return file.bad("token_embd.weight: " + std::to_string(table->ne[1]) +
                        " rows: must be 1.." + std::to_string(kMaxVocab));
    }
    model->config.n_vocab = static_cast<int32_t>(table->ne[1]);
    TensorReader reader(file, *model);
    NIB_TRY(reader.run());
    warn_unused(reader, options);
    NIB_TRY(apply_rope_factors(file, *model, options.context));
    if (options.check_tensors) NIB_TRY(find_non_finite(file, *model));
    model->type_name = commonest_type(*model);
    const GgufValue* name = file.find("general.name");
    if (name && name->type == GgufType::String) model->name = std::string(name->text);
    return model;
}

Result<Graph> build_graph(const Model& model) {
    Graph graph;
    model.arch->build(graph, model.config, model.fields);
    NIB_TRY(graph.finish());
    return graph;
}

Result<Graph> build_hidden_graph(const Model& model) {
    NIB_ASSIGN(Graph graph, build_graph(model));
    // The head is the last matmul; only what changes its logits may follow.
    Tensor t = graph.result();
    while (graph.node(t).weights.empty() || graph.node(t).weights[0] != model.fields.head())
        t = graph.node(t).inputs[0];
    graph.end_at(graph.node(t).inputs[0]);
    return graph;
}

}  // namespace nib
