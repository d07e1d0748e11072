// SPDX-License-Identifier: MIT
// Embeddings of a causal model: the hidden states after its last norm, their mean or the last one
// (--pooling), of unit length.
#include "src/server/base64.h"
#include "src/server/prompt_input.h"
#include "src/server/route.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace nib {
namespace {

using std::chrono::milliseconds;

void make_unit(std::vector<float>& v) {
    double sum = 0;
    for (const float x : v)
        sum += static_cast<double>(x) * x;
    if (sum <= 0) return;
    const double factor = 1 / std::sqrt(sum);
    for (float& x : v)
        x = static_cast<float>(x * factor);
}

struct EmbeddingsRequest {
    std::vector<std::vector<Token>> inputs;
    bool base64 = false;
    bool unit = true;
};

EmbeddingsRequest read_request(Fields& fields, const ServerState& server) {
    EmbeddingsRequest r;
    server.check_model(fields);
    const char* input = fields.first_of({"input", "content"});
    const std::string format = fields.text("encoding_format", "float", 16);
    r.base64 = format == "base64";
    if (fields.ok() && !r.base64 && format != "float") {
        fields.fail("encoding_format", "expected \"float\" or \"base64\", got " + format);
    }
    r.unit = fields.integer("embd_normalize", 2, -1, 2) == 2;
    fields.refuse_unless("dimensions", {"null"});
    if (!input) fields.fail("input", "expected a text, token ids, or a list of them");
    if (!fields.ok()) return r;
    // A text without a character would be no more than the mark of its beginning.
    const Json& value = *fields.find(input);
    const auto is_empty = [](const Json& v) {
        return v.is_string() && v.get_ref<const std::string&>().empty();
    };
    if (is_empty(value) ||
        (value.is_array() && std::any_of(value.begin(), value.end(), is_empty))) {
        fields.fail(input, "expected no empty text");
        return r;
    }
    r.inputs = read_prompts(fields, server, input, kEmbeddingInputsMax).tokens;
    const int32_t n_ctx = server.engine()->model().n_ctx;
    for (const auto& tokens : r.inputs) {
        if (!fields.ok()) break;
        if (tokens.empty()) fields.fail(input, "expected at least one token in each input");
        if (static_cast<int64_t>(tokens.size()) > n_ctx)
            fields.fail(too_long_error(tokens.size(), static_cast<size_t>(n_ctx)));
    }
    return r;
}

// Runs the inputs, as many at a time as the engine does.
Result<std::vector<std::vector<float>>> compute(ServerState& server,
                                                const HttpRequest& http,
                                                const EmbeddingsRequest& r) {
    std::vector<std::vector<float>> vectors;
    std::deque<std::unique_ptr<Stream>> running;
    size_t submitted = 0;
    while (vectors.size() < r.inputs.size()) {
        while (submitted < r.inputs.size() &&
               running.size() < static_cast<size_t>(server.options().parallel)) {
            Request request;
            request.prompt = r.inputs[submitted];
            request.pooling = server.options().pooling == "last" ? Pooling::Last : Pooling::Mean;
            request.client = server.client_of(http);
            request.cache_salt = server.salt_of(http);
            auto stream = server.engine()->submit(std::move(request));
            if (!stream && stream.error().status == Status::Busy && !running.empty()) break;
            if (!stream) return stream.error();
            running.push_back(std::move(stream).value());
            submitted++;
        }
        auto event = running.front()->next(milliseconds(kGonePollMs));
        if (http.is_gone()) return Error{Status::Cancelled, "the client left"};
        if (server.phase() == ServerPhase::Ending)
            return Error{Status::Cancelled, "the server is shutting down"};
        if (!event || !event->done) continue;
        if (event->error) return *event->error;
        if (event->embedding.empty()) return Error{Status::Cancelled, "cancelled"};
        running.pop_front();
        if (r.unit) make_unit(event->embedding);
        vectors.push_back(std::move(event->embedding));
    }
    return vectors;
}

HttpResponse handle(ServerState& server, HttpRequest& http) {
    return ServerState::answer_fields(http, [&](Fields& fields) -> HttpResponse {
        const EmbeddingsRequest request = read_request(fields, server);
        if (!fields.ok()) return {};
        const auto vectors = compute(server, http, request);
        if (!vectors) {
            fields.fail(from_error(vectors.error(), server.retry_after()));
            return {};
        }
        Json data = Json::array();
        size_t n_tokens = 0;
        for (size_t i = 0; i < vectors->size(); i++) {
            n_tokens += request.inputs[i].size();
            const auto& v = (*vectors)[i];
            data.push_back({{"object", "embedding"},
                            {"index", i},
                            {"embedding", request.base64 ? Json(base64_of_floats(v)) : Json(v)}});
        }
        return json_response(
            {{"object", "list"},
             {"data", std::move(data)},
             {"model", server.model_id()},
             {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}}});
    });
}

}  // namespace

extern const RouteDef route_embeddings = {
    .method = "POST",
    .paths = "/v1/embeddings /embedding /embeddings",
    .makes_work = true,
    .handle = handle,
};

}  // namespace nib
