// SPDX-License-Identifier: MIT
// What was measured, as JSON for programs and as tables for people.
#pragma once
#include "ggml-like/backend.h"
#include "src/bench/profile.h"
#include "src/json/json.h"

#include <string>
#include <vector>

namespace nib::bench {

Json to_json(const Roofline& limits, const std::string& backend);
std::string to_table(const Roofline& limits, const std::string& backend);

Json to_json(const std::vector<Profile>& profiles, const Roofline& limits);
std::string to_table(const std::vector<Profile>& profiles, const Roofline& limits);

}  // namespace nib::bench
