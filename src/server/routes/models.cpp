// SPDX-License-Identifier: MIT
#include "src/server/route.h"
#include "src/server/state.h"

namespace nib {
namespace {

HttpResponse handle(ServerState& server, HttpRequest&) {
    const ModelInfo& model = server.engine()->model();
    Json aliases = Json::array();
    for (const std::string& alias : server.options().aliases)
        aliases.push_back(alias);
    if (aliases.empty() && !model.name.empty()) aliases.push_back(model.name);
    Json entry = {{"id", server.model_id()},
                  {"object", "model"},
                  {"created", server.started_unix()},
                  {"owned_by", "nib"},
                  {"aliases", std::move(aliases)},
                  {"meta",
                   {{"vocab_type", server.tokenizer().model_name()},
                    {"n_vocab", model.n_vocab},
                    {"n_ctx", model.n_ctx},
                    {"n_ctx_train", model.n_ctx_train},
                    {"n_embd", model.n_embd},
                    {"n_params", model.n_params},
                    {"size", model.file_bytes},
                    {"type", model.type_name}}}};
    return json_response({{"object", "list"}, {"data", Json::array({std::move(entry)})}});
}

}  // namespace

extern const RouteDef route_models = {
    .method = "GET",
    .paths = "/v1/models /models",
    .handle = handle,
};

}  // namespace nib
