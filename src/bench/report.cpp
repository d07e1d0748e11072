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

}  // namespace

Json to_json(const Roofline& limits, const std::string& backend) {
    Json rows = Json::array();
    for (const Roofline::Row& r : limits.rows) {
        rows.push_back(
            {{"name", r.name}, {"unit", r.unit}, {"best", r.best}, {"median", r.median}});
    }
    return {{"backend", backend},
            {"read_bytes_per_s", limits.read_bytes_per_s},
            {"int8_macs_per_s", limits.int8_macs_per_s},
            {"float_macs_per_s", limits.float_macs_per_s},
            {"sync_ns", limits.sync_ns},
            {"rows", std::move(rows)}};
}

std::string to_table(const Roofline& limits, const std::string& backend) {
    std::string text = backend + "\n";
    text += line("%-48s %10s %10s\n", "", "best", "median");
    for (const Roofline::Row& r : limits.rows)
        text += line("%-48s %10.1f %10.1f %s\n", r.name.c_str(), r.best, r.median, r.unit.c_str());
    return text + limits_line(limits);
}

Json to_json(const std::vector<Profile>& profiles, const Roofline& limits) {
    Json phases = Json::array();
    for (const Profile& p : profiles)
        phases.push_back(json_of(p));
    return {{"limits",
             {{"read_bytes_per_s", limits.read_bytes_per_s},
              {"int8_macs_per_s", limits.int8_macs_per_s},
              {"float_macs_per_s", limits.float_macs_per_s},
              {"sync_ns", limits.sync_ns}}},
            {"phases", std::move(phases)}};
}

std::string to_table(const std::vector<Profile>& profiles, const Roofline& limits) {
    std::string text = limits_line(limits);
    for (const Profile& p : profiles)
        text += table_of(p);
    return text;
}

}  // namespace nib::bench
