// SPDX-License-Identifier: MIT
// What was measured, as JSON for programs and as tables for people.
#pragma once
#include "ggml-like/backend.h"
#include "src/bench/loading.h"
#include "src/bench/profile.h"
#include "src/bench/speed.h"
#include "src/json/json.h"

#include <optional>
#include <string>
#include <vector>

namespace nib::bench {

struct SpeedReport {
    std::string model, backend;
    double load_ms = 0;
    uint64_t peak_memory_bytes = 0;
    std::optional<Roofline> limits;  // none: limit_share is null
    std::vector<SpeedRow> rows;
};
Json to_json(const SpeedReport& report);
std::string to_table(const SpeedReport& report);

Json to_json(const LoadReport& report);
std::string to_table(const LoadReport& report);

struct RooflineReport {
    std::string backend;
    Roofline limits;
};
Json to_json(const RooflineReport& report);
std::string to_table(const RooflineReport& report);

struct ProfileReport {
    Roofline limits;
    std::vector<Profile> profiles;
};
Json to_json(const ProfileReport& report);
std::string to_table(const ProfileReport& report);

}  // namespace nib::bench
