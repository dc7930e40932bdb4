// Errors: one tree of exceptions, and std::expected where the library has it.
#ifndef COMMONHOLD_ERROR_HPP
#define COMMONHOLD_ERROR_HPP

#include <commonhold.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <version>
#if defined(__cpp_lib_expected)
#include <expected>
#endif

namespace commonhold {

// The root of all exceptions here. Its text names the object, the problem and the remedy.
class error : public std::runtime_error {
public:
    error(int code, const std::string &message) : std::runtime_error(message), code_(code) {}
    // A ch_code.
    int code() const noexcept { return code_; }

private:
    int code_;
};

// One class for each code.
template <int Code>
class error_of : public error {
public:
    explicit error_of(const std::string &message) : error(Code, message) {}
};

using not_found = error_of<CH_NOT_FOUND>;
using exists = error_of<CH_EXISTS>;
using full = error_of<CH_FULL>;
using too_large = error_of<CH_TOO_LARGE>;
using closed = error_of<CH_CLOSED>;
using read_only = error_of<CH_READ_ONLY>;
using permission = error_of<CH_PERMISSION>;
using not_a_hold = error_of<CH_NOT_A_HOLD>;
using wrong_version = error_of<CH_VERSION>;
using truncated = error_of<CH_TRUNCATED>;
using damaged = error_of<CH_DAMAGED>;
using unclean = error_of<CH_UNCLEAN>;
using busy = error_of<CH_BUSY>;
using unsupported = error_of<CH_UNSUPPORTED>;
using invalid = error_of<CH_INVALID>;
using mismatch = error_of<CH_MISMATCH>;
using reentrant = error_of<CH_REENTRANT>;
using timed_out = error_of<CH_TIMED_OUT>;
using too_many_participants = error_of<CH_TOO_MANY_PARTICIPANTS>;
using io_error = error_of<CH_IO>;
using lapped = error_of<CH_LAPPED>;
using stale = error_of<CH_STALE>;
using panic = error_of<CH_PANIC>;

namespace detail {

[[noreturn]] inline void fail(int code, const std::string &message) {
    switch (code) {
    case CH_NOT_FOUND: throw not_found(message);
    case CH_EXISTS: throw exists(message);
    case CH_FULL: throw full(message);
    case CH_TOO_LARGE: throw too_large(message);
    case CH_CLOSED: throw closed(message);
    case CH_READ_ONLY: throw read_only(message);
    case CH_PERMISSION: throw permission(message);
    case CH_NOT_A_HOLD: throw not_a_hold(message);
    case CH_VERSION: throw wrong_version(message);
    case CH_TRUNCATED: throw truncated(message);
    case CH_DAMAGED: throw damaged(message);
    case CH_UNCLEAN: throw unclean(message);
    case CH_BUSY: throw busy(message);
    case CH_UNSUPPORTED: throw unsupported(message);
    case CH_INVALID: throw invalid(message);
    case CH_MISMATCH: throw mismatch(message);
    case CH_REENTRANT: throw reentrant(message);
    case CH_TIMED_OUT: throw timed_out(message);
    case CH_TOO_MANY_PARTICIPANTS: throw too_many_participants(message);
    case CH_IO: throw io_error(message);
    case CH_LAPPED: throw lapped(message);
    case CH_STALE: throw stale(message);
    case CH_PANIC: throw panic(message);
    default: throw error(code, message);
    }
}

// Calls a C function with a ch_error as the last argument. True for CH_OK, false for
// CH_NONE.
template <class Function, class... Arguments>
inline bool call(Function function, Arguments &&...arguments) {
    ch_error error; // Filled in by a call that fails.
    int result = function(std::forward<Arguments>(arguments)..., &error);
    if (result > 0) [[unlikely]]
        fail(result, error.message);
    return result == CH_OK;
}

// Stores the exception of a callback, because no exception may pass through the library.
class caught {
public:
    // Runs it; returns `otherwise` if it threw.
    template <class Call, class Value>
    Value keep(Value otherwise, Call &&callback) noexcept {
        try {
            return callback();
        } catch (...) {
            exception_ = std::current_exception();
            return otherwise;
        }
    }
    void rethrow() {
        if (exception_) std::rethrow_exception(std::exchange(exception_, nullptr));
    }
    // Calls a C function that calls back; rethrows the callback's exception first.
    template <class Function, class... Arguments>
    bool call(Function function, Arguments &&...arguments) {
        ch_error error;
        int result = function(std::forward<Arguments>(arguments)..., &error);
        rethrow();
        if (result > 0) fail(result, error.message);
        return result == CH_OK;
    }

private:
    std::exception_ptr exception_;
};

} // namespace detail

#if defined(__cpp_lib_expected)
// An error as a value.
struct failure {
    int code;
    std::string message;
};

template <class T>
using expected = std::expected<T, failure>;

// The result of `callback`, with an error as a value instead of an exception: as_expected([&] {
// return hold.maps().open_or_create("it"); }). For anything here; the most frequent operations also
// have a form that throws no exception internally (map::expected_get()).
template <class Callback>
auto as_expected(Callback &&callback) -> expected<decltype(callback())> {
    try {
        if constexpr (std::is_void_v<decltype(callback())>) {
            callback();
            return {};
        } else {
            return callback();
        }
    } catch (const error &found) {
        return std::unexpected(failure{found.code(), found.what()});
    }
}

namespace detail {
// As call(), without exceptions.
template <class Function, class... Arguments>
inline expected<bool> expected_call(Function function, Arguments &&...arguments) {
    ch_error error;
    int result = function(std::forward<Arguments>(arguments)..., &error);
    if (result > 0) return std::unexpected(failure{result, error.message});
    return result == CH_OK;
}
} // namespace detail
#endif

} // namespace commonhold

#endif
