// SPDX-License-Identifier: MIT
#include "src/server/prompt_input.h"
#include "src/server/route.h"

namespace nib {
namespace {

HttpResponse handle(ServerState& server, HttpRequest& http) {
    return ServerState::answer_fields(http, [&](Fields& fields) -> HttpResponse {
        const Json* tokens = fields.array("tokens", kJsonValuesMax);
        if (fields.ok() && !tokens) fields.fail("tokens", "expected an array of token ids");
        if (!fields.ok()) return {};
        const auto ids = read_ids(fields, *tokens, server.tokenizer().n_vocab(), "tokens");
        return json_response({{"content", server.tokenizer().decode(ids, true)}});
    });
}

}  // namespace

extern const RouteDef route_detokenize = {
    .method = "POST",
    .paths = "/detokenize",
    .handle = handle,
};

}  // namespace nib
