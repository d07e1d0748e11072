// SPDX-License-Identifier: MIT
#include "src/server/limits.h"

#include <algorithm>

namespace nib {

std::span<const NamedLimit> all_limits() {
    static constexpr NamedLimit kLimits[] = {
        {"request_line", kRequestLineMax, "bytes"},
        {"header_field", kHeaderFieldMax, "bytes"},
        {"head", kHeadMax, "bytes"},
        {"header_fields", kHeaderFieldsMax, ""},
        {"body", kBodyMaxDefault, "bytes (--max-body)"},
        {"bodies", kBodiesMax, "bytes of all requests together"},
        {"chunk_line", kChunkLineMax, "bytes"},
        {"head_timeout", kHeadTimeoutMs, "ms"},
        {"body_grace", kBodyGraceMs, "ms"},
        {"body_rate_min", kBodyRateMin, "bytes/s after the grace"},
        {"keep_alive_idle", kKeepAliveIdleMs, "ms"},
        {"keep_alive_requests", kKeepAliveRequestsMax, "per connection"},
        {"write_stall", kWriteStallMs, "ms (--timeout)"},
        {"connections", kConnectionsDefault, "(--max-connections)"},
        {"connections_per_peer", kConnectionsPerPeer, "off loopback"},
        {"spare_connections", kSpareConnections, "for /health and /metrics"},
        {"api_key", kApiKeyMax, "bytes"},
        {"request_id", kRequestIdMax, "bytes"},
        {"json_depth", kJsonDepthMax, ""},
        {"json_values", kJsonValuesMax, ""},
        {"messages", kMessagesMax, ""},
        {"tools", kToolsMax, ""},
        {"tool_name", kToolNameMax, "characters"},
        {"stops", kStopsMax, ""},
        {"stop", kStopBytesMax, "bytes"},
        {"response_fields", kResponseFieldsMax, ""},
        {"choices", kChoicesMax, "n"},
        {"generations", kGenerationsMax, "n times prompts"},
        {"top_logprobs", kTopLogprobsMax, ""},
        {"n_probs", kProbsMax, ""},
        {"completion_logprobs", kCompletionLogprobsMax, ""},
        {"logit_bias", kBiasEntriesMax, "entries"},
        {"embedding_inputs", kEmbeddingInputsMax, ""},
        {"model_name", kModelNameMax, "bytes"},
        {"dry_sequence_breakers", kBreakersMax, ""},
        {"priority", kPriorityMax, "largest, -100 smallest"},
        {"retry_after", kRetryAfterMax, "s at most"},
    };
    return kLimits;
}

std::string limits_text() {
    std::string text;
    for (const NamedLimit& limit : all_limits()) {
        std::string line = limit.name;
        line.resize(std::max<size_t>(line.size() + 1, 24), ' ');
        line += std::to_string(limit.value);
        if (limit.unit[0] != '\0') line += std::string(" ") + limit.unit;
        text += line + "\n";
    }
    return text;
}

}  // namespace nib
