// SPDX-License-Identifier: MIT
// The table of flags and its reading. CLI11 does the splitting of argv; before it, a pass of our
// own turns names like -ngl into long ones (CLI11 would read three flags), finds unknown flags and
// suggests the nearest. After it, the values go through the rows. This is the only file that
// includes CLI11; what it throws ends here.
#include "src/options.h"

#include "ggml-like/backend.h"
#include "src/command.h"
#include "src/option_help.h"
#include "src/option_values.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>

#include <CLI/CLI.hpp>

namespace nib {
namespace {

using Setter = std::function<Result<void>(Options&, std::string_view)>;

constexpr int32_t kIntMax = std::numeric_limits<int32_t>::max();
constexpr int32_t kContextMax = 1 << 24;

std::string number_text(float value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", static_cast<double>(value));
    return text;
}

Setter integer(int32_t Options::*field, int32_t low, int32_t high) {
    return [=](Options& o, std::string_view text) -> Result<void> {
        NIB_ASSIGN(const int64_t value, read_integer(text, low, high));
        o.*field = static_cast<int32_t>(value);
        return {};
    };
}

Setter string(std::string Options::*field) {
    return [=](Options& o, std::string_view text) -> Result<void> {
        o.*field = text;
        return {};
    };
}

// `value` is what the flag stores when it stands on the command line.
Setter toggle(bool Options::*field, bool value = true) {
    return [=](Options& o, std::string_view text) -> Result<void> {
        NIB_ASSIGN(const bool on, read_switch(text));
        o.*field = on == value;
        return {};
    };
}

// Ranges of the chain live in check_params only. All other fields are valid here, so an error is
// about the field just set; its own name for the field is cut off.
Result<void> check_sampling(const SamplingParams& params) {
    const auto checked = check_params(params, kIntMax);
    if (checked) return {};
    const std::string& message = checked.error().message;
    const size_t colon = message.find(": ");
    return Error{Status::BadRequest,
                 colon == std::string::npos ? message : message.substr(colon + 2)};
}

Setter chain_number(float SamplingParams::*field) {
    return [=](Options& o, std::string_view text) -> Result<void> {
        NIB_ASSIGN(o.sampling.*field, read_float(text));
        return check_sampling(o.sampling);
    };
}

Setter chain_integer(int32_t SamplingParams::*field) {
    return [=](Options& o, std::string_view text) -> Result<void> {
        NIB_ASSIGN(const int64_t value,
                   read_integer(text, std::numeric_limits<int32_t>::min(), kIntMax));
        o.sampling.*field = static_cast<int32_t>(value);
        return check_sampling(o.sampling);
    };
}

Result<void> set_model(Options& o, std::string_view text) {
    if (text.empty()) return Error{Status::BadRequest, "expected a path, got \"\""};
    o.model = text;
    o.default_model = false;
    return {};
}

Result<void> set_cpu_level(Options& o, std::string_view text) {
    if (text != "scalar" && text != "avx2" && text != "avx512") {
        return Error{Status::BadRequest, "expected scalar|avx2|avx512, got " + shown(text)};
    }
    o.cpu_level = text;
    return {};
}

Setter cache_type(std::string Options::*field) {
    return [=](Options& o, std::string_view text) -> Result<void> {
        const auto type = kv_type(text);
        if (!type) {
            const std::string& message = type.error().message;
            return Error{Status::BadRequest, message.substr(message.find(": ") + 2)};
        }
        o.*field = text;
        return {};
    };
}

Result<void> set_seed(Options& o, std::string_view text) {
    o.seed_given = text != "-1";
    if (!o.seed_given) return {};
    NIB_ASSIGN(o.sampling.seed, read_seed(text));
    return {};
}

Result<void> add_bias(Options& o, std::string_view text) {
    NIB_ASSIGN(const auto bias, read_bias(text));
    o.sampling.logit_bias.push_back(bias);
    return check_sampling(o.sampling);
}

Result<void> set_samplers(Options& o, std::string_view text) {
    auto names = parse_sampler_list(text);
    if (!names) {
        const std::string& message = names.error().message;
        return Error{Status::BadRequest, message.substr(message.find(": ") + 2)};
    }
    o.sampling.samplers = std::move(names).value();
    return check_sampling(o.sampling);
}

Result<void> add_breaker(Options& o, std::string_view text) {
    if (text != "none") o.dry_sequence_breakers.push_back(unescape(text));
    return {};
}

Result<void> add_tensor_type(Options& o, std::string_view text) {
    const size_t equals = text.rfind('=');
    if (equals == std::string_view::npos || equals == 0) {
        return Error{Status::BadRequest, "expected PART=TYPE, got " + shown(text)};
    }
    o.tensor_types.emplace_back(text);
    return {};
}

Result<void> set_prompt(Options& o, std::string_view text) {
    o.prompt = text;
    return {};
}

Result<void> add_reverse_prompt(Options& o, std::string_view text) {
    if (text.empty()) return Error{Status::BadRequest, "expected a text, got \"\""};
    o.reverse_prompts.emplace_back(text);
    return {};
}

Result<void> set_color(Options& o, std::string_view text) {
    if (text == "auto") {
        o.color = When::Auto;
        return {};
    }
    if (text != "on" && text != "off") {
        return Error{Status::BadRequest, "expected on|off|auto, got " + shown(text)};
    }
    o.color = text == "on" ? When::On : When::Off;
    return {};
}

// Appends the parts of a comma list.
Setter list(std::vector<std::string> Options::*field) {
    return [=](Options& o, std::string_view text) -> Result<void> {
        while (true) {
            const size_t comma = std::min(text.find(','), text.size());
            if (comma == 0) return Error{Status::BadRequest, "expected values between the commas"};
            (o.*field).emplace_back(text.substr(0, comma));
            if (comma == text.size()) return {};
            text.remove_prefix(comma + 1);
        }
    };
}

std::function<void(Options&)> forget(std::vector<std::string> Options::*field) {
    return [=](Options& o) { (o.*field).clear(); };
}

// One of a few words, separated by bars.
Setter one_of(std::string Options::*field, const char* words) {
    return [=](Options& o, std::string_view text) -> Result<void> {
        const std::string bars = "|" + std::string(words) + "|";
        if (text.empty() || bars.find("|" + std::string(text) + "|") == std::string::npos) {
            return Error{Status::BadRequest,
                         std::string("expected ") + words + ", got " + shown(text)};
        }
        o.*field = text;
        return {};
    };
}

Result<void> set_api_prefix(Options& o, std::string_view text) {
    while (!text.empty() && text.back() == '/')
        text.remove_suffix(1);
    if (!text.empty() && text[0] != '/') {
        return Error{Status::BadRequest, "expected a path that begins with /, got " + shown(text)};
    }
    o.api_prefix = text;
    return {};
}

std::vector<FlagRow> make_flags() {
    using enum FlagSection;
    using S = SamplingParams;
    const Options d;
    const S& s = d.sampling;
    const auto num = number_text;
    const auto str = [](int64_t v) { return std::to_string(v); };
    constexpr uint32_t kChain = kSamplingFlags;
    return {
        // clang-format off
        {"model", "-m", "FILE", Common, kModelFlags, "the model, a GGUF file", set_model, "the default model"},
        {"ctx-size", "-c", "N", Common, kEngineFlags, "tokens of context; 0: what the model was trained for", integer(&Options::ctx_size, 0, kContextMax), str(d.ctx_size)},
        {"ubatch-size", "-ub", "N", Common, kEngineFlags, "rows of a prompt computed in one step; 0: 128 to 512, more for larger models", integer(&Options::ubatch_size, 0, 4096), str(d.ubatch_size)},
        {"threads", "-t", "N", Common, kEngineFlags | kQuantizeFlags, "threads", integer(&Options::threads, 1, 1024), "what this process may use"},
        {"cpu-level", "", "LEVEL", Common, kEngineFlags, "instruction set: scalar, avx2, avx512", set_cpu_level, "the best of this CPU"},
        {"cache-type-k", "-ctk", "TYPE", Common, kEngineFlags, "type of the keys in the KV cache: f16, q8_0", cache_type(&Options::cache_type_k), d.cache_type_k},
        {"cache-type-v", "-ctv", "TYPE", Common, kEngineFlags, "type of the values in the KV cache: f16, q8_0", cache_type(&Options::cache_type_v), d.cache_type_v},
        {"check-tensors", "", "", Common, kEngineFlags, "look for weights that are not finite", toggle(&Options::check_tensors), ""},
        {"allow-unknown-pre", "", "", Common, kModelFlags, "split text the default way if the model names an unknown way", toggle(&Options::allow_unknown_pre), ""},

        {"predict", "-n --n-predict", "N", Command, kGenerateFlags | kServerFlags, "tokens to generate at most; -1: until the context is full", integer(&Options::predict, -1, kIntMax), str(d.predict)},
        {"prompt", "-p", "TEXT", Command, kPromptFlags, "the prompt", set_prompt, ""},
        {"file", "-f", "FILE", Command, kPromptFlags, "read the prompt from a file", string(&Options::file), ""},
        {"escape", "-e", "", Command, kPromptFlags, "\\n, \\t, \\xHH and the like in prompts are characters", toggle(&Options::escape), ""},
        {"reverse-prompt", "-r", "TEXT", Command, kGenerateFlags, "stop before this text; may be repeated", add_reverse_prompt, "", [](Options& o) { o.reverse_prompts.clear(); }},
        {"ignore-eos", "", "", Command, kGenerateFlags | kServerFlags, "go on when the model ends its text", toggle(&Options::ignore_eos), ""},
        {"system-prompt", "-sys", "TEXT", Command, kChatFlags, "the system message", string(&Options::system_prompt), ""},
        {"system-prompt-file", "-sysf", "FILE", Command, kChatFlags, "read the system message from a file", string(&Options::system_prompt_file), ""},
        {"single-turn", "-st", "", Command, kChatFlags, "answer once, then end", toggle(&Options::single_turn), ""},
        {"color", "-co", "WHEN", Command, kChatFlags, "colours: on, off, auto", set_color, "auto"},
        {"chat-template", "", "NAME", Command, kChatFlags | kServerFlags, "use a built-in chat template: chatml", string(&Options::chat_template), "the model's own"},
        {"chat-template-file", "", "FILE", Command, kChatFlags | kServerFlags, "use the chat template of this file", string(&Options::chat_template_file), ""},
        {"chat-template-kwargs", "", "JSON", Command, kChatFlags | kServerFlags, "an object of values for the chat template", string(&Options::chat_template_kwargs), ""},
        {"json", "", "", Command, kJsonFlags, "print one JSON value", toggle(&Options::json), ""},

        {"ids", "", "", Command, kTokenizeFlags, "print one JSON array of token ids (as without any of these)", toggle(&Options::ids), ""},
        {"pieces", "", "", Command, kTokenizeFlags, "print one line for each token: id and text", toggle(&Options::pieces), ""},
        {"count", "", "", Command, kTokenizeFlags, "print the number of tokens", toggle(&Options::count), ""},
        {"decode", "", "", Command, kTokenizeFlags, "the input is ids; print their text", toggle(&Options::decode), ""},
        {"add-special", "", "", Command, kTokenizeFlags, "add the begin and end tokens that the model wants", toggle(&Options::add_special), ""},
        {"no-parse-special", "", "", Command, kTokenizeFlags, "marks of control tokens in the text stay text", toggle(&Options::parse_special, false), ""},
        {"get", "", "KEY", Command, kInspectFlags, "print the value of one metadata key", string(&Options::get_key), ""},
        {"prompts", "", "FILE", Command, kScoreFlags, "a JSON list of {\"id\", \"text\", \"special\"}", string(&Options::prompts_path), ""},
        {"top", "", "N", Command, kScoreFlags, "log-probabilities of each position", integer(&Options::top, 1, 1000), str(d.top)},
        {"greedy", "", "N", Command, kScoreFlags, "tokens to continue each prompt with", integer(&Options::greedy, 0, 100000), str(d.greedy)},
        {"output", "-o", "FILE", Command, kScoreFlags, "where the result goes", string(&Options::output_path), "standard output"},
        {"n-prompt", "-p", "LIST", Command, kBenchFlags, "prompt lengths to measure, separated by commas; 0: none", string(&Options::bench_prompt), "512; load: 64"},
        {"n-gen", "-n", "LIST", Command, kBenchFlags, "tokens to generate one by one; 0: none; ops: steps to measure; serve: of each answer", string(&Options::bench_generate), "128; ops: 16; serve: 64"},
        {"batch", "-b", "LIST", Command, kBenchFlags, "numbers of sequences that generate 64 tokens together", string(&Options::bench_batch), "none; ops: 1,8,32"},
        {"n-depth", "-d --depth", "LIST", Command, kBenchFlags, "tokens in the cache before prompts and generation", string(&Options::bench_depth), "0; ops: --batch-prompt"},
        {"batch-prompt", "", "N", Command, kBenchFlags, "tokens that each sequence of a batch holds before", integer(&Options::batch_prompt, 1, 1 << 20), str(d.batch_prompt)},
        {"verify", "", "LIST", Command, kBenchFlags, "numbers of rows of one sequence in a step, compared with a step of one", string(&Options::bench_verify), "none"},
        {"repetitions", "-r", "N", Command, kBenchFlags, "repetitions of each test, in turns, after one that does not count", integer(&Options::repetitions, 1, 1000), str(d.repetitions)},
        {"no-roofline", "", "", Command, kBenchFlags, "do not measure the limits of the machine (2 s); shares of the limit stay empty", toggle(&Options::measure_limits, false), ""},
        {"synthetic", "", "NAME", Command, kBenchFlags, "instead of a file: random weights with the sizes of llama-1b, llama-3b, llama-8b, qwen2.5-7b, gemma3-4b, smollm2-135m; goes through a file in $TMPDIR", string(&Options::synthetic), ""},
        {"type", "", "TYPE", Command, kBenchFlags, "of these weights: q4_k_m, q5_k_m or one type for all", string(&Options::synthetic_type), d.synthetic_type},
        {"write", "", "FILE", Command, kBenchFlags, "only write these weights as a GGUF file", string(&Options::write_path), ""},
        {"url", "", "URL", Command, kBenchFlags, "serve: the server, which need not be nib; its key is in NIB_API_KEY", string(&Options::serve_url), d.serve_url},
        {"clients", "", "N", Command, kBenchFlags, "serve: connections that ask at the same time", integer(&Options::serve_clients, 1, 1024), str(d.serve_clients)},
        {"requests", "", "N", Command, kBenchFlags, "serve: requests of all clients together", integer(&Options::serve_requests, 1, 1 << 20), str(d.serve_requests)},
        {"prompt-chars", "", "N", Command, kBenchFlags, "serve: length of the prompts, no two of which begin alike", integer(&Options::prompt_chars, 1, 1 << 24), str(d.prompt_chars)},
        {"shared-prefix-chars", "", "N", Command, kBenchFlags, "serve: length of a system message that all requests share", integer(&Options::shared_prefix_chars, 0, 1 << 24), str(d.shared_prefix_chars)},
        {"prompt-seed", "", "N", Command, kBenchFlags, "serve: another number, other prompts; a server may have cached those of a run before", integer(&Options::prompt_seed, 0, 1 << 30), str(d.prompt_seed)},
        {"warm", "", "", Command, kBenchFlags, "serve: one request with that message before, which does not count", toggle(&Options::serve_warm), ""},
        {"long-prompt-chars", "", "N", Command, kBenchFlags, "serve: length of one more prompt that arrives once all clients get text; 0: none", integer(&Options::long_prompt_chars, 0, 1 << 24), str(d.long_prompt_chars)},
        {"force", "", "", Command, kQuantizeFlags, "replace OUT if it is there", toggle(&Options::force), ""},
        {"pure", "", "", Command, kQuantizeFlags, "the same type for all matrices", toggle(&Options::pure), ""},
        {"tensor-type", "", "PART=TYPE", Command, kQuantizeFlags, "another type for matrices whose name has this part; may be repeated, the first that fits decides", add_tensor_type, "", [](Options& o) { o.tensor_types.clear(); }},
        {"kl-base", "", "FILE", Command, kPerplexityFlags, "the model to compare with: how far the predictions are from its own", string(&Options::kl_base), ""},
        {"chunks", "", "N", Command, kPerplexityFlags, "pieces of the text to look at; 0: all", integer(&Options::chunks, 0, kIntMax), str(d.chunks)},
        {"dry-run", "", "", Command, kQuantizeFlags, "print what would be done with sizes, write nothing", toggle(&Options::dry_run), ""},
        {"template", "", "FILE", Command, kRenderFlags, "the template", string(&Options::template_path), ""},
        {"context", "", "FILE", Command, kRenderFlags, "a JSON object with messages and whatever else the template reads", string(&Options::context_path), ""},

        {"host", "", "LIST", Command, kServerFlags, "addresses to listen on, separated by commas; the path of a Unix socket: with a slash, or NAME.sock", list(&Options::hosts), "127.0.0.1", forget(&Options::hosts)},
        {"port", "", "N", Command, kServerFlags, "port to listen on; 0: any free one", integer(&Options::port, 0, 65535), str(d.port)},
        {"parallel", "-np", "N", Command, kServerFlags, "requests that run at the same time", integer(&Options::parallel, 1, 256), str(d.parallel)},
        {"queue-limit", "", "N", Command, kServerFlags, "requests that wait at most; more are refused; 0: four times --parallel, at least 64", integer(&Options::queue_limit, 0, 65536), str(d.queue_limit)},
        {"cache-ram", "-cram", "MIB", Command, kServerFlags, "memory for the KV cache of all requests; 0: as much as --parallel contexts need, at most a quarter of what is free", integer(&Options::cache_ram_mib, 0, 1 << 24), str(d.cache_ram_mib)},
        {"kv-policy", "", "NAME", Command, kServerFlags, "which cached blocks go first: lru, slru", one_of(&Options::kv_policy, "lru|slru"), d.kv_policy},
        {"max-stall-ms", "", "MS", Command, kServerFlags, "a running answer waits no longer for its next token because of others' prompts; 0: twice its time alone", integer(&Options::max_stall_ms, 0, 600000), str(d.max_stall_ms)},
        {"max-body", "", "MIB", Command, kServerFlags, "largest body of a request", integer(&Options::max_body_mib, 1, 1024), str(d.max_body_mib)},
        {"max-connections", "", "N", Command, kServerFlags, "connections at the same time", integer(&Options::max_connections, 1, 65536), str(d.max_connections)},
        {"timeout", "-to", "S", Command, kServerFlags, "seconds that a client may keep a body or an answer waiting", integer(&Options::timeout, 1, 86400), str(d.timeout)},
        {"drain-timeout", "", "S", Command, kServerFlags, "seconds for running answers after SIGTERM", integer(&Options::drain_timeout, 0, 86400), str(d.drain_timeout)},
        {"alias", "-a", "LIST", Command, kServerFlags, "the model's names for clients, separated by commas, the first is told; *: any name is taken", list(&Options::aliases), "the file's name", forget(&Options::aliases)},
        {"api-key", "", "LIST", Command, kServerFlags, "keys that clients must have, separated by commas", list(&Options::api_keys), "", forget(&Options::api_keys)},
        {"api-key-file", "", "FILE", Command, kServerFlags, "a file with one key a line", string(&Options::api_key_file), ""},
        {"ssl-cert-file", "", "FILE", Command, kServerFlags, "speak TLS with this certificate and its chain (PEM)", string(&Options::ssl_cert_file), ""},
        {"ssl-key-file", "", "FILE", Command, kServerFlags, "the key of the certificate, without a password (PEM)", string(&Options::ssl_key_file), ""},
        {"api-prefix", "", "PATH", Command, kServerFlags, "all paths begin with this", set_api_prefix, ""},
        {"allow-public", "", "", Command, kServerFlags, "listen beyond this machine without a key", toggle(&Options::allow_public), ""},
        {"allowed-host", "", "LIST", Command, kServerFlags, "more names that a Host header may have; *: any", list(&Options::allowed_hosts), "", forget(&Options::allowed_hosts)},
        {"cors-origins", "", "LIST", Command, kServerFlags, "other sites whose pages may use the server, such as http://localhost:3000; *: any", list(&Options::cors_origins), "", forget(&Options::cors_origins)},
        {"pooling", "", "NAME", Command, kServerFlags, "how embeddings are made from hidden states: mean, last", one_of(&Options::pooling, "mean|last"), d.pooling},
        {"metrics", "", "", Command, kServerFlags, "accepted: GET /metrics is on unless there is --no-metrics", toggle(&Options::metrics), ""},
        {"no-metrics", "", "", Command, kServerFlags, "no GET /metrics", toggle(&Options::metrics, false), ""},
        {"slots", "", "", Command, kServerFlags, "accepted: GET /slots is on unless there is --no-slots", toggle(&Options::slots), ""},
        {"no-slots", "", "", Command, kServerFlags, "no GET /slots", toggle(&Options::slots, false), ""},
        {"slot-save-path", "", "DIR", Command, kServerFlags, "folder for states that POST /slots/ID?action=save writes", string(&Options::slot_save_path), ""},
        {"no-webui", "--no-ui", "", Command, kServerFlags, "no web page", toggle(&Options::webui, false), ""},
        {"cont-batching", "-cb", "", Command, kServerFlags, "accepted: requests always run together", toggle(&Options::accepted), ""},
        {"embeddings", "--embedding", "", Command, kServerFlags, "accepted: embeddings are always served", toggle(&Options::accepted), ""},
        {"verbose", "-v", "", Command, kServerFlags, "one line on stderr for each request", toggle(&Options::verbose), ""},
        {"print-limits", "", "", Command, kServerFlags, "print the limits of the server and end", toggle(&Options::print_limits), ""},

        {"temp", "--temperature", "X", Sampling, kChain, "temperature; 0: always the most probable token", chain_number(&S::temperature), num(s.temperature)},
        {"dynatemp-range", "", "X", Sampling, kChain, "temperature moves this far with the entropy; 0: off", chain_number(&S::dynatemp_range), num(s.dynatemp_range)},
        {"dynatemp-exp", "", "X", Sampling, kChain, "exponent of the entropy's share", chain_number(&S::dynatemp_exponent), num(s.dynatemp_exponent)},
        {"top-k", "", "N", Sampling, kChain, "keep the N best; 0 or -1: all", chain_integer(&S::top_k), str(s.top_k)},
        {"top-p", "", "X", Sampling, kChain, "keep the smallest set with this probability; 1: off", chain_number(&S::top_p), num(s.top_p)},
        {"min-p", "", "X", Sampling, kChain, "keep what is this probable relative to the best; 0: off", chain_number(&S::min_p), num(s.min_p)},
        {"typical", "--typical-p", "X", Sampling, kChain, "keep the most typical with this probability; 1: off", chain_number(&S::typical_p), num(s.typical_p)},
        {"top-n-sigma", "--top-nsigma", "X", Sampling, kChain, "keep logits within X deviations of the best; -1: off", chain_number(&S::top_n_sigma), num(s.top_n_sigma)},
        {"xtc-probability", "", "X", Sampling, kChain, "how often top choices are excluded; 0: off", chain_number(&S::xtc_probability), num(s.xtc_probability)},
        {"xtc-threshold", "", "X", Sampling, kChain, "what counts as a top choice; above 0.5: off", chain_number(&S::xtc_threshold), num(s.xtc_threshold)},
        {"repeat-last-n", "", "N", Sampling, kChain, "tokens that the penalties look back on; 0: off, -1: all", chain_integer(&S::repeat_last_n), str(s.repeat_last_n)},
        {"repeat-penalty", "", "X", Sampling, kChain, "makes tokens that occurred less likely; 1: off", chain_number(&S::repeat_penalty), num(s.repeat_penalty)},
        {"presence-penalty", "", "X", Sampling, kChain, "taken from logits of tokens that occurred", chain_number(&S::presence_penalty), num(s.presence_penalty)},
        {"frequency-penalty", "", "X", Sampling, kChain, "taken from logits for each occurrence", chain_number(&S::frequency_penalty), num(s.frequency_penalty)},
        {"dry-multiplier", "", "X", Sampling, kChain, "strength of the penalty on repeated sequences; 0: off", chain_number(&S::dry_multiplier), num(s.dry_multiplier)},
        {"dry-base", "", "X", Sampling, kChain, "how it grows with each repeated token", chain_number(&S::dry_base), num(s.dry_base)},
        {"dry-allowed-length", "", "N", Sampling, kChain, "repetitions up to this length are free", chain_integer(&S::dry_allowed_length), str(s.dry_allowed_length)},
        {"dry-penalty-last-n", "", "N", Sampling, kChain, "tokens to look back on; 0: off, -1: all", chain_integer(&S::dry_penalty_last_n), str(s.dry_penalty_last_n)},
        {"dry-sequence-breaker", "", "TEXT", Sampling, kChain, "text that ends a repetition; may be repeated, none: no breaker", add_breaker, "\\n : \" *", [](Options& o) { o.dry_sequence_breakers.clear(); }},
        {"seed", "-s", "N", Sampling, kChain, "seed of the random numbers; -1: a new one", set_seed, "-1"},
        {"logit-bias", "-l", "ID+B", Sampling, kChain, "add B to a token's logit, ID-inf: never; may be repeated", add_bias, "", [](Options& o) { o.sampling.logit_bias.clear(); }},
        {"samplers", "", "LIST", Sampling, kChain, "the samplers in their order, separated by ;", set_samplers, "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"},
        {"sampler-seq", "--sampling-seq", "LETTERS", Sampling, kChain, "the same as letters", set_samplers, "edskypmxt"},
        // clang-format on
    };
}

// The rows of one command under every name that they have, with dashes.
using Names = std::map<std::string, const FlagRow*, std::less<>>;

Names names_of(const CommandDef& command) {
    Names names;
    for (const FlagRow& row : all_flags()) {
        if (!(row.sets & command.flags)) continue;
        for (const std::string& name : flag_names(row))
            names.emplace(name, &row);
    }
    return names;
}

bool is_flag(std::string_view arg) {
    return arg.size() > 1 && arg[0] == '-';
}

// "-n5" is -n with a value; "-ngl" is a name of its own.
bool short_with_value(std::string_view arg, const Names& names) {
    if (arg.size() < 3 || arg[1] == '-') return false;
    const auto found = names.find(arg.substr(0, 2));
    if (found == names.end() || found->second->stands_alone()) return false;
    return std::string_view("0123456789+-.=").find(arg[2]) != std::string_view::npos;
}

Error unknown_flag(std::string_view arg, const Names& names) {
    std::vector<std::string> known = {"--help"};
    for (const auto& [name, row] : names)
        known.push_back(name);
    const std::string near = nearest(arg, known);
    return {Status::BadRequest,
            "unknown flag " + shown(arg) +
                (near.empty() ? "; see --help" : "; did you mean " + near + "?")};
}

// Arguments sorted: flags with their values for CLI11, and the rest.
struct Sorted {
    std::vector<std::string> flags, rest;
};

// Rewrites names to "--long" and refuses unknown ones; values pass untouched.
Result<Sorted> sort_arguments(std::span<const std::string> args, const Names& names) {
    Sorted out;
    for (size_t i = 0; i < args.size(); ++i) {
        const std::string& arg = args[i];
        if (arg == "--") {
            out.rest.insert(out.rest.end(), args.begin() + static_cast<ptrdiff_t>(i) + 1,
                            args.end());
            break;
        }
        if (!is_flag(arg)) {
            out.rest.push_back(arg);
            continue;
        }
        if (short_with_value(arg, names)) {
            out.flags.push_back(arg);
            continue;
        }
        const size_t equals = arg.rfind("--", 0) == 0 ? arg.find('=') : std::string::npos;
        const std::string name = arg.substr(0, equals);
        const auto found = names.find(name);
        if (found == names.end()) return unknown_flag(name, names);
        const FlagRow& row = *found->second;
        const std::string long_name = "--" + std::string(row.name);
        if (equals != std::string::npos && row.stands_alone()) {
            return Error{Status::BadRequest, long_name + ": stands alone, got a value " +
                                                 shown(arg.substr(equals + 1))};
        }
        out.flags.push_back(equals == std::string::npos ? long_name
                                                        : long_name + arg.substr(equals));
        if (row.stands_alone() || equals != std::string::npos) continue;
        if (i + 1 == args.size()) {
            return Error{Status::BadRequest, long_name + ": expected a value " + row.arg};
        }
        out.flags.push_back(args[++i]);
    }
    return out;
}

Result<void> apply(Options& options,
                   const FlagRow& row,
                   std::string_view name,
                   std::string_view value) {
    const auto set = row.set(options, value);
    if (set) return {};
    return Error{Status::BadRequest, std::string(name) + ": " + set.error().message};
}

Result<void> read_environment(Options& options, const CommandDef& command) {
    for (const FlagRow& row : all_flags()) {
        const char* value = std::getenv(environment_name(row).c_str());
        if (!value || !(row.sets & command.flags)) continue;
        if (row.clear) row.clear(options);
        NIB_TRY(apply(options, row, environment_name(row), value));
    }
    return {};
}

// Tells CLI11 about the rows of a command.
std::vector<std::pair<const FlagRow*, CLI::Option*>> register_flags(
    CLI::App& app, std::vector<std::string>& values, uint32_t flags) {
    std::vector<std::pair<const FlagRow*, CLI::Option*>> registered;
    values.resize(all_flags().size());  // bound by reference, so never resized again
    for (const FlagRow& row : all_flags()) {
        if (!(row.sets & flags)) continue;
        std::string names = "--" + std::string(row.name);
        for (const std::string& name : flag_names(row)) {
            if (name.size() == 2) names += "," + name;
        }
        CLI::Option* option = row.stands_alone() ? app.add_flag(names)
                                                 : app.add_option(names, values[registered.size()]);
        if (!row.stands_alone()) option->expected(1)->allow_extra_args(false);
        option->multi_option_policy(row.clear ? CLI::MultiOptionPolicy::TakeAll
                                              : CLI::MultiOptionPolicy::TakeLast);
        registered.emplace_back(&row, option);
    }
    return registered;
}

Result<void> read_flags(Options& options,
                        const CommandDef& command,
                        std::vector<std::string> args) {
    CLI::App app;
    app.set_help_flag();
    std::vector<std::string> values;
    const auto registered = register_flags(app, values, command.flags);
    std::reverse(args.begin(), args.end());  // CLI11 takes them from the back
    app.parse(args);
    for (const auto& [row, option] : registered) {
        if (option->count() == 0) continue;
        const std::string name = "--" + std::string(row->name);
        if (row->clear) row->clear(options);
        std::vector<std::string> given = option->results();
        if (row->stands_alone()) given = {"on"};
        if (!row->clear) given.erase(given.begin(), given.end() - 1);  // the last one wins
        for (const std::string& value : given)
            NIB_TRY(apply(options, *row, name, value));
    }
    return {};
}

}  // namespace

std::span<const FlagRow> all_flags() {
    static const std::vector<FlagRow> flags = make_flags();
    return flags;
}

bool asks_for_help(const CommandDef& command, std::span<const std::string> args) {
    const Names names = names_of(command);
    for (size_t i = 0; i < args.size(); ++i) {
        if (args[i] == "--") return false;
        if (args[i] == "-h" || args[i] == "--help") return true;
        const auto found = names.find(args[i]);
        if (found != names.end() && !found->second->stands_alone()) ++i;
    }
    return false;
}

Result<Options> parse_options(const CommandDef& command, std::span<const std::string> args) {
    Options options;
    options.model = default_model_path();
    options.sampling.seed = fresh_seed();
    NIB_TRY(read_environment(options, command));
    NIB_ASSIGN(auto sorted, sort_arguments(args, names_of(command)));
    options.args = std::move(sorted.rest);
    try {
        NIB_TRY(read_flags(options, command, std::move(sorted.flags)));
    } catch (const std::exception& e) {
        return Error{Status::BadRequest, std::string("command line: ") + e.what()};
    }
    if (options.args.size() > command.args_max) {
        return Error{Status::BadRequest,
                     "unexpected argument " + shown(options.args[command.args_max]) + "; nib " +
                         command.name + " takes " +
                         (command.args_max == 0 ? "flags only" : command.usage)};
    }
    return options;
}

EngineOptions engine_options(const Options& options) {
    EngineOptions engine;
    engine.model_path = options.model;
    engine.context = options.ctx_size;
    engine.ubatch = options.ubatch_size;
    engine.threads = options.threads;
    engine.cpu_level = options.cpu_level;
    engine.cache_type_k = options.cache_type_k;
    engine.cache_type_v = options.cache_type_v;
    engine.allow_unknown_pre = options.allow_unknown_pre;
    engine.check_tensors = options.check_tensors;
    return engine;
}

std::string default_model_path() {
    const char* cache = std::getenv("XDG_CACHE_HOME");
    const char* home = std::getenv("HOME");
    std::string base = cache && cache[0] == '/' ? cache : std::string(home ? home : "") + "/.cache";
    return base + "/nib/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

}  // namespace nib
