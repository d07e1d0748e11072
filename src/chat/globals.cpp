// SPDX-License-Identifier: MIT
// The functions that every template may call.
#include "src/chat/builtins_impl.h"
#include "src/chat/print.h"

#include <ctime>

namespace nib::jinja {
namespace {

constexpr int64_t kRangeMax = 1'000'000;
constexpr size_t kClockFormatMax = 1024;

Result<Value> global_range(Evaluator& ev, const Value&, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"start", "stop", "step"}, 1));
    NIB_ASSIGN(int64_t start, bound.integer(0, 0));
    NIB_ASSIGN(int64_t stop, bound.integer(1, 0));
    NIB_ASSIGN(const int64_t step, bound.integer(2, 1));
    if (!bound.get(1)) {
        stop = start;
        start = 0;
    }
    if (step == 0) return bad("range: the step must not be zero");
    const bool empty = step > 0 ? start >= stop : start <= stop;
    uint64_t count = 0;
    if (!empty) {
        const auto low = static_cast<uint64_t>(step > 0 ? start : stop);
        const auto high = static_cast<uint64_t>(step > 0 ? stop : start);
        const uint64_t stride =
            step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
        count = (high - low - 1) / stride + 1;
    }
    if (count > static_cast<uint64_t>(kRangeMax)) {
        return bad("range: expected at most " + std::to_string(kRangeMax) + " numbers, got " +
                   std::to_string(count));
    }
    auto range = std::make_shared<RangeObject>();
    range->start = start;
    range->stop = stop;
    range->step = step;
    range->count = static_cast<int64_t>(count);
    range->charge(&ev.budget(), 96);
    return Value::object(Kind::Range, std::move(range));
}

// A dict, an iterable of pairs, and named arguments, in this order.
Result<std::vector<std::pair<Value, Value>>> entries_of(Evaluator& ev, Args& args) {
    std::vector<std::pair<Value, Value>> entries;
    if (args.positional.size() > 1) return bad("expected at most one argument by position");
    if (!args.positional.empty() && args.positional[0].is(Kind::Dict)) {
        const auto& source = args.positional[0].dict().entries;
        if (!ev.budget().allow_values(2 * source.size())) return ev.budget().error();
        entries = source;
    } else if (!args.positional.empty()) {
        NIB_ASSIGN(const std::vector<Value> pairs, all_items(ev, args.positional[0]));
        for (const Value& pair : pairs) {
            NIB_ASSIGN(std::vector<Value> parts, all_items(ev, pair));
            if (parts.size() != 2) return bad("expected pairs of key and value");
            entries.emplace_back(std::move(parts[0]), std::move(parts[1]));
        }
    }
    entries.insert(entries.end(), args.named.begin(), args.named.end());
    return entries;
}

Result<Value> global_dict(Evaluator& ev, const Value&, Args& args) {
    NIB_ASSIGN(auto entries, entries_of(ev, args));
    return make_dict(ev.budget(), std::move(entries));
}

Result<Value> global_namespace(Evaluator& ev, const Value&, Args& args) {
    NIB_ASSIGN(auto entries, entries_of(ev, args));
    return ev.new_namespace(std::move(entries));
}

Result<Value> global_cycler(Evaluator& ev, const Value&, Args& args) {
    if (args.positional.empty() || !args.named.empty()) return bad("cycler: expected items");
    auto cycler = std::make_shared<CyclerObject>();
    cycler->charge(&ev.budget(), 128 + args.positional.size() * sizeof(Value));
    cycler->items = std::move(args.positional);
    return Value::object(Kind::Cycler, std::move(cycler));
}

Result<Value> global_joiner(Evaluator& ev, const Value&, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"sep"}, 0));
    auto joiner = std::make_shared<JoinerObject>();
    joiner->charge(&ev.budget(), 128);
    joiner->separator = bound.get(0) ? *bound.get(0) : make_text(&ev.budget(), ", ");
    return Value::object(Kind::Joiner, std::move(joiner));
}

Result<Value> global_raise_exception(Evaluator& ev, const Value&, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"message"}, 1));
    NIB_ASSIGN(const MarkedText text, to_str(ev.budget(), *bound.get(0)));
    std::string line = text.bytes.substr(0, byte_of_point(text.bytes, 500));
    for (char& c : line) {
        if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    }
    return bad(line);
}

Result<Value> global_strftime_now(Evaluator& ev, const Value&, Args& args) {
    NIB_ASSIGN(const Bound bound, Bound::bind(args, {"format"}, 1));
    NIB_ASSIGN(const std::string format, bound.text(0, ""));
    if (format.size() > kClockFormatMax) return bad("strftime_now: the format is too long");
    const auto now = static_cast<std::time_t>(ev.now_unix());
    std::tm parts{};
    if (!gmtime_r(&now, &parts)) return bad("strftime_now: the clock is out of range");
    char text[16 * kClockFormatMax];
    const size_t n = std::strftime(text, sizeof text, format.c_str(), &parts);
    if (first_invalid_utf8(std::string_view(text, n)) != std::string_view::npos) {
        return bad("strftime_now: the date is not UTF-8");
    }
    return make_text(&ev.budget(), std::string_view(text, n));
}

constexpr Native kGlobals[] = {
    {"cycler", global_cycler},
    {"dict", global_dict},
    {"joiner", global_joiner},
    {"namespace", global_namespace},
    {"raise_exception", global_raise_exception},
    {"range", global_range},
    {"strftime_now", global_strftime_now},
};

}  // namespace

NativeTable globals() {
    return {std::begin(kGlobals), std::end(kGlobals)};
}

}  // namespace nib::jinja
