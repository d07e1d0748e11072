// SPDX-License-Identifier: MIT
// The web page: one file that is part of the program. It may talk to this server and nothing else.
#include "src/server/route.h"
#include "src/server/state.h"

namespace nib {

std::string_view page_html();  // CMake makes it from src/server/page/index.html

namespace {

HttpResponse handle(ServerState& server, HttpRequest&) {
    HttpResponse response;
    if (!server.options().webui) {
        ApiError error;
        error.status = 404;
        error.message = "the web page is switched off (--no-webui)";
        error.code = "not_found";
        return error_response(error);
    }
    response.content_type = "text/html; charset=utf-8";
    response.body = page_html();
    response.set_header("Content-Security-Policy",
                        "default-src 'none'; style-src 'unsafe-inline'; script-src "
                        "'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; "
                        "form-action 'none'; frame-ancestors 'none'");
    response.set_header("Cache-Control", "no-cache");
    return response;
}

}  // namespace

extern const RouteDef route_page = {
    .method = "GET",
    .paths = "/ /index.html",
    .open = true,
    .needs_engine = false,
    .handle = handle,
};

}  // namespace nib
