// SPDX-License-Identifier: MIT
// The three generating routes in one: fields to a request, the request to an answer.
#pragma once
#include "src/server/generation_request.h"

namespace nib {

HttpResponse generate(ServerState& server, HttpRequest& http, Api api);

}  // namespace nib
