// SPDX-License-Identifier: MIT
// Every limit of the server is a named constant here: what it bounds, in which unit. `nib serve
// --print-limits` and GET /props show them from the same table. Nothing from a client is stored,
// looped over or waited for beyond one of these.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace nib {

// HTTP. A head is the request line and all fields up to the empty line.
inline constexpr size_t kRequestLineMax = 8 << 10;
inline constexpr size_t kHeaderFieldMax = 8 << 10;
inline constexpr size_t kHeadMax = 32 << 10;
inline constexpr size_t kHeaderFieldsMax = 100;
inline constexpr uint64_t kBodyMaxDefault = 16u << 20;
inline constexpr uint64_t kBodiesMax = 512u << 20;  // of all requests together
inline constexpr size_t kChunkLineMax = 256;        // size and extension of one chunk
inline constexpr int kHeadTimeoutMs = 10'000;
inline constexpr int kBodyGraceMs = 30'000;   // then at least kBodyRateMin
inline constexpr int kBodyRateMin = 1 << 10;  // bytes per second
inline constexpr int kKeepAliveIdleMs = 15'000;
inline constexpr int kKeepAliveRequestsMax = 1000;
inline constexpr int kWriteStallMs = 30'000;
inline constexpr int kConnectionsDefault = 1024;
inline constexpr int kConnectionsPerPeer = 64;  // not counted for loopback
inline constexpr int kSpareConnections = 64;    // above the cap: for /health and /metrics
inline constexpr int kSpareHeadTimeoutMs = 1000;
inline constexpr size_t kApiKeyMax = 1024;
inline constexpr size_t kRequestIdMax = 128;

// Requests.
inline constexpr uint32_t kJsonDepthMax = 128;
inline constexpr uint64_t kJsonValuesMax = 1'000'000;
inline constexpr size_t kMessagesMax = 10'000;
inline constexpr size_t kToolsMax = 512;
inline constexpr size_t kToolNameMax = 64;
inline constexpr size_t kStopsMax = 16;
inline constexpr size_t kResponseFieldsMax = 64;
inline constexpr size_t kStopBytesMax = 1 << 10;
inline constexpr int kChoicesMax = 128;
inline constexpr int kGenerationsMax = 1024;  // choices times prompts
inline constexpr int kTopLogprobsMax = 20;
inline constexpr int kProbsMax = 256;
inline constexpr int kCompletionLogprobsMax = 5;
inline constexpr size_t kBiasEntriesMax = 4096;
inline constexpr size_t kEmbeddingInputsMax = 2048;
inline constexpr size_t kModelNameMax = 256;
inline constexpr size_t kBreakersMax = 64;
inline constexpr int kPriorityMax = 100;

// Work.
inline constexpr int kGonePollMs = 50;     // a request without stream looks for its client
inline constexpr int kStreamWaitMs = 200;  // a stream without news looks for its client
inline constexpr int kPingMs = 30'000;     // a stream without news sends a comment
inline constexpr int kRetryAfterMax = 60;  // seconds
inline constexpr int kDrainTimeoutDefault = 30;

struct NamedLimit {
    const char* name;
    uint64_t value;
    const char* unit;
};
std::span<const NamedLimit> all_limits();
std::string limits_text();  // one line each

}  // namespace nib
