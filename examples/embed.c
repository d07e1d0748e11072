/* SPDX-License-Identifier: MIT
 *
 * The engine inside a C program: loads a model, continues a text, prints it as it comes.
 *
 *     cc -std=c11 examples/embed.c $(pkg-config --cflags --libs nib) -o embed
 *     ./embed model.gguf "Once upon a time" 64
 */
#include <nib/engine_c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char* what, const nib_error* error) {
    fprintf(stderr, "%s: %s (status %d)\n", what, error->message, error->status);
    return 1;
}

/* Prints everything that the stream gives; 0 if it ended well. */
static int print_stream(nib_stream* stream) {
    nib_event event;
    memset(&event, 0, sizeof event);
    while (!event.done) {
        if (!nib_stream_next(stream, 1000, &event)) continue; /* nothing new within a second */
        fwrite(event.text, 1, event.text_n, stdout);
        fflush(stdout);
    }
    putchar('\n');
    return event.error.status == NIB_OK ? 0 : fail("stream", &event.error);
}

/* Continues the text, greedily, by at most max_tokens. */
static int complete(nib_engine* engine, const char* text, int32_t max_tokens) {
    /* A token is at least a byte of the text, plus a few that mark its beginning. */
    const size_t capacity = strlen(text) + 8;
    int32_t* tokens = malloc(capacity * sizeof *tokens);
    if (!tokens) return 1;

    nib_request request;
    memset(&request, 0, sizeof request); /* zero is the default of every other field */
    request.size = sizeof request;
    request.prompt = tokens;
    request.prompt_n = nib_tokenize(engine, text, strlen(text), 1, 0, tokens, capacity);
    request.max_tokens = max_tokens;

    nib_error error;
    nib_stream* stream = nib_submit(engine, &request, &error); /* copies the request */
    free(tokens);
    if (!stream) return fail("request", &error);
    const int result = print_stream(stream);
    nib_stream_close(stream);
    return result;
}

int main(int argc, char** argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODEL.gguf TEXT MAX_TOKENS\n", argv[0]);
        return 2;
    }
    nib_engine_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.model_path = argv[1];

    nib_error error;
    nib_engine* engine = nib_engine_open(&options, &error);
    if (!engine) return fail("model", &error);
    const int result = complete(engine, argv[2], (int32_t)strtol(argv[3], NULL, 10));
    nib_engine_close(engine);
    return result;
}
