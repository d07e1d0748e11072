// SPDX-License-Identifier: MIT
#include "src/server/generation_request.h"

#include "src/option_values.h"
#include "src/sample/dry_breakers.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace nib {
namespace {

constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();

struct NumberField {
    const char* name;
    float SamplingParams::*field;
    double low, high;
};

struct CountField {
    const char* name;
    int32_t SamplingParams::*field;
    int64_t low, high;
};

void read_chain(Fields& fields, SamplingParams& p, int32_t n_vocab) {
    using S = SamplingParams;
    constexpr NumberField kNumbers[] = {
        {"temperature", &S::temperature, 0, 100},
        {"dynatemp_range", &S::dynatemp_range, 0, 100},
        {"dynatemp_exponent", &S::dynatemp_exponent, 0, 100},
        {"top_p", &S::top_p, 0, 1},
        {"min_p", &S::min_p, 0, 1},
        {"typical_p", &S::typical_p, 0, 1},
        {"top_n_sigma", &S::top_n_sigma, -1, 1000},
        {"xtc_probability", &S::xtc_probability, 0, 1},
        {"xtc_threshold", &S::xtc_threshold, 0, 1},
        {"repetition_penalty", &S::repeat_penalty, 0, 10},
        {"repeat_penalty", &S::repeat_penalty, 0, 10},
        {"presence_penalty", &S::presence_penalty, -2, 2},
        {"frequency_penalty", &S::frequency_penalty, -2, 2},
        {"dry_multiplier", &S::dry_multiplier, 0, 100},
        {"dry_base", &S::dry_base, 1, 100},
    };
    const CountField counts[] = {
        {"top_k", &S::top_k, -1, std::max<int64_t>(n_vocab, p.top_k)},
        {"repeat_last_n", &S::repeat_last_n, -1, kIntMax},
        {"dry_allowed_length", &S::dry_allowed_length, 0, kIntMax},
        {"dry_penalty_last_n", &S::dry_penalty_last_n, -1, kIntMax},
        {"min_keep", &S::min_keep, 0, n_vocab},
    };
    for (const NumberField& f : kNumbers) {
        const auto before = static_cast<double>(p.*f.field);
        p.*f.field = static_cast<float>(fields.number(f.name, before, f.low, f.high));
    }
    for (const CountField& f : counts) {
        p.*f.field = static_cast<int32_t>(fields.integer(f.name, p.*f.field, f.low, f.high));
    }
}

void read_samplers(Fields& fields, SamplingParams& p) {
    const Json* value = fields.find("samplers");
    if (!value) return;
    std::string list;
    if (value->is_string()) {
        list = value->get<std::string>();
    } else if (value->is_array() && value->size() <= 64) {
        for (const Json& name : *value) {
            if (!name.is_string()) return fields.fail_value("samplers", "names", name);
            list += (list.empty() ? "" : ";") + name.get<std::string>();
        }
        // One name alone is not a word of letters.
        if (value->size() == 1) list += ";";
    } else {
        return fields.fail_value("samplers", "an array of up to 64 names", *value);
    }
    auto names = parse_sampler_list(list);
    if (!names) return fields.fail(from_error(names.error(), 0));
    p.samplers = std::move(names).value();
    // Without any there is still the temperature.
    if (p.samplers.empty()) p.samplers = {"temperature"};
}

void read_seed(Fields& fields, SamplingParams& p, bool given_by_flag) {
    const Json* value = fields.find("seed");
    if (!value) {
        if (!given_by_flag) p.seed = fresh_seed();
        return;
    }
    if (value->is_number_unsigned()) {
        p.seed = value->get<uint64_t>();
    } else if (value->is_number_integer() && value->get<int64_t>() == -1) {
        p.seed = fresh_seed();
    } else {
        fields.fail_value("seed", "an integer from 0 to 18446744073709551615, or -1", *value);
    }
}

// One bias: false bans.
bool read_bias_value(Fields& fields, const Json& value, float& bias) {
    if (value.is_boolean() && !value.get<bool>()) {
        bias = -std::numeric_limits<float>::infinity();
        return true;
    }
    if (value.is_number()) {
        const auto x = value.get<double>();
        if (std::isfinite(x) && x >= -100 && x <= 100) {
            bias = static_cast<float>(x);
            return true;
        }
    }
    fields.fail_value("logit_bias", "numbers from -100 to 100 or false", value);
    return false;
}

bool read_bias_id(Fields& fields, const Json& value, int32_t n_vocab, Token& id) {
    if (const auto token = token_of(value, n_vocab)) {
        id = *token;
        return true;
    }
    fields.fail_value("logit_bias", "token ids from 0 to " + std::to_string(n_vocab - 1), value);
    return false;
}

void read_bias_object(Fields& fields, const Json& object, int32_t n_vocab, SamplingParams& p) {
    for (const auto& [key, value] : object.items()) {
        int64_t number = -1;
        const char* end = key.data() + key.size();
        const auto parsed = std::from_chars(key.data(), end, number);
        const bool is_id = parsed.ec == std::errc() && parsed.ptr == end;
        Token id = 0;
        float bias = 0;
        if (!read_bias_id(fields, is_id ? Json(number) : Json(key), n_vocab, id)) return;
        if (!read_bias_value(fields, value, bias)) return;
        p.logit_bias.emplace_back(id, bias);
    }
}

void read_bias_array(Fields& fields,
                     const Json& array,
                     const Tokenizer& tokenizer,
                     SamplingParams& p) {
    for (const Json& entry : array) {
        if (!entry.is_array() || entry.size() != 2) {
            return fields.fail_value("logit_bias", "pairs of a token and a bias", entry);
        }
        float bias = 0;
        if (!read_bias_value(fields, entry[1], bias)) return;
        if (entry[0].is_string()) {
            const auto& text = entry[0].get_ref<const std::string&>();
            for (const Token id : tokenizer.encode(text.substr(0, kStopBytesMax), false, false)) {
                p.logit_bias.emplace_back(id, bias);
            }
            continue;
        }
        Token id = 0;
        if (!read_bias_id(fields, entry[0], tokenizer.n_vocab(), id)) return;
        p.logit_bias.emplace_back(id, bias);
    }
}

void read_logit_bias(Fields& fields, const Tokenizer& tokenizer, SamplingParams& p) {
    const Json* value = fields.find("logit_bias");
    if (!value) return;
    if (!value->is_structured()) {
        return fields.fail_value("logit_bias", "an object or an array of pairs", *value);
    }
    if (value->size() > kBiasEntriesMax) {
        return fields.fail("logit_bias", "expected at most " + std::to_string(kBiasEntriesMax) +
                                             " entries, got " + std::to_string(value->size()));
    }
    if (value->is_object()) {
        read_bias_object(fields, *value, tokenizer.n_vocab(), p);
    } else {
        read_bias_array(fields, *value, tokenizer, p);
    }
    if (p.logit_bias.size() > kBiasEntriesMax) {
        fields.fail("logit_bias",
                    "texts: more than " + std::to_string(kBiasEntriesMax) + " tokens together");
    }
}

void read_breakers(Fields& fields, const ServerState& server, GenerationRequest& out) {
    out.dry_breakers = server.options().dry_sequence_breakers;
    if (const Json* list = fields.array("dry_sequence_breakers", kBreakersMax)) {
        out.dry_breakers.clear();
        for (const Json& text : *list) {
            const bool fine =
                text.is_string() && text.get_ref<const std::string&>().size() <= kStopBytesMax;
            if (!fine) return fields.fail_value("dry_sequence_breakers", "short texts", text);
            out.dry_breakers.push_back(text.get<std::string>());
        }
    }
    if (out.base.sampling.dry_multiplier > 0) {
        out.base.sampling.dry_breakers = make_dry_breakers(server.tokenizer(), out.dry_breakers);
    }
}

void add_stop(Fields& fields, const Json& text, GenerationRequest& out) {
    if (!text.is_string()) {
        return fields.fail_value("stop", "a text or an array of texts", text);
    }
    const auto& stop = text.get_ref<const std::string&>();
    if (stop.empty() || stop.size() > kStopBytesMax) {
        return fields.fail("stop", "expected texts of 1 to " + std::to_string(kStopBytesMax) +
                                       " bytes, got " + std::to_string(stop.size()));
    }
    out.base.stop.push_back(stop);
}

void read_stops(Fields& fields, GenerationRequest& out) {
    const Json* value = fields.find("stop");
    if (!value) return;
    if (!value->is_array()) return add_stop(fields, *value, out);
    if (value->size() > kStopsMax) {
        return fields.fail("stop", "expected at most " + std::to_string(kStopsMax) +
                                       " texts, got " + std::to_string(value->size()));
    }
    for (const Json& text : *value)
        add_stop(fields, text, out);
}

void read_scores(Fields& fields, Api api, GenerationRequest& out) {
    if (api == Api::Chat) {
        out.scores = fields.boolean("logprobs", false);
        if (fields.find("top_logprobs") && !out.scores) {
            const auto top = fields.integer("top_logprobs", 0, 0, kTopLogprobsMax);
            if (top > 0) fields.fail("top_logprobs", "expected logprobs: true with it");
        }
        out.top_scores = static_cast<int>(fields.integer("top_logprobs", 0, 0, kTopLogprobsMax));
    } else if (api == Api::Completions) {
        out.scores = fields.find("logprobs") != nullptr;
        out.top_scores = static_cast<int>(fields.integer("logprobs", 0, 0, kCompletionLogprobsMax));
    }
    const auto n_probs = static_cast<int>(fields.integer("n_probs", 0, 0, kProbsMax));
    if (api == Api::Llama) {
        out.scores = n_probs > 0;
        out.top_scores = n_probs;
    }
    out.base.post_sampling_probs = fields.boolean("post_sampling_probs", false);
    if (out.scores) out.base.n_probs = out.top_scores;
}

void read_lengths(Fields& fields, const ServerState& server, GenerationRequest& out) {
    Request& r = out.base;
    r.max_tokens = server.options().predict;
    // The newest name wins where a client sends several.
    for (const char* name : {"n_predict", "max_tokens", "max_completion_tokens"}) {
        r.max_tokens = static_cast<int32_t>(fields.integer(name, r.max_tokens, -1, kIntMax));
    }
    r.ignore_eos = fields.boolean("ignore_eos", server.options().ignore_eos);
    r.cache_prompt = fields.boolean("cache_prompt", true);
    r.priority = static_cast<int32_t>(fields.integer("priority", 0, -kPriorityMax, kPriorityMax));
    fields.integer("n_keep", 0, -1, kIntMax);  // without a context shift there is nothing to keep
    fields.integer("n_discard", 0, 0, kIntMax);
    const int64_t ms = fields.integer("t_max_predict_ms", 0, 0, kIntMax);
    if (ms > 0) r.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
}

void refuse_constraints(Fields& fields) {
    if (const Json* format = fields.object("response_format")) {
        Fields inside(*format, "response_format.");
        const std::string type = inside.text("type", "text", 64);
        if (!inside.ok()) return fields.fail(inside.error());
        if (type != "text" && type != "json_object" && type != "json_schema") {
            fields.fail("response_format.type",
                        "expected text, json_object or json_schema, got " + shown(type));
        }
        inside.refuse_unless("type", {"\"text\""});
        if (!inside.ok()) fields.fail(inside.error());
    }
    for (const char* name : {"grammar", "json_schema", "suffix", "lora", "stop_token_ids",
                             "bad_words", "banned_strings", "allowed_token_ids", "prompt_logprobs",
                             "min_tokens", "mirostat", "n_indent", "guided_json", "guided_regex",
                             "guided_choice", "guided_grammar", "no_repeat_ngram_size"}) {
        fields.refuse_unless(name, {"\"\"", "[]", "0", "false"});
    }
    fields.refuse_unless("adaptive_target", {"-1", "-1.0"});
}

// The members of an answer that a client wants; "a/b": one inside another.
void read_response_fields(Fields& fields, Api api, GenerationRequest& out) {
    if (api != Api::Llama) return fields.refuse_unless("response_fields", {"[]"});
    const Json* list = fields.array("response_fields", kResponseFieldsMax);
    if (!list) return;
    for (const Json& name : *list) {
        if (!name.is_string()) return fields.fail_value("response_fields", "names", name);
        out.response_fields.push_back(name.get<std::string>());
    }
}

}  // namespace

