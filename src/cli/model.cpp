// SPDX-License-Identifier: MIT
#include "src/cli/model.h"

#include "src/cli/output.h"
#include "src/option_values.h"
#include "src/sample/dry_breakers.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <unistd.h>

namespace nib {
namespace {

// A bar that is redrawn when its percentage changes and erased when the object dies.
class ProgressBar {
  public:
    ProgressBar() : visible_(isatty(STDERR_FILENO) == 1) {}
    ~ProgressBar() {
        if (shown_ >= 0) write_stderr("\r\033[K");
    }
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;

    void show(double share) {
        constexpr int kWidth = 40;
        const int percent = static_cast<int>(std::clamp(share, 0.0, 1.0) * 100);
        if (!visible_ || percent == shown_) return;
        shown_ = percent;
        const auto full = static_cast<size_t>(percent * kWidth / 100);
        std::string bar(kWidth, '.');
        bar.replace(0, full, full, '#');
        write_stderr("\rloading [" + bar + "] " + std::to_string(percent) + "%");
    }

  private:
    bool visible_;
    int shown_ = -1;
};

std::string rate(int32_t tokens, double ms) {
    char text[96];
    std::snprintf(text, sizeof text, "%d tokens in %.0f ms (%.1f tokens/s)", tokens, ms,
                  ms > 0 ? tokens * 1000.0 / ms : 0.0);
    return text;
}

}  // namespace

Result<void> check_model_exists(const Options& options) {
    if (access(options.model.c_str(), F_OK) == 0) return {};
    return Error{Status::BadRequest,
                 "model " + options.model + ": " + std::strerror(errno) + "; " +
                     (options.default_model ? "run ./scripts/fetch-models, or give one with -m FILE"
                                            : "run ./scripts/fetch-models for the default model")};
}

Result<std::unique_ptr<Engine>> open_engine(const Options& options) {
    NIB_TRY(check_model_exists(options));
    ProgressBar bar;
    EngineOptions engine = engine_options(options);
    engine.progress = [&bar](double share) {
        bar.show(share);
        return true;
    };
    engine.log = [](LogLevel level, const std::string& message) {
        if (level == LogLevel::Warning) write_stderr("warning: " + message + "\n");
    };
    return Engine::create(engine);
}

Result<std::string> prompt_text(const Options& options) {
    if (options.prompt && !options.file.empty()) {
        return Error{Status::BadRequest, "expected one of --prompt and --file, got both"};
    }
    std::string text;
    if (options.prompt) {
        text = *options.prompt;
    } else {
        NIB_ASSIGN(text, read_input(options.file.empty() ? "-" : options.file));
    }
    return options.escape ? unescape(text) : text;
}

Request base_request(const Options& options, const Engine& engine) {
    Request request;
    request.max_tokens = options.predict;
    request.sampling = options.sampling;
    if (options.sampling.dry_multiplier > 0) {
        request.sampling.dry_breakers =
            make_dry_breakers(*engine.tokenizer(), options.dry_sequence_breakers);
    }
    request.ignore_eos = options.ignore_eos;
    request.stop = options.reverse_prompts;
    return request;
}

std::string statistics(const Completion& completion, uint64_t seed) {
    const Timings& t = completion.timings;
    std::string text = "prompt: " + rate(t.prompt_n, t.prompt_ms);
    if (t.cached_n > 0) text += ", " + std::to_string(t.cached_n) + " from the cache";
    text += "; answer: " + rate(t.predicted_n, t.predicted_ms);
    if (t.draft_n > 0) {
        text += ", " + std::to_string(t.draft_n_accepted) + " of " + std::to_string(t.draft_n) +
                " drafted tokens accepted";
    }
    return text + "; " + finish_reason_name(completion.finish) + "; seed " + std::to_string(seed);
}

}  // namespace nib
