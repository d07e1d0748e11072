// SPDX-License-Identifier: MIT
// Nothing is thrown at a caller of C: what the standard library throws (no memory) becomes an
// error.
#include "src/engine_c.h"

#include "src/engine.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

struct nib_engine {
    std::unique_ptr<nib::Engine> engine;
};

struct nib_stream {
    std::unique_ptr<nib::Stream> stream;
    std::string text;  // of the last event
    std::vector<int32_t> tokens;
};

namespace nib {
namespace {

int status_number(Status status) {
    switch (status) {
    case Status::BadFile:
        return NIB_BAD_FILE;
    case Status::Unsupported:
        return NIB_UNSUPPORTED;
    case Status::BadRequest:
        return NIB_BAD_REQUEST;
    case Status::TooLong:
        return NIB_TOO_LONG;
    case Status::OutOfMemory:
        return NIB_OUT_OF_MEMORY;
    case Status::Busy:
        return NIB_BUSY;
    case Status::Io:
        return NIB_IO;
    case Status::Device:
        return NIB_DEVICE;
    case Status::Cancelled:
        return NIB_CANCELLED;
    case Status::Internal:
        break;
    }
    return NIB_INTERNAL;
}

void tell(nib_error* out, int status, std::string_view message) {
    if (!out) return;
    out->status = status;
    const size_t n = std::min(message.size(), sizeof out->message - 1);
    std::memcpy(out->message, message.data(), n);
    out->message[n] = '\0';
}

void tell(nib_error* out, const Error& error) {
    tell(out, status_number(error.status), error.message);
}

// Whether a struct from the caller is as large as it was when this field was its last.
template <class Struct, class Field>
bool reaches(const Struct* s, const Field& field) {
    const auto* begin = reinterpret_cast<const char*>(s);
    const auto* end = reinterpret_cast<const char*>(&field) + sizeof field;
    return s->size >= static_cast<size_t>(end - begin);
}

// Runs what may throw for lack of memory.
template <class F>
auto guarded(nib_error* error, F f) -> decltype(f()) {
    try {
        return f();
    } catch (const std::exception& e) {
        tell(error, NIB_OUT_OF_MEMORY, e.what());
        return {};
    }
}

nib_engine* open_engine(const nib_engine_options* o, nib_error* error) {
    if (!o || !reaches(o, o->kv_bytes) || !o->model_path) {
        tell(error, NIB_BAD_REQUEST, "options: expected size and model_path");
        return nullptr;
    }
    EngineOptions options;
    options.model_path = o->model_path;
    options.context = o->context;
    options.parallel = o->parallel ? o->parallel : 1;
    options.threads = o->threads;
    options.kv_bytes = o->kv_bytes;
    auto engine = Engine::create(options);
    if (!engine.ok()) return tell(error, engine.error()), nullptr;
    return new nib_engine{std::move(*engine)};
}

nib_stream* submit(nib_engine* engine, const nib_request* r, nib_error* error) {
    if (!engine) {
        tell(error, NIB_BAD_REQUEST, "engine: expected one, got NULL");
        return nullptr;
    }
    if (!r || !reaches(r, r->ignore_eos) || (r->prompt_n && !r->prompt) ||
        (r->stop_n && !r->stop)) {
        tell(error, NIB_BAD_REQUEST, "request: expected size, prompt and stop");
        return nullptr;
    }
    Request request;
    request.prompt.assign(r->prompt, r->prompt + r->prompt_n);
    request.max_tokens = r->max_tokens;
    request.sampling.temperature = r->temperature;
    request.sampling.top_k = r->top_k;
    request.sampling.top_p = r->top_p > 0 ? r->top_p : 1;
    request.sampling.min_p = r->min_p;
    request.sampling.seed = r->seed;
    for (size_t i = 0; i < r->stop_n; i++) {
        if (!r->stop[i]) {
            tell(error, NIB_BAD_REQUEST,
                 "stop[" + std::to_string(i) + "]: expected a text, got NULL");
            return nullptr;
        }
        request.stop.emplace_back(r->stop[i]);
    }
    request.priority = r->priority;
    request.ignore_eos = r->ignore_eos != 0;
    auto stream = engine->engine->submit(std::move(request));
    if (!stream.ok()) return tell(error, stream.error()), nullptr;
    return new nib_stream{std::move(*stream), {}, {}};
}

int finish_number(FinishReason reason) {
    switch (reason) {
    case FinishReason::Stop:
        return NIB_FINISH_STOP;
    case FinishReason::Length:
        return NIB_FINISH_LENGTH;
    case FinishReason::Cancelled:
        break;
    }
    return NIB_FINISH_CANCELLED;
}

// The end of a stream that cannot go on: who reads until `done` comes to an end.
int end_with(nib_event* out, int status, const char* message) {
    *out = {};
    out->text = "";
    out->done = 1;
    out->finish = NIB_FINISH_CANCELLED;
    tell(&out->error, status, message);
    return 1;
}

int next(nib_stream* s, int32_t timeout_ms, nib_event* out) {
    auto event = s->stream->next(std::chrono::milliseconds(std::max(timeout_ms, 0)));
    if (!event) return 0;
    s->text = std::move(event->text);
    s->tokens.clear();
    for (const GeneratedToken& t : event->tokens)
        s->tokens.push_back(t.id);
    *out = {};
    out->text = s->text.c_str();
    out->text_n = s->text.size();
    out->tokens = s->tokens.data();
    out->tokens_n = s->tokens.size();
    out->done = event->done;
    out->finish = event->done ? finish_number(event->finish) : NIB_FINISH_NONE;
    if (event->error) tell(&out->error, *event->error);
    return 1;
}

}  // namespace
}  // namespace nib

