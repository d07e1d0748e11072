// SPDX-License-Identifier: MIT
#include "src/server/api_error.h"

#include <algorithm>

namespace nib {
namespace {

// "field: expected ..." names its field; used where the error comes from deeper inside.
std::string field_of(const std::string& message) {
    const size_t colon = message.find(": ");
    if (colon == std::string::npos || colon > 64) return {};
    const std::string field = message.substr(0, colon);
    const bool name =
        field.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.[]") == std::string::npos;
    return name ? field : std::string();
}

}  // namespace

const char* error_type(const ApiError& error) {
    if (error.code == "exceed_context_size") return "exceed_context_size_error";
    switch (error.status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    case 501:
        return "not_supported_error";
    case 503:
        return "unavailable_error";
    default:
        return error.status >= 500 ? "server_error" : "invalid_request_error";
    }
}

Json error_json(const ApiError& error) {
    Json inside = {{"message", error.message}, {"type", error_type(error)}};
    inside["param"] = error.param.empty() ? Json(nullptr) : Json(error.param);
    inside["code"] = error.code.empty() ? Json(nullptr) : Json(error.code);
    if (error.more.is_object()) inside.update(error.more);
    return {{"error", std::move(inside)}};
}

HttpResponse error_response(const ApiError& error) {
    HttpResponse response = json_response(error_json(error), error.status);
    if (error.status == 429 || error.status == 503) {
        response.set_header("Retry-After",
                            std::to_string(std::clamp(error.retry_after, 1, kRetryAfterMax)));
    }
    if (error.status == 401) response.set_header("WWW-Authenticate", "Bearer");
    return response;
}

ApiError too_long_error(size_t n_prompt, size_t n_ctx) {
    ApiError error;
    error.message = "the prompt has " + std::to_string(n_prompt) +
                    " tokens: expected less than the context of " + std::to_string(n_ctx);
    error.code = "exceed_context_size";
    error.more = {{"n_prompt_tokens", n_prompt}, {"n_ctx", n_ctx}};
    return error;
}

ApiError from_error(const Error& error, int retry_after) {
    ApiError api;
    api.message = error.message;
    api.retry_after = retry_after;
    switch (error.status) {
    case Status::BadRequest:
        api.param = field_of(error.message);
        if (error.message.find("no_token_allowed") != std::string::npos) {
            api.code = "no_token_allowed";
        }
        break;
    case Status::TooLong:
        api.code = "exceed_context_size";
        break;
    case Status::BadFile:
        break;
    case Status::Unsupported:
        api.status = 501;
        api.code = "not_supported";
        break;
    case Status::Busy:
        api.status = 429;
        api.code = "queue_full";
        break;
    case Status::OutOfMemory:
        api.status = 503;
        api.code = "out_of_memory";
        break;
    case Status::Cancelled:
        api.status = 503;
        api.code = "cancelled";
        break;
    case Status::Io:
    case Status::Device:
    case Status::Internal:
        api.status = 500;
        if (error.message.find("model_output_invalid") != std::string::npos) {
            api.code = "model_output_invalid";
        }
        break;
    }
    return api;
}

HttpResponse json_response(const Json& body, int status) {
    HttpResponse response;
    response.status = status;
    response.body = dump_json(body);
    return response;
}

}  // namespace nib
