// SPDX-License-Identifier: MIT
// Errors are values. A function that can fail returns Result<T>: a value, or an Error that says
// what went wrong, where, what was expected and what was found, in one line. No exception crosses
// our functions. NIB_ASSERT is for promises between programmers; nothing from outside may reach it.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

namespace nib {

enum class Status {
    BadFile,      // a model, template, grammar or config file is wrong (exit 2)
    Unsupported,  // well formed, but nothing here can do it (exit 2)
    BadRequest,   // a flag, a prompt or a request field is wrong (exit 2; HTTP 400)
    TooLong,      // a prompt does not fit the context (exit 1; HTTP 400)
    OutOfMemory,  // exit 1; HTTP 503
    Busy,         // too many wait already; later it may work (exit 1; HTTP 429)
    Io,           // the system refused to read or write (exit 1)
    Device,       // a backend failed (exit 1)
    Cancelled,
    Internal,
};

struct [[nodiscard]] Error {
    Status status = Status::Internal;
    std::string message;  // one line, no final newline
};

// What a program ends with when it fails with this status: 2 for usage and input files, else 1.
inline int exit_code(Status status) {
    return status == Status::BadFile || status == Status::Unsupported ||
                   status == Status::BadRequest
               ? 2
               : 1;
}

template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
    Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

    bool ok() const { return std::holds_alternative<T>(state_); }
    explicit operator bool() const { return ok(); }
    T& value() & { return std::get<T>(state_); }
    const T& value() const& { return std::get<T>(state_); }
    T&& value() && { return std::get<T>(std::move(state_)); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    const Error& error() const { return std::get<Error>(state_); }

  private:
    std::variant<T, Error> state_;
};

// A result without a value.
template <>
class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT

    bool ok() const { return ok_; }
    explicit operator bool() const { return ok_; }
    const Error& error() const { return error_; }

  private:
    Error error_;
    bool ok_ = true;
};

namespace detail {
[[noreturn]] inline void assert_failed(const char* what, const char* file, int line) {
    std::fprintf(stderr, "nib: broken promise at %s:%d: %s\n", file, line, what);
    std::abort();
}
}  // namespace detail

}  // namespace nib

#define NIB_CONCAT_(a, b) a##b
#define NIB_CONCAT(a, b)  NIB_CONCAT_(a, b)

// NIB_TRY(expression): returns the error of a Result from the enclosing function.
#define NIB_TRY(...)                                         \
    do {                                                     \
        if (auto nib_try_ = (__VA_ARGS__); !nib_try_.ok()) { \
            return nib_try_.error();                         \
        }                                                    \
    } while (0)

// NIB_ASSIGN(auto x, expression): x = the value, or returns the error.
#define NIB_ASSIGN(target, ...)                             \
    auto NIB_CONCAT(nib_result_, __LINE__) = (__VA_ARGS__); \
    if (!NIB_CONCAT(nib_result_, __LINE__).ok()) {          \
        return NIB_CONCAT(nib_result_, __LINE__).error();   \
    }                                                       \
    target = std::move(NIB_CONCAT(nib_result_, __LINE__)).value()

#define NIB_ASSERT(condition) \
    ((condition) ? void() : ::nib::detail::assert_failed(#condition, __FILE__, __LINE__))
