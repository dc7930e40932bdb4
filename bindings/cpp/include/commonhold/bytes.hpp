// Conversions to bytes, buffers, names, times, handles.
#ifndef COMMONHOLD_BYTES_HPP
#define COMMONHOLD_BYTES_HPP

#include <commonhold/error.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace commonhold {

// Ranges that are bytes in memory.
template <class Range>
concept byte_range = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
                     sizeof(std::ranges::range_value_t<Range>) == 1 &&
                     std::is_trivially_copyable_v<std::ranges::range_value_t<Range>>;

// The caller's bytes, for the duration of a call: a string literal (without its NUL), a
// std::string_view, a span or any contiguous range of bytes.
class bytes_in {
public:
    bytes_in(const char *text) noexcept : bytes_in(std::string_view(text)) {}
    bytes_in(std::string_view text) noexcept : data_(text.data()), size_(text.size()) {}
    bytes_in(const std::string &text) noexcept : bytes_in(std::string_view(text)) {}
    bytes_in(std::nullptr_t) = delete;
    template <byte_range Range>
        requires(!std::is_array_v<std::remove_cvref_t<Range>> && !std::convertible_to<Range, std::string_view>)
    bytes_in(Range &&range) noexcept : data_(std::ranges::data(range)), size_(std::ranges::size(range)) {}

    const void *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    ch_slice slice() const noexcept { return {data_, size_}; }

private:
    const void *data_;
    std::size_t size_;
};

// A view of the bytes of a ch_slice.
inline std::string_view as_text(ch_slice slice) noexcept { return {static_cast<const char *>(slice.data), slice.len}; }
inline std::span<const std::byte> as_bytes(std::string_view text) noexcept {
    return {reinterpret_cast<const std::byte *>(text.data()), text.size()};
}

// A reusable buffer: calls fill it without an allocation once it is large enough.
class bytes {
public:
    bytes() noexcept : raw_{nullptr, 0, 0} {}
    bytes(bytes &&other) noexcept : raw_(std::exchange(other.raw_, ch_bytes{nullptr, 0, 0})) {}
    bytes &operator=(bytes &&other) noexcept {
        std::swap(raw_, other.raw_);
        return *this;
    }
    ~bytes() { ch_bytes_free(&raw_); }

    std::size_t size() const noexcept { return raw_.len; }
    bool empty() const noexcept { return raw_.len == 0; }
    std::byte *data() const noexcept { return static_cast<std::byte *>(raw_.data); }
    std::byte *begin() const noexcept { return data(); }
    std::byte *end() const noexcept { return data() + size(); }
    std::string_view text() const noexcept { return {static_cast<const char *>(raw_.data), raw_.len}; }
    std::string string() const { return std::string(text()); }
    // For the functions of commonhold.h.
    ch_bytes *raw() noexcept { return &raw_; }

private:
    ch_bytes raw_;
};

namespace detail {

// A name for C, terminated by a NUL.
class name {
public:
    name(std::string_view text) : text_(text) {
        if (text_.find('\0') != std::string::npos) fail(CH_INVALID, "expected a name without NUL, got \"" + text_ + "\"");
    }
    operator const char *() const noexcept { return text_.c_str(); }

private:
    std::string text_;
};

template <class Rep, class Period>
std::uint64_t nanoseconds(std::chrono::duration<Rep, Period> time) noexcept {
    using wide = std::chrono::duration<long double, std::nano>;
    long double count = std::chrono::duration_cast<wide>(time).count();
    if (count <= 0) return 0;
    return count >= 18e18L ? CH_FOREVER : static_cast<std::uint64_t>(count);
}

template <class Rep, class Period>
std::uint64_t milliseconds(std::chrono::duration<Rep, Period> time) noexcept {
    auto count = std::chrono::ceil<std::chrono::milliseconds>(time).count();
    return count <= 0 ? 0 : static_cast<std::uint64_t>(count);
}

// A C handle that frees itself.
template <auto Free>
struct freed_by {
    template <class Handle>
    void operator()(Handle *handle) const noexcept {
        Free(handle);
    }
};
template <class Handle, auto Free>
using owned = std::unique_ptr<Handle, freed_by<Free>>;

// Text that a C function writes into a buffer.
template <class Function, class... Arguments>
std::string text_of(Function function, Arguments &&...arguments) {
    bytes out;
    call(function, std::forward<Arguments>(arguments)..., out.raw());
    return out.string();
}

} // namespace detail
} // namespace commonhold

#endif