nib_engine* nib_engine_open(const nib_engine_options* options, nib_error* error) {
    return nib::guarded(error, [&] { return nib::open_engine(options, error); });
}

void nib_engine_close(nib_engine* engine) {
    delete engine;
}

int32_t nib_engine_context(const nib_engine* engine) {
    return !engine ? 0 : engine->engine->model().n_ctx;
}

int32_t nib_engine_vocabulary(const nib_engine* engine) {
    return !engine ? 0 : engine->engine->model().n_vocab;
}

void nib_engine_stats(const nib_engine* engine, nib_stats* stats) {
    if (!stats) return;
    *stats = {};
    if (!engine) return;
    nib::guarded(nullptr, [&] {
        const nib::EngineStats s = engine->engine->stats();
        *stats = {s.running,       s.waiting,          s.blocks_used,
                  s.blocks_cached, s.blocks_free,      s.prompt_tokens,
                  s.cached_tokens, s.predicted_tokens, s.preemptions};
        return 0;
    });
}

size_t nib_tokenize(const nib_engine* engine,
                    const char* text,
                    size_t text_n,
                    int add_special,
                    int parse_special,
                    int32_t* tokens,
                    size_t capacity) {
    if (!engine || (!text && text_n)) return 0;
    if (!tokens) capacity = 0;
    return nib::guarded(nullptr, [&] {
        const auto ids = engine->engine->tokenizer()->encode({text, text_n}, add_special != 0,
                                                             parse_special != 0);
        std::copy_n(ids.begin(), std::min(ids.size(), capacity), tokens);
        return ids.size();
    });
}

size_t nib_detokenize(
    const nib_engine* engine, const int32_t* tokens, size_t tokens_n, char* text, size_t capacity) {
    if (!engine || (!tokens && tokens_n)) return 0;
    if (!text) capacity = 0;
    return nib::guarded(nullptr, [&] {
        const std::string s = engine->engine->tokenizer()->decode({tokens, tokens_n});
        std::copy_n(s.begin(), std::min(s.size(), capacity), text);
        return s.size();
    });
}

nib_stream* nib_submit(nib_engine* engine, const nib_request* request, nib_error* error) {
    return nib::guarded(error, [&] { return nib::submit(engine, request, error); });
}

int nib_stream_next(nib_stream* stream, int32_t timeout_ms, nib_event* event) {
    if (!event) return 0;
    if (!stream) return nib::end_with(event, NIB_BAD_REQUEST, "stream: expected one, got NULL");
    try {
        return nib::next(stream, timeout_ms, event);
    } catch (const std::exception&) {
        stream->stream->cancel();
        return nib::end_with(event, NIB_OUT_OF_MEMORY, "no memory for the event");
    }
}

void nib_stream_cancel(nib_stream* stream) {
    if (stream) stream->stream->cancel();
}

void nib_stream_close(nib_stream* stream) {
    delete stream;
}