void read_generation(Fields& fields,
                     const ServerState& server,
                     const HttpRequest& http,
                     Api api,
                     GenerationRequest& out) {
    const Tokenizer& tokenizer = server.tokenizer();
    Request& r = out.base;
    server.check_model(fields);
    r.sampling = server.options().sampling;
    read_chain(fields, r.sampling, tokenizer.n_vocab());
    read_samplers(fields, r.sampling);
    read_seed(fields, r.sampling, server.options().seed_given);
    read_logit_bias(fields, tokenizer, r.sampling);
    read_breakers(fields, server, out);
    read_stops(fields, out);
    read_scores(fields, api, out);
    read_lengths(fields, server, out);
    refuse_constraints(fields);
    read_response_fields(fields, api, out);
    // Places are not bound to what they held: any of them finds what the cache has.
    out.base.slot =
        static_cast<int32_t>(fields.integer("id_slot", -1, -1, server.options().parallel - 1));

    const char* count = api == Api::Llama ? fields.first_of({"n_cmpl", "n"}) : "n";
    out.n = static_cast<int>(fields.integer(count, 1, 1, kChoicesMax));
    const int64_t best_of = fields.integer("best_of", out.n, 1, kChoicesMax);
    if (best_of != out.n) fields.fail("best_of", "expected the same number as n");
    out.stream = fields.boolean("stream", false);
    out.timings_per_token = fields.boolean("timings_per_token", false);
    out.return_progress = fields.boolean("return_progress", false);
    out.return_tokens = fields.boolean("return_tokens", false);
    out.echo = api == Api::Completions && fields.boolean("echo", false);
    if (out.echo && out.scores) fields.fail("echo", "expected no logprobs with it");
    if (const Json* options = fields.object("stream_options")) {
        Fields inside(*options, "stream_options.");
        out.include_usage = inside.boolean("include_usage", false);
        if (!inside.ok()) fields.fail(inside.error());
        if (!out.stream) fields.fail("stream_options", "expected stream: true with it");
    }
    r.client = server.client_of(http);
    r.cache_salt = server.salt_of(http);
    if (!fields.ok()) return;
    const auto checked = check_params(r.sampling, tokenizer.n_vocab());
    if (!checked) fields.fail(from_error(checked.error(), 0));
}

