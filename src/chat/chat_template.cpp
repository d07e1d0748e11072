// SPDX-License-Identifier: MIT
// The door of the template engine: checks the source, turns the context into values (its strings
// marked as data), runs the evaluator within a budget, and puts line and column into errors.
#include "src/chat/chat_template.h"

#include "src/chat/evaluator.h"
#include "src/chat/lexer.h"
#include "src/chat/parser.h"
#include "src/chat/text.h"

#include <algorithm>
#include <exception>
#include <limits>

namespace nib {

using namespace jinja;  // NOLINT(google-build-using-namespace)

namespace {

constexpr size_t kSourceMax = 1u << 20;

// Names whose strings are the model's own, not the conversation's.
constexpr std::string_view kTrustedNames[] = {"bos_token", "cls_token", "eos_token",
                                              "pad_token", "sep_token", "unk_token"};

std::string place(std::string_view source, size_t at) {
    const std::string_view before = source.substr(0, at);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t newline = before.rfind('\n');
    const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    return "line " + std::to_string(line) + ", column " +
           std::to_string(1 + count_points(before.substr(start)));
}

// Builds values from JSON; texts are data unless trusted.
class Converter {
  public:
    explicit Converter(Budget& budget) : budget_(budget) {}
    Result<Value> convert(const Json& json, bool trusted, uint32_t depth);

  private:
    Result<Value> text(const std::string& bytes, bool trusted);
    Result<Value> object(const Json& json, bool trusted, uint32_t depth);

    Budget& budget_;
};

Result<Value> Converter::text(const std::string& bytes, bool trusted) {
    if (first_invalid_utf8(bytes) != std::string_view::npos) {
        return bad("a string of the context is not valid UTF-8");
    }
    return make_text(nullptr, MarkedText(bytes, !trusted));
}

Result<Value> Converter::object(const Json& json, bool trusted, uint32_t depth) {
    std::vector<std::pair<Value, Value>> entries;
    entries.reserve(json.size());
    for (const auto& [key, item] : json.get_ref<const Json::object_t&>()) {
        const bool own = depth == 0 && std::find(std::begin(kTrustedNames), std::end(kTrustedNames),
                                                 key) != std::end(kTrustedNames);
        NIB_ASSIGN(Value name, text(key, trusted));
        NIB_ASSIGN(Value value, convert(item, trusted || own, depth + 1));
        entries.emplace_back(std::move(name), std::move(value));
    }
    return make_dict(budget_, std::move(entries));
}

Result<Value> Converter::convert(const Json& json, bool trusted, uint32_t depth) {
    if (depth > budget_.depth_max()) return bad("the context is nested too deep");
    switch (json.type()) {
    case Json::value_t::object:
        return object(json, trusted, depth);
    case Json::value_t::array: {
        std::vector<Value> items;
        items.reserve(json.size());
        for (const Json& item : json) {
            NIB_ASSIGN(Value value, convert(item, trusted, depth + 1));
            items.push_back(std::move(value));
        }
        return make_list(budget_, std::move(items));
    }
    case Json::value_t::string:
        return text(json.get_ref<const std::string&>(), trusted);
    case Json::value_t::boolean:
        return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
        return Value::integer(json.get<int64_t>());
    case Json::value_t::number_unsigned: {
        const auto n = json.get<uint64_t>();
        if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
            return bad("an integer of the context does not fit 64 bits");
        }
        return Value::integer(static_cast<int64_t>(n));
    }
    case Json::value_t::number_float:
        return Value::real(json.get<double>());
    default:
        return Value::none();
    }
}

uint64_t text_bytes(const Json& json, uint32_t depth) {
    if (json.is_string()) return json.get_ref<const std::string&>().size();
    if (!json.is_structured() || depth > 1000) return 8;
    uint64_t n = 8;
    if (json.is_object()) {
        for (const auto& [key, item] : json.get_ref<const Json::object_t&>()) {
            n += key.size() + text_bytes(item, depth + 1);
        }
        return n;
    }
    for (const Json& item : json)
        n += text_bytes(item, depth + 1);
    return n;
}

}  // namespace

struct ChatTemplate::Impl {
    std::string source;
    std::string normalized;
    Tree tree;
};

ChatTemplate::ChatTemplate() : impl_(std::make_unique<Impl>()) {}
ChatTemplate::~ChatTemplate() = default;

const std::string& ChatTemplate::source() const {
    return impl_->source;
}

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::parse(std::string_view source) {
    const auto fail = [](const std::string& where, const std::string& what) {
        return Error{Status::BadFile, "template, " + where + ": " + what};
    };
    if (source.size() > kSourceMax) {
        return Error{Status::BadFile, "template: expected at most " + std::to_string(kSourceMax) +
                                          " bytes, got " + std::to_string(source.size())};
    }
    try {
        const std::shared_ptr<ChatTemplate> out(new ChatTemplate());
        out->impl_->source = source;
        out->impl_->normalized = normalize_newlines(source);
        const std::string& text = out->impl_->normalized;
        if (const size_t at = text.find('\0'); at != std::string::npos) {
            return fail(place(text, at), "a NUL byte");
        }
        if (const size_t at = first_invalid_utf8(text); at != std::string_view::npos) {
            return fail(place(text, at), "not valid UTF-8");
        }
        SyntaxError error;
        if (!parse_template(text, out->impl_->tree, error)) {
            return fail(place(text, error.at), error.message);
        }
        return std::shared_ptr<const ChatTemplate>(out);
    } catch (const std::exception& problem) {
        return Error{Status::OutOfMemory, std::string("template: ") + problem.what()};
    }
}

Result<Rendered> ChatTemplate::render(const Json& context,
                                      int64_t now_unix,
                                      const RenderLimits& limits) const {
    if (!context.is_object()) return bad("template: expected an object as context");
    try {
        Budget budget(limits, text_bytes(context, 0));
        NIB_ASSIGN(Value root, Converter(budget).convert(context, false, 0));
        Evaluator evaluator(impl_->tree, std::move(root), now_unix, budget);
        Result<MarkedText> text = evaluator.run();
        if (!text.ok()) {
            return Error{text.error().status, "template, " +
                                                  place(impl_->normalized, evaluator.error_at()) +
                                                  ": " + text.error().message};
        }
        Rendered out;
        out.text = std::move(text->bytes);
        out.data.reserve(text->data.size());
        for (const MarkedText::Run& run : text->data)
            out.data.push_back({run.begin, run.end});
        return out;
    } catch (const std::exception& problem) {
        return Error{Status::OutOfMemory, std::string("template: ") + problem.what()};
    }
}

}  // namespace nib
