// SPDX-License-Identifier: MIT
// POST /slots/{id}?action=save|restore|erase, as llama-server has it: what the last request that
// ended in a slot left in the cache goes into a file of --slot-save-path, or comes back.
#include "src/option_values.h"
#include "src/server/route.h"
#include "src/server/state.h"

#include <algorithm>
#include <charconv>
#include <chrono>

namespace nib {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kFileNameMax = 255;

double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

HttpResponse bad_field(const char* param, std::string message) {
    ApiError error;
    error.message = std::move(message);
    error.param = param;
    return error_response(error);
}

HttpResponse engine_error(const ServerState& server, const Error& error) {
    ApiError api = from_error(error, server.retry_after());
    if (error.message.starts_with("slot")) {
        api.param = "id_slot";
    } else if (api.status < 500 || error.status == Status::Unsupported) {
        api.param = "filename";
    }
    if (error.status == Status::Unsupported) {
        api.status = 409;
        api.code = "state_mismatch";
    }
    if (error.status == Status::BadFile) {
        api.status = 400;
        api.code = "state_invalid";
    }
    return error_response(api);
}

// The last part of the path; -1 if it is no number that a slot could have.
int32_t slot_of(const HttpRequest& http) {
    const std::string& path = http.head.path;
    const char* begin = path.c_str() + path.rfind('/') + 1;
    const char* end = path.c_str() + path.size();
    int32_t slot = -1;
    const auto [stop, problem] = std::from_chars(begin, end, slot);
    return problem == std::errc() && stop == end && *begin != '-' ? slot : -1;
}

// The value of `action` in the query; empty if it is not there.
std::string_view action_of(const HttpRequest& http) {
    constexpr std::string_view kName = "action=";
    std::string_view query = http.head.query;
    while (!query.empty()) {
        const std::string_view part = query.substr(0, query.find('&'));
        if (part.starts_with(kName)) return part.substr(kName.size());
        query.remove_prefix(std::min(part.size() + 1, query.size()));
    }
    return {};
}

HttpResponse erase(ServerState& server, const HttpRequest& http, int32_t slot) {
    const auto n = server.engine()->erase_state(slot, server.salt_of(http));
    if (!n) return engine_error(server, n.error());
    return json_response({{"id_slot", slot}, {"n_erased", *n}});
}

HttpResponse save_or_restore(ServerState& server,
                             const HttpRequest& http,
                             int32_t slot,
                             bool save) {
    return ServerState::answer_fields(http, [&](Fields& fields) -> HttpResponse {
        const Json* given = fields.find("filename");
        if (!given) fields.fail("filename", "expected the name of a file");
        const std::string name = fields.text("filename", "", kFileNameMax);
        if (!fields.ok()) return {};
        const auto start = Clock::now();
        const uint64_t salt = server.salt_of(http);
        const auto size = save ? server.engine()->save_state(slot, name, salt)
                               : server.engine()->restore_state(slot, name, salt);
        if (!size) return engine_error(server, size.error());
        const double ms = ms_since(start);
        Json answer = {{"id_slot", slot}, {"filename", name}};
        answer[save ? "n_saved" : "n_restored"] = size->tokens;
        answer[save ? "n_written" : "n_read"] = size->bytes;
        answer["timings"] = {{save ? "save_ms" : "restore_ms", ms}};
        return json_response(answer);
    });
}

HttpResponse handle(ServerState& server, HttpRequest& http) {
    const Options& options = server.options();
    if (options.slot_save_path.empty() || !options.slots) {
        ApiError error;
        error.status = 501;
        error.message =
            options.slots
                ? "saved states are switched off: start the server with --slot-save-path DIR"
                : "slots are switched off (--no-slots)";
        error.code = "not_supported";
        return error_response(error);
    }
    const int32_t slot = slot_of(http);
    if (slot < 0 || slot >= options.parallel) {
        return bad_field(
            "id_slot", "id_slot: expected 0 to " + std::to_string(options.parallel - 1) + ", got " +
                           shown(http.head.path.substr(http.head.path.rfind('/') + 1)));
    }
    const std::string_view action = action_of(http);
    if (action == "erase") return erase(server, http, slot);
    if (action == "save" || action == "restore") {
        return save_or_restore(server, http, slot, action == "save");
    }
    return bad_field("action", "action: expected save, restore or erase, got " + shown(action));
}

}  // namespace

extern const RouteDef route_slots_state = {
    .method = "POST",
    .paths = "/slots/*",
    .makes_work = true,
    .handle = handle,
};

}  // namespace nib
