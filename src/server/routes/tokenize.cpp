// SPDX-License-Identifier: MIT
#include "src/server/route.h"
#include "src/server/state.h"

namespace nib {
namespace {

// The bytes of a token as text if they are characters, else as numbers.
Json piece_json(const Tokenizer& tokenizer, Token id) {
    const std::string piece = tokenizer.piece(id, true);
    const auto parsed = parse_json(dump_json(Json(piece)));
    if (parsed && parsed->get<std::string>() == piece) return piece;
    Json bytes = Json::array();
    for (const char c : piece)
        bytes.push_back(static_cast<unsigned char>(c));
    return bytes;
}

HttpResponse handle(ServerState& server, HttpRequest& http) {
    return ServerState::answer_fields(http, [&](Fields& fields) -> HttpResponse {
        const std::string content = fields.text("content", "", http.body.size());
        const bool add_special = fields.boolean("add_special", false);
        const bool parse_special = fields.boolean("parse_special", true);
        const bool with_pieces = fields.boolean("with_pieces", false);
        if (!fields.find("content")) fields.fail("content", "expected a string");
        if (!fields.ok()) return {};
        const Tokenizer& tokenizer = server.tokenizer();
        const auto ids = tokenizer.encode(content, add_special, parse_special);
        if (!with_pieces) return json_response({{"tokens", ids}});
        Json tokens = Json::array();
        for (const Token id : ids)
            tokens.push_back({{"id", id}, {"piece", piece_json(tokenizer, id)}});
        return json_response({{"tokens", std::move(tokens)}});
    });
}

}  // namespace

extern const RouteDef route_tokenize = {
    .method = "POST",
    .paths = "/tokenize",
    .handle = handle,
};

}  // namespace nib
