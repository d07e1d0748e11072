// SPDX-License-Identifier: MIT
// The flags of all commands. Each flag is one row of the table in options.cpp; the command line,
// NIB_* environment variables, help pages, completions and "did you mean" all come from the rows.
//
// Precedence: command line, then environment, then built-in. Numbers are strict: decimal, in range,
// nothing behind them. A flag given twice: the last wins; lists collect. What is not a flag of the
// command is refused.
#pragma once
#include "ggml-like/result.h"
#include "src/engine.h"
#include "src/sample/sampler.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nib {

struct CommandDef;

// Sets of rows. A command names the sets that it reads; a row belongs to one or more.
enum FlagSet : uint32_t {
    kModelFlags = 1 << 0,     // which model and its tokenizer
    kEngineFlags = 1 << 1,    // context, threads, steps
    kSamplingFlags = 1 << 2,  // the chain and the seed
    kGenerateFlags = 1 << 3,  // length and ends of the text
    kPromptFlags = 1 << 4,    // where the text comes from
    kChatFlags = 1 << 5,      // conversation and template
    kJsonFlags = 1 << 6,      // --json
    kTokenizeFlags = 1 << 7,
    kInspectFlags = 1 << 8,
    kRenderFlags = 1 << 9,  // nib template
    kScoreFlags = 1 << 10,
    kBenchFlags = 1 << 11,
    kQuantizeFlags = 1 << 16,
    kPerplexityFlags = 1 << 17,
    kServerFlags = 1 << 18,
};

enum class When { Auto, On, Off };

struct Options {
    // Model and engine.
    std::string model;  // a path, never empty
    bool default_model = true;
    int32_t ctx_size = 0;
    int32_t ubatch_size = 0;  // 0: by the size of the model
    int32_t threads = 0;
    std::string cpu_level;
    std::string cache_type_k = "f16", cache_type_v = "f16";
    bool allow_unknown_pre = false;
    bool check_tensors = false;

    // Generation.
    int32_t predict = -1;
    bool ignore_eos = false;
    std::vector<std::string> reverse_prompts;
    SamplingParams sampling;  // seed: drawn already; dry_breakers: not filled in
    bool seed_given = false;
    std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};

    // Prompt and conversation.
    std::optional<std::string> prompt;
    std::string file;
    bool escape = false;
    std::string system_prompt, system_prompt_file;
    bool single_turn = false;
    When color = When::Auto;
    std::string chat_template;  // a name
    std::string chat_template_file;
    std::string chat_template_kwargs;

    // Output and tools.
    bool json = false;
    bool ids = false, pieces = false, count = false, decode = false;
    bool add_special = false, parse_special = true;
    std::string get_key;
    std::string template_path, context_path;
    std::string prompts_path, output_path;
    int32_t top = 20, greedy = 48;
    // nib bench: comma lists, empty where the flag was not given.
    std::string bench_prompt, bench_generate, bench_batch, bench_depth, bench_verify;
    int32_t batch_prompt = 128;
    int32_t repetitions = 5;
    bool measure_limits = true;
    std::string synthetic, synthetic_type = "q4_k_m", write_path;
    // nib bench serve.
    std::string serve_url = "http://127.0.0.1:8080";
    int32_t serve_clients = 8, serve_requests = 24;
    int32_t prompt_chars = 200, shared_prefix_chars = 0, long_prompt_chars = 0;
    int32_t prompt_seed = 1;
    bool serve_warm = false;
    bool force = false, pure = false, dry_run = false;
    std::vector<std::string> tensor_types;  // "PART=TYPE"
    std::string kl_base;
    int32_t chunks = 0;  // 0: all

    // nib serve.
    std::vector<std::string> hosts = {"127.0.0.1"};
    int32_t port = 8080;
    int32_t parallel = 8;
    int32_t queue_limit = 0;    // 0: four times parallel, at least 64
    int32_t cache_ram_mib = 0;  // of all KV; 0: the engine chooses
    std::string kv_policy = "lru";
    int32_t max_stall_ms = 0;
    int32_t max_body_mib = 16;
    int32_t max_connections = 1024;
    int32_t drain_timeout = 30;  // seconds
    int32_t timeout = 30;        // seconds
    std::vector<std::string> allowed_hosts, cors_origins, api_keys, aliases;
    std::string api_key_file, api_prefix, ssl_cert_file, ssl_key_file;
    std::string slot_save_path;  // folder of saved states; "": none
    std::string pooling = "mean";
    bool metrics = true, slots = true, webui = true, allow_public = false;
    bool verbose = false, print_limits = false;
    bool accepted = false;          // flags that ask for what is always so
    std::vector<std::string> args;  // what is not a flag
};

EngineOptions engine_options(const Options& options);

enum class FlagSection { Common, Sampling, Command };

struct FlagRow {
    const char* name;     // long, without dashes
    const char* aliases;  // others, with dashes, separated by spaces: "-ub --ubatch"
    const char* arg;      // name of the value; empty for a flag that stands alone
    FlagSection section;
    uint32_t sets;
    const char* help;
    // Stores a value; an error says "expected ..., got ..." without the flag's name. A list is
    // called for each value. A flag that stands alone gets "on" or "off".
    std::function<Result<void>(Options&, std::string_view)> set;
    std::string default_text;  // empty: not shown
    // Lists only: forgets the values of a weaker source before the first one of a stronger.
    std::function<void(Options&)> clear = nullptr;

    bool stands_alone() const { return arg[0] == '\0'; }
};

std::span<const FlagRow> all_flags();

// args: what follows the command's name. Errors: BadRequest that names the flag or variable.
Result<Options> parse_options(const CommandDef& command, std::span<const std::string> args);
// True if the arguments ask for help, not counting values of other flags.
bool asks_for_help(const CommandDef& command, std::span<const std::string> args);
// ${XDG_CACHE_HOME:-~/.cache}/nib/models/SmolLM2-135M-Instruct.Q4_1.gguf
std::string default_model_path();

}  // namespace nib
