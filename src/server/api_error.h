// SPDX-License-Identifier: MIT
// Errors as OpenAI's clients read them: {"error": {"message", "type", "param", "code"}} with the
// status that goes with the type. Messages say what, where, expected, got; input is shown
// shortened.
#pragma once
#include "ggml-like/result.h"
#include "src/json/json.h"
#include "src/server/http.h"

#include <string>

namespace nib {

struct ApiError {
    int status = 400;
    std::string message;
    std::string param;    // field of the request; empty: null
    std::string code;     // empty: null
    int retry_after = 0;  // seconds; 429 and 503 always send it
    Json more;            // further members of the error object, or null
};

// The type that belongs to a status: invalid_request_error, authentication_error, ...
const char* error_type(const ApiError& error);
Json error_json(const ApiError& error);
HttpResponse error_response(const ApiError& error);
// What the engine or the tokenizer said. retry_after: for Busy and OutOfMemory.
ApiError from_error(const Error& error, int retry_after);
// A prompt that the context cannot hold, with both numbers.
ApiError too_long_error(size_t n_prompt, size_t n_ctx);

// JSON as the body of an answer.
HttpResponse json_response(const Json& body, int status = 200);

}  // namespace nib
