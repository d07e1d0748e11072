// SPDX-License-Identifier: MIT
#include "src/server/prompt_input.h"
#include "src/server/route.h"

namespace nib {
namespace {

HttpResponse handle(ServerState& server, HttpRequest& http) {
    ApiError error;
    const auto body = ServerState::parse_body(http, error);
    if (!body) return error_response(error);
    Fields fields(*body);
    const Json* tokens = fields.array("tokens", kJsonValuesMax);
    if (fields.ok() && !tokens) fields.fail("tokens", "expected an array of token ids");
    std::vector<Token> ids;
    if (fields.ok()) ids = read_ids(fields, *tokens, server.tokenizer().n_vocab(), "tokens");
    if (!fields.ok()) return error_response(fields.error());
    return json_response({{"content", server.tokenizer().decode(ids, true)}});
}

}  // namespace

extern const RouteDef route_detokenize = {
    .method = "POST",
    .paths = "/detokenize",
    .handle = handle,
};

}  // namespace nib
