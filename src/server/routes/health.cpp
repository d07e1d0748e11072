// SPDX-License-Identifier: MIT
#include "src/server/route.h"
#include "src/server/state.h"

namespace nib {
namespace {

HttpResponse handle(ServerState& server, HttpRequest&) {
    const ServerPhase phase = server.phase();
    if (phase == ServerPhase::Ready) return json_response({{"status", "ok"}});
    ApiError error;
    error.status = 503;
    error.message = phase == ServerPhase::Loading ? "Loading model" : "draining";
    error.code = "503";
    error.retry_after = 2;
    return error_response(error);
}

}  // namespace

extern const RouteDef route_health = {
    .method = "GET",
    .paths = "/health /v1/health",
    .open = true,
    .quick = true,
    .needs_engine = false,
    .handle = handle,
};

}  // namespace nib
