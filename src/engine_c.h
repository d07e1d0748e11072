// SPDX-License-Identifier: MIT
/* The engine for other languages: plain C, opaque handles, no globals. The same rules as engine.h:
 * functions of an engine may be called from any thread, a stream has one reader.
 *
 * Who gets memory: what a call writes into a caller's struct lives until the next call with the
 * same handle, or until the handle is closed; everything else is copied. Functions that can fail
 * return 0 (or NULL) and fill `error` if it is not NULL. Strings are UTF-8 with a final zero.
 *
 * A null pointer is an answer, not a crash: no engine has no tokens and no context, a request to it
 * is NIB_BAD_REQUEST, a null stream is done with NIB_BAD_REQUEST, closing nothing does nothing.
 * Order of closing: streams may outlive their engine. A handle that was closed must not be used.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NIB_API __attribute__((visibility("default")))

typedef struct nib_engine nib_engine;
typedef struct nib_stream nib_stream;

/* Numbers of nib_error.status; they stay as they are. */
enum {
    NIB_OK = 0,
    NIB_BAD_FILE = 1,
    NIB_UNSUPPORTED = 2,
    NIB_BAD_REQUEST = 3,
    NIB_TOO_LONG = 4,
    NIB_OUT_OF_MEMORY = 5,
    NIB_BUSY = 6,
    NIB_IO = 7,
    NIB_DEVICE = 8,
    NIB_CANCELLED = 9,
    NIB_INTERNAL = 10
};

typedef struct {
    int status;
    char message[512]; /* one line, cut if it is longer */
} nib_error;

/* Zero means the default for every field but `size`. */
typedef struct {
    size_t size; /* sizeof(nib_engine_options): fields that came later are not read */
    const char* model_path;
    int32_t context;  /* tokens of a sequence; 0: as trained */
    int32_t parallel; /* requests at the same time; 0: 1 */
    int32_t threads;  /* 0: what the process may use */
    uint64_t kv_bytes;
} nib_engine_options;

typedef struct {
    size_t size; /* sizeof(nib_request) */
    const int32_t* prompt;
    size_t prompt_n;
    int32_t max_tokens; /* < 0: until the context is full */
    float temperature;  /* <= 0: greedy */
    int32_t top_k;      /* 0: off */
    float top_p;        /* 0 or 1: off */
    float min_p;        /* 0: off */
    uint64_t seed;
    const char* const* stop; /* stop_n texts */
    size_t stop_n;
    int32_t priority;
    int32_t ignore_eos; /* 0 or 1 */
} nib_request;

enum { NIB_FINISH_NONE = 0, NIB_FINISH_STOP = 1, NIB_FINISH_LENGTH = 2, NIB_FINISH_CANCELLED = 3 };

typedef struct {
    const char* text; /* new text, whole characters, may be empty */
    size_t text_n;    /* bytes */
    const int32_t* tokens;
    size_t tokens_n;
    int32_t done;    /* 1: nothing follows */
    int32_t finish;  /* if done */
    nib_error error; /* if done and it failed: status is not NIB_OK */
} nib_event;

typedef struct {
    int32_t running, waiting;
    int32_t blocks_used, blocks_cached, blocks_free;
    uint64_t prompt_tokens, cached_tokens, predicted_tokens, preemptions;
} nib_stats;

NIB_API nib_engine* nib_engine_open(const nib_engine_options* options, nib_error* error);
/* Streams that are left end with NIB_FINISH_CANCELLED; they must still be closed. */
NIB_API void nib_engine_close(nib_engine* engine);
NIB_API int32_t nib_engine_context(const nib_engine* engine);
NIB_API int32_t nib_engine_vocabulary(const nib_engine* engine);
NIB_API void nib_engine_stats(const nib_engine* engine, nib_stats* stats);

/* How many tokens the text has; at most `capacity` of them are written, which may be 0 of NULL. */
NIB_API size_t nib_tokenize(const nib_engine* engine,
                            const char* text,
                            size_t text_n,
                            int add_special,
                            int parse_special,
                            int32_t* tokens,
                            size_t capacity);
/* How many bytes the text has; at most `capacity` of them are written, without a final zero. */
NIB_API size_t nib_detokenize(
    const nib_engine* engine, const int32_t* tokens, size_t tokens_n, char* text, size_t capacity);

NIB_API nib_stream* nib_submit(nib_engine* engine, const nib_request* request, nib_error* error);
/* 1: `event` was filled; 0: nothing new within `timeout_ms`. After `done`: done again, without
 * anything new. */
NIB_API int nib_stream_next(nib_stream* stream, int32_t timeout_ms, nib_event* event);
/* The stream ends soon with NIB_FINISH_CANCELLED; from any thread. */
NIB_API void nib_stream_cancel(nib_stream* stream);
/* Cancels what is not done. */
NIB_API void nib_stream_close(nib_stream* stream);

#ifdef __cplusplus
}
#endif
