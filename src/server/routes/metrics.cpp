// SPDX-License-Identifier: MIT
// Prometheus text: the names that dashboards of llama.cpp's server read, vLLM's histograms, and our
// own counters.
#include "src/server/route.h"
#include "src/server/state.h"

#include <cstdio>

namespace nib {
namespace {

std::string number(double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", value);
    return text;
}

class MetricsText {
  public:
    void counter(const char* name, const char* help, double value) {
        head(name, help, "counter");
        text_ += std::string(name) + " " + number(value) + "\n";
    }
    void gauge(const char* name, const char* help, double value) {
        head(name, help, "gauge");
        text_ += std::string(name) + " " + number(value) + "\n";
    }
    // One metric with a label of several values.
    struct Labelled {
        const char* value;
        double number;
    };
    void labelled(const char* name,
                  const char* help,
                  const char* type,
                  const char* label,
                  std::initializer_list<Labelled> values) {
        head(name, help, type);
        for (const Labelled& v : values) {
            text_ += std::string(name) + "{" + label + "=\"" + v.value + "\"} " + number(v.number) +
                     "\n";
        }
    }
    void histogram(const std::string& name, const char* help, const Histogram& h) {
        head(name.c_str(), help, "histogram");
        uint64_t below = 0;
        for (size_t b = 0; b < h.counts().size(); b++) {
            below += h.counts()[b];
            char bound[32] = "+Inf";
            if (b < h.bounds().size()) std::snprintf(bound, sizeof bound, "%g", h.bounds()[b]);
            text_ += name + "_bucket{le=\"" + bound + "\"} " + std::to_string(below) + "\n";
        }
        text_ += name + "_sum " + number(h.sum()) + "\n";
        text_ += name + "_count " + std::to_string(h.count()) + "\n";
    }
    std::string take() { return std::move(text_); }

  private:
    void head(const char* name, const char* help, const char* type) {
        text_ +=
            std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
    }
    std::string text_;
};

double per_second(uint64_t n, double seconds) {
    return seconds > 0 ? static_cast<double>(n) / seconds : 0;
}

void add_llamacpp(MetricsText& m, const EngineStats& s) {
    m.counter("llamacpp:prompt_tokens_total", "Number of prompt tokens processed.",
              static_cast<double>(s.prompt_tokens));
    m.counter("llamacpp:prompt_tokens_cached_total", "Number of prompt tokens found in the cache.",
              static_cast<double>(s.cached_tokens));
    m.counter("llamacpp:prompt_seconds_total", "Prompt process time", s.prompt_seconds);
    m.counter("llamacpp:tokens_predicted_total", "Number of generation tokens processed.",
              static_cast<double>(s.predicted_tokens));
    m.counter("llamacpp:tokens_predicted_seconds_total", "Predict process time",
              s.predicted_seconds);
    m.counter("llamacpp:n_decode_total", "Steps of the model", static_cast<double>(s.steps));
    m.gauge("llamacpp:n_tokens_max", "Largest number of tokens of a sequence", s.longest_request);
    m.gauge("llamacpp:n_busy_slots_per_decode", "Rows in a step, on average",
            s.steps ? static_cast<double>(s.step_rows) / static_cast<double>(s.steps) : 0);
    m.gauge("llamacpp:prompt_tokens_seconds", "Prompt throughput in tokens/s.",
            per_second(s.prompt_tokens, s.prompt_seconds));
    m.gauge("llamacpp:predicted_tokens_seconds", "Generation throughput in tokens/s.",
            per_second(s.predicted_tokens, s.predicted_seconds));
    m.gauge("llamacpp:requests_processing", "Requests that run.", s.running);
    m.gauge("llamacpp:requests_deferred", "Requests that wait.", s.waiting);
}

void add_vllm(MetricsText& m, const EngineStats& s) {
    m.histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.",
                s.time_to_first_token);
    m.histogram("vllm:inter_token_latency_seconds", "Between two tokens of a request.",
                s.inter_token_latency);
    m.histogram("vllm:request_queue_time_seconds", "From arrival to the first step.", s.queue_time);
    m.histogram("vllm:e2e_request_latency_seconds", "From arrival to the end.", s.request_latency);
    m.gauge("vllm:num_requests_running", "Requests that run.", s.running);
    m.gauge("vllm:num_requests_waiting", "Requests that wait.", s.waiting);
    const double blocks = s.blocks_used + s.blocks_cached + s.blocks_free;
    m.gauge("vllm:kv_cache_usage_perc", "Share of the KV blocks that running requests hold.",
            blocks > 0 ? s.blocks_used / blocks : 0);
}

void add_own(MetricsText& m, const EngineStats& s, const ServerState::Counters& c) {
    m.labelled("nib:kv_blocks", "KV blocks: held by requests, cached, free.", "gauge", "state",
               {{"used", static_cast<double>(s.blocks_used)},
                {"cached", static_cast<double>(s.blocks_cached)},
                {"free", static_cast<double>(s.blocks_free)}});
    m.gauge("nib:kv_blocks_used", "KV blocks that requests hold.", s.blocks_used);
    m.gauge("nib:kv_blocks_total", "All KV blocks.",
            s.blocks_used + s.blocks_cached + s.blocks_free);
    m.labelled("nib:memory_bytes", "Memory by use.", "gauge", "pool",
               {{"kv", static_cast<double>(s.kv_bytes_used)},
                {"kv_limit", static_cast<double>(s.kv_bytes_total)}});
    m.counter("nib:cache_hit_tokens_total", "Prompt tokens that were cached.",
              static_cast<double>(s.cached_tokens));
    m.counter("nib:kv_blocks_evicted_total", "Cached blocks that went for new ones.",
              static_cast<double>(s.evicted_blocks));
    m.counter("nib:preemptions_total", "Requests that were put back for lack of blocks.",
              static_cast<double>(s.preemptions));
    m.counter("nib:recomputed_tokens_total", "Tokens that were computed again after that.",
              static_cast<double>(s.recomputed_tokens));
    m.labelled("nib:requests_total", "Requests that are over, by how they ended.", "counter", "end",
               {{"done", static_cast<double>(s.requests_done)},
                {"cancelled", static_cast<double>(s.requests_cancelled)},
                {"failed", static_cast<double>(s.requests_failed)}});
    m.counter("nib:requests_cancelled_total", "Requests whose client left.",
              static_cast<double>(s.requests_cancelled));
    m.labelled("nib:requests_rejected_total", "Requests that were refused, by reason.", "counter",
               "reason",
               {{"busy", static_cast<double>(c.busy)},
                {"unavailable", static_cast<double>(c.unavailable)},
                {"unauthorized", static_cast<double>(c.unauthorized)},
                {"forbidden", static_cast<double>(c.forbidden)},
                {"malformed", static_cast<double>(c.malformed)}});
}

HttpResponse handle(ServerState& server, HttpRequest&) {
    if (!server.options().metrics) {
        ApiError error;
        error.status = 501;
        error.message = "GET /metrics is switched off (--no-metrics)";
        error.code = "not_supported";
        return error_response(error);
    }
    const EngineStats stats = server.engine()->stats();
    MetricsText text;
    add_llamacpp(text, stats);
    add_vllm(text, stats);
    add_own(text, stats, server.counters);
    HttpResponse response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = text.take();
    response.set_header("Process-Start-Time-Unix", std::to_string(server.started_unix()));
    return response;
}

}  // namespace

extern const RouteDef route_metrics = {
    .method = "GET",
    .paths = "/metrics",
    .quick = true,
    .handle = handle,
};

}  // namespace nib
