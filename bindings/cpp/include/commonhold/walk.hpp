// Iterating over a map: its pairs or keys as input ranges, and its changes as they happen.
#ifndef COMMONHOLD_WALK_HPP
#define COMMONHOLD_WALK_HPP

#include <commonhold/bytes.hpp>

#include <iterator>
#include <optional>

namespace commonhold {

// A pair in place; valid until the next one.
struct pair_view {
    std::string_view key;
    std::string_view value;
};

namespace detail {

// An input iterator over the pairs of a ch_iter; `Item` is constructed from key and value.
template <class Item>
class walk_iterator {
public:
    using value_type = Item;
    using difference_type = std::ptrdiff_t;

    walk_iterator() = default;
    explicit walk_iterator(ch_iter *raw) : raw_(raw) { next(); }

    Item operator*() const noexcept {
        if constexpr (std::is_same_v<Item, pair_view>)
            return {as_text(key_), as_text(value_)};
        else
            return as_text(key_);
    }
    walk_iterator &operator++() {
        next();
        return *this;
    }
    void operator++(int) { next(); }
    friend bool operator==(const walk_iterator &it, std::default_sentinel_t) noexcept { return it.over_; }

    // The cursor to resume at (map::pairs(cursor)), and whether no pair will come again.
    std::pair<std::uint64_t, bool> cursor() const {
        std::uint64_t cursor;
        bool exact = call(ch_iter_cursor, raw_.get(), &cursor);
        return {cursor, exact};
    }

private:
    void next() { over_ = !call(ch_iter_next, raw_.get(), &key_, &value_); }

    owned<ch_iter, ch_iter_free> raw_;
    ch_slice key_{nullptr, 0}, value_{nullptr, 0};
    bool over_ = true;
};

} // namespace detail

using pair_iterator = detail::walk_iterator<pair_view>;
using key_iterator = detail::walk_iterator<std::string_view>;

// All pairs of a map, from a cursor on. Must not outlive the map.
class pair_range : public std::ranges::view_base {
public:
    pair_range(const ch_map *map, std::uint64_t cursor) noexcept : map_(map), cursor_(cursor) {}
    pair_iterator begin() const {
        ch_iter *raw;
        detail::call(ch_map_iter, map_, cursor_, &raw);
        return pair_iterator(raw);
    }
    std::default_sentinel_t end() const noexcept { return {}; }

private:
    const ch_map *map_;
    std::uint64_t cursor_;
};

// All keys of a map. Must not outlive the map.
class key_range : public std::ranges::view_base {
public:
    explicit key_range(const ch_map *map) noexcept : map_(map) {}
    key_iterator begin() const {
        ch_iter *raw;
        detail::call(ch_map_keys, map_, &raw);
        return key_iterator(raw);
    }
    std::default_sentinel_t end() const noexcept { return {}; }

private:
    const ch_map *map_;
};

// A change; its bytes are valid until the next one.
struct change {
    ch_change_kind kind;
    std::string_view key;
    std::string_view value;
    std::uint64_t expires_ms;
    std::uint64_t offset;
    std::uint64_t end;

    static change of(const ch_change &raw) noexcept {
        return {ch_change_kind(raw.kind), as_text(raw.key), as_text(raw.value), raw.expires_ms, raw.offset, raw.end};
    }
};

// Follows a map's changes. For one thread at a time.
class follower {
public:
    follower(const ch_map *map, const ch_position *from) {
        ch_follower *raw;
        detail::call(ch_map_follow, map, from, &raw);
        raw_.reset(raw);
    }
    change recv() {
        ch_change raw;
        detail::call(ch_follower_recv, raw_.get(), &raw);
        return change::of(raw);
    }
    std::optional<change> try_recv() {
        ch_change raw;
        if (!detail::call(ch_follower_try_recv, raw_.get(), &raw)) return std::nullopt;
        return change::of(raw);
    }
    template <class Rep, class Period>
    std::optional<change> recv_timeout(std::chrono::duration<Rep, Period> timeout) {
        ch_change raw;
        if (!detail::call(ch_follower_recv_timeout, raw_.get(), detail::nanoseconds(timeout), &raw))
            return std::nullopt;
        return change::of(raw);
    }
    ch_position position() {
        ch_position position;
        detail::call(ch_follower_position, raw_.get(), &position);
        return position;
    }
    ch_position end() {
        ch_position position;
        detail::call(ch_follower_end, raw_.get(), &position);
        return position;
    }
    // The number of pending bytes.
    std::uint64_t lag() {
        std::uint64_t waiting;
        detail::call(ch_follower_lag, raw_.get(), &waiting, nullptr);
        return waiting;
    }

private:
    detail::owned<ch_follower, ch_follower_free> raw_;
};

} // namespace commonhold

#endif
