// SPDX-License-Identifier: MIT
#include "src/server/route.h"
#include "src/server/state.h"

#include <algorithm>

namespace nib {
namespace {

Json slot_json(int id, const RequestInfo* request, int32_t n_ctx) {
    Json slot = {{"id", id},
                 {"id_task", request ? Json(request->id) : Json(-1)},
                 {"n_ctx", n_ctx},
                 {"speculative", false},
                 {"is_processing", request != nullptr}};
    if (!request) return slot;
    const int32_t left = request->max_tokens < 0 ? -1 : request->max_tokens - request->predicted_n;
    slot["prompt_n"] = request->prompt_n;
    slot["prompt_done"] = request->prompt_done;
    slot["next_token"] = {
        {"has_next_token", true}, {"n_remain", left}, {"n_decoded", request->predicted_n}};
    return slot;
}

// Places that requests run in. Nothing of what they say is shown.
HttpResponse handle(ServerState& server, HttpRequest& http) {
    if (!server.options().slots) {
        ApiError error;
        error.status = 501;
        error.message = "GET /slots is switched off (--no-slots)";
        error.code = "not_supported";
        return error_response(error);
    }
    const EngineStats stats = server.engine()->stats();
    const int32_t n_ctx = server.engine()->model().n_ctx;
    std::vector<const RequestInfo*> places(static_cast<size_t>(stats.parallel));
    for (const RequestInfo& request : stats.requests) {
        if (request.slot >= 0) places[static_cast<size_t>(request.slot)] = &request;
    }
    Json slots = Json::array();
    for (size_t i = 0; i < places.size(); i++)
        slots.push_back(slot_json(static_cast<int>(i), places[i], n_ctx));
    const bool full = std::find(places.begin(), places.end(), nullptr) == places.end();
    if (full && http.head.query.find("fail_on_no_slot=1") != std::string::npos) {
        ApiError error;
        error.status = 503;
        error.message = "no slot available";
        error.code = "no_slot";
        error.retry_after = server.retry_after();
        return error_response(error);
    }
    return json_response(slots);
}

}  // namespace

extern const RouteDef route_slots = {
    .method = "GET",
    .paths = "/slots",
    .handle = handle,
};

}  // namespace nib
