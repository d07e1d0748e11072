// SPDX-License-Identifier: MIT
#include "tests/cli/helpers.h"

#include <cstdio>
#include <cstdlib>

namespace nib::test {

ProcessResult Cli::nib(std::vector<std::string> args,
                       std::string_view input,
                       std::vector<std::pair<std::string, std::string>> env) const {
    args.insert(args.begin(), nib_path());
    env.insert(env.begin(),
               {{"XDG_CACHE_HOME", folder() + "/cache"}, {"XDG_STATE_HOME", folder() + "/state"}});
    return run_process(args, input, env);
}

ProcessResult Cli::shell(const std::string& before, const std::string& rest) const {
    return run_process({"/bin/sh", "-c", before + " \"$0\" " + rest, nib_path()}, {},
                       {{"XDG_STATE_HOME", folder() + "/state"}});
}

std::string Cli::write(std::string_view name, std::string_view bytes) const {
    write_file(folder_.file(name), bytes);
    return folder_.file(name);
}

std::string Cli::vocabulary() const {
    std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
    std::vector<float> scores = {0, 0, 0};
    std::vector<int32_t> types = {2, 3, 3};
    for (int byte = 0; byte < 256; ++byte) {
        char name[8];
        std::snprintf(name, sizeof name, "<0x%02X>", byte);
        tokens.emplace_back(name);
        scores.push_back(0);
        types.push_back(6);
    }
    float score = -1;
    for (const char* piece : {"\xe2\x96\x81", "a", "b", "ab",
                              "\xe2\x96\x81"
                              "ab"}) {
        tokens.emplace_back(piece);
        scores.push_back(score);
        types.push_back(1);
        score += 0.125f;  // later pieces are better
    }
    GgufBytes file;
    file.add_string("general.architecture", "llama")
        .add_string("general.name", "tiny\x1b[31m vocabulary")
        .add_string("tokenizer.ggml.model", "llama")
        .add_strings("tokenizer.ggml.tokens", tokens)
        .add_f32s("tokenizer.ggml.scores", scores)
        .add_i32s("tokenizer.ggml.token_type", types)
        .add_u32("tokenizer.ggml.bos_token_id", 1)
        .add_u32("tokenizer.ggml.eos_token_id", 2)
        .add_u32("tokenizer.ggml.unknown_token_id", 0)
        .add_bool("tokenizer.ggml.add_bos_token", true)
        .add_bool("tokenizer.ggml.add_eos_token", false);
    return write("vocabulary.gguf", file.bytes());
}

std::string test_model() {
    const char* cache = std::getenv("XDG_CACHE_HOME");
    const char* home = std::getenv("HOME");
    const std::string base =
        cache && cache[0] == '/' ? cache : std::string(home ? home : "") + "/.cache";
    const std::string path = base + "/nib/models/SmolLM2-135M-Instruct.Q4_1.gguf";
    return file_exists(path) ? path : std::string();
}

}  // namespace nib::test
