// SPDX-License-Identifier: MIT
#include "src/bench/report.h"

#include <cstdio>

namespace nib::bench {
namespace {

template <class... Args>
std::string line(const char* format, Args... args) {
    char text[512];
    std::snprintf(text, sizeof text, format, args...);
    return text;
}

double share(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

std::string percent_or_dash(double value) {
    return value > 0 ? line("%.0f%%", value * 100) : "-";
}

// What shares are of: medians need not add up to the median of the whole.
double seconds_of_all(const Profile& p) {
    double seconds = p.outside_seconds;
    for (const ProfileRow& r : p.rows)
        seconds += r.seconds;
    return seconds;
}

std::string table_of(const Profile& p) {
    std::string text = line("\n%s: %.3f ms, at least %.3f ms (%s); traced %.3f ms\n",
                            p.phase.name.c_str(), p.step_seconds * 1e3, p.limit_seconds * 1e3,
                            percent_or_dash(share(p.limit_seconds, p.step_seconds)).c_str(),
                            p.traced_seconds * 1e3);
    text += line("%-14s %-28s %6s %9s %9s %9s %9s %6s %6s\n", "op", "shape", "calls", "MB", "MMAC",
                 "us", "limit us", "of it", "share");
    for (const ProfileRow& r : p.rows) {
        text +=
            line("%-14s %-28s %6d %9.2f %9.1f %9.1f %9.1f %6s %6s\n", r.op.c_str(), r.shape.c_str(),
                 r.calls, r.cost.bytes * 1e-6, r.cost.macs() * 1e-6, r.seconds * 1e6,
                 r.limit_seconds * 1e6, percent_or_dash(share(r.limit_seconds, r.seconds)).c_str(),
                 percent_or_dash(share(r.seconds, seconds_of_all(p))).c_str());
    }
    text += line("%-14s %-28s %6s %9s %9s %9.1f %9s %6s %6s\n", "(outside)", "", "", "", "",
                 p.outside_seconds * 1e6, "", "",
                 percent_or_dash(share(p.outside_seconds, seconds_of_all(p))).c_str());
    return text;
}

Json json_of(const Profile& p) {
    Json ops = Json::array();
    for (const ProfileRow& r : p.rows) {
        ops.push_back({{"op", r.op},
                       {"shape", r.shape},
                       {"calls", r.calls},
                       {"bytes", r.cost.bytes},
                       {"macs", r.cost.macs()},
                       {"us", r.seconds * 1e6},
                       {"limit_us", r.limit_seconds * 1e6},
                       {"efficiency", share(r.limit_seconds, r.seconds)},
                       {"share", share(r.seconds, seconds_of_all(p))}});
    }
    return {{"phase", p.phase.name},
            {"rows", p.phase.sequences * p.phase.rows},
            {"depth", p.phase.depth},
            {"step_us", p.step_seconds * 1e6},
            {"traced_us", p.traced_seconds * 1e6},
            {"outside_us", p.outside_seconds * 1e6},
            {"limit_us", p.limit_seconds * 1e6},
            {"limit_share", share(p.limit_seconds, p.step_seconds)},
            {"ops", std::move(ops)}};
}

std::string limits_line(const Roofline& l) {
    return line("limits now: %.1f GB/s, %.0f GMAC/s int8, %.0f GMAC/s float, %.2f us for a sync\n",
                l.read_bytes_per_s * 1e-9, l.int8_macs_per_s * 1e-9, l.float_macs_per_s * 1e-9,
                l.sync_ns * 1e-3);
}

Json json_of(const Roofline& limits) {
    return {{"read_bytes_per_s", limits.read_bytes_per_s},
            {"int8_macs_per_s", limits.int8_macs_per_s},
            {"float_macs_per_s", limits.float_macs_per_s},
            {"sync_ns", limits.sync_ns}};
}

Json json_of(const Spread& s) {
    return {{"median", s.median}, {"min", s.min}, {"max", s.max}};
}

}  // namespace

Json to_json(const SpeedReport& report) {
    Json list = Json::array();
    for (const SpeedRow& r : report.rows) {
        Json row = {{"test", r.test}, {"tokens_per_s", json_of(r.tokens_per_s)}};
        if (r.first_token_ms) row["first_token_ms"] = json_of(*r.first_token_ms);
        if (r.step_ratio) row["step_ratio"] = json_of(*r.step_ratio);
        row["bytes_per_token"] = r.bytes_per_token();
        row["limit_share"] = report.limits ? Json(r.limit_share(*report.limits)) : Json();
        row["backend"] = report.backend;
        row["load_ms"] = report.load_ms;
        row["peak_memory_bytes"] = report.peak_memory_bytes;
        list.push_back(std::move(row));
    }
    return list;
}

std::string to_table(const SpeedReport& report) {
    std::string text =
        line("%s on %s: loaded in %.0f ms, peak memory %.0f MiB\n", report.model.c_str(),
             report.backend.c_str(), report.load_ms, double(report.peak_memory_bytes) / (1 << 20));
    if (report.limits) text += limits_line(*report.limits);
    text += line("%-14s %11s %11s %11s %10s %9s\n", "test", "tokens/s", "min", "max", "MB/token",
                 "of limit");
    for (const SpeedRow& r : report.rows) {
        text += line("%-14s %11.1f %11.1f %11.1f %10.2f %9s", r.test.c_str(), r.tokens_per_s.median,
                     r.tokens_per_s.min, r.tokens_per_s.max, r.bytes_per_token() * 1e-6,
                     report.limits ? percent_or_dash(r.limit_share(*report.limits)).c_str() : "-");
        if (r.first_token_ms) text += line("  first token after %.1f ms", r.first_token_ms->median);
        if (r.step_ratio) text += line("  %.2f times a step of one row", r.step_ratio->median);
        text += "\n";
    }
    return text;
}

Json to_json(const LoadReport& report) {
    Json phases = Json::object();
    for (const auto& [name, spread] : report.phases_ms)
        phases[name] = json_of(spread);
    return Json::array({{{"test", "load"},
                         {"phases_ms", std::move(phases)},
                         {"runs_ms", report.total_ms},
                         {"backend", report.backend},
                         {"peak_memory_bytes", peak_memory()}}});
}

std::string to_table(const LoadReport& report) {
    std::string text = line("%s, peak memory %.0f MiB, the first run took %.1f ms\n",
                            report.backend.c_str(), double(peak_memory()) / (1 << 20),
                            report.total_ms.empty() ? 0.0 : report.total_ms.front());
    text += line("%-14s %10s %10s %10s\n", "phase", "ms", "min", "max");
    for (const auto& [name, s] : report.phases_ms)
        text += line("%-14s %10.1f %10.1f %10.1f\n", name.c_str(), s.median, s.min, s.max);
    return text;
}

Json to_json(const RooflineReport& report) {
    Json rows = Json::array();
    for (const Roofline::Row& r : report.limits.rows) {
        rows.push_back(
            {{"name", r.name}, {"unit", r.unit}, {"best", r.best}, {"median", r.median}});
    }
    Json json = {{"backend", report.backend}};
    json.update(json_of(report.limits));
    json["rows"] = std::move(rows);
    return json;
}

std::string to_table(const RooflineReport& report) {
    std::string text = report.backend + "\n" + line("%-48s %10s %10s\n", "", "best", "median");
    for (const Roofline::Row& r : report.limits.rows)
        text += line("%-48s %10.1f %10.1f %s\n", r.name.c_str(), r.best, r.median, r.unit.c_str());
    return text + limits_line(report.limits);
}

Json to_json(const ProfileReport& report) {
    Json phases = Json::array();
    for (const Profile& p : report.profiles)
        phases.push_back(json_of(p));
    return {{"limits", json_of(report.limits)}, {"phases", std::move(phases)}};
}

std::string to_table(const ProfileReport& report) {
    std::string text = limits_line(report.limits);
    for (const Profile& p : report.profiles)
        text += table_of(p);
    return text;
}

}  // namespace nib::bench