void check_generation(Fields& fields, const ServerState& server, const GenerationRequest& request) {
    if (!fields.ok()) return;
    const uint64_t all = request.prompts.size() * static_cast<uint64_t>(request.n);
    if (all > kGenerationsMax) {
        return fields.fail("n", "expected n times prompts up to " +
                                    std::to_string(kGenerationsMax) + ", got " +
                                    std::to_string(all));
    }
    const auto n_ctx = static_cast<size_t>(server.engine()->model().n_ctx);
    for (const std::vector<Token>& prompt : request.prompts) {
        if (prompt.size() < n_ctx) continue;
        return fields.fail(too_long_error(prompt.size(), n_ctx));
    }
}

Json settings_json(const GenerationRequest& request, const ServerState& server) {
    const SamplingParams& p = request.base.sampling;
    Json bias = Json::array();
    for (const auto& [id, value] : p.logit_bias) {
        bias.push_back({{"token", id}, {"bias", std::isfinite(value) ? Json(value) : Json(false)}});
    }
    return {{"seed", p.seed},
            {"n_ctx", server.engine()->model().n_ctx},
            {"temperature", p.temperature},
            {"dynatemp_range", p.dynatemp_range},
            {"dynatemp_exponent", p.dynatemp_exponent},
            {"top_k", p.top_k},
            {"top_p", p.top_p},
            {"min_p", p.min_p},
            {"typical_p", p.typical_p},
            {"top_n_sigma", p.top_n_sigma},
            {"xtc_probability", p.xtc_probability},
            {"xtc_threshold", p.xtc_threshold},
            {"repeat_last_n", p.repeat_last_n},
            {"repeat_penalty", p.repeat_penalty},
            {"presence_penalty", p.presence_penalty},
            {"frequency_penalty", p.frequency_penalty},
            {"dry_multiplier", p.dry_multiplier},
            {"dry_base", p.dry_base},
            {"dry_allowed_length", p.dry_allowed_length},
            {"dry_penalty_last_n", p.dry_penalty_last_n},
            {"dry_sequence_breakers", request.dry_breakers},
            {"stop", request.base.stop},
            {"max_tokens", request.base.max_tokens},
            {"n_predict", request.base.max_tokens},
            {"ignore_eos", request.base.ignore_eos},
            {"stream", request.stream},
            {"logit_bias", bias},
            {"n_probs", request.top_scores},
            {"min_keep", p.min_keep},
            {"samplers", p.samplers},
            {"timings_per_token", request.timings_per_token},
            {"post_sampling_probs", request.base.post_sampling_probs}};
}

}  // namespace nib
