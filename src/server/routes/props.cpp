// SPDX-License-Identifier: MIT
#include "src/cli/chat_prompt.h"
#include "src/server/generation_request.h"
#include "src/server/route.h"

namespace nib {
namespace {

HttpResponse handle(ServerState& server, HttpRequest&) {
    const ModelInfo& model = server.engine()->model();
    const Tokenizer& tokenizer = server.tokenizer();
    GenerationRequest defaults;
    defaults.base.sampling = server.options().sampling;
    defaults.base.max_tokens = server.options().predict;
    defaults.dry_breakers = server.options().dry_sequence_breakers;
    Json limits = Json::object();
    for (const NamedLimit& limit : all_limits())
        limits[limit.name] = limit.value;
    return json_response(
        {{"default_generation_settings",
          {{"n_ctx", model.n_ctx}, {"params", settings_json(defaults, server)}}},
         {"total_slots", server.options().parallel},
         {"model_path", model.path},
         {"model_alias", server.model_id()},
         {"chat_template",
          server.chat_template() ? server.chat_template()->source() : std::string()},
         {"modalities", {{"vision", false}, {"audio", false}}},
         {"bos_token", mark_text(tokenizer, tokenizer.bos())},
         {"eos_token", mark_text(tokenizer, tokenizer.eos())},
         {"build_info", "nib, " + model.backend},
         {"is_sleeping", false},
         {"limits", std::move(limits)}});
}

}  // namespace

extern const RouteDef route_props = {
    .method = "GET",
    .paths = "/props",
    .handle = handle,
};

}  // namespace nib
